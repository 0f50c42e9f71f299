"""Several frames at once give what each gives alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.dope.reference import LIMITS, Reference, check_raw_poses

from tasks.extractors.dope.checkpoint import Checkpoint
from tasks.extractors.dope.detector import DopeDetector
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.network import frame_size, network_input
from tasks.extractors.dope.people import FrameDetections
from tasks.extractors.dope.settings import PostProcessing

pytestmark = pytest.mark.usefixtures("layers_once")

LIMIT = LIMITS["r0"]


@pytest.fixture(scope="module")
def detector(reference: Reference, fake_model: Checkpoint, layers_once: None) -> DopeDetector:
    return DopeDetector(fake_model, reference.settings("r0", frames_per_pass=4))


@pytest.fixture(scope="module")
def alone(detector: DopeDetector) -> Callable[[np.ndarray], FrameDetections]:
    """What is found in one frame by itself; each is looked at once."""
    found: dict[bytes, FrameDetections] = {}

    def detect(frame: np.ndarray) -> FrameDetections:
        content = np.ascontiguousarray(frame).tobytes()
        if content not in found:
            (found[content],) = detector.detect([frame])
        return found[content]

    return detect


def assert_same(ours: FrameDetections, theirs: FrameDetections) -> None:
    for part in Part:
        a, b = ours.parts[part], theirs.parts[part]
        np.testing.assert_array_equal(a.label, b.label)
        np.testing.assert_array_equal(a.members, b.members)
        for name, limit in LIMIT.detected(PostProcessing.PPI).items():
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=limit)
    for name in ("hand_is_right", "hands_of_body", "face_of_body"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.slow
def test_frames_of_one_video(detector: DopeDetector, reference: Reference, alone: Callable) -> None:
    frame = reference.frame("r0")
    frames = np.stack([frame[:, ::-1], frame])
    for found, each in zip(detector.detect(frames), frames, strict=True):
        assert_same(found, alone(each))
    images = network_input(list(frames[:2]), detector.options, detector.device)
    check_raw_poses(detector.network(images, [frame_size(frame)] * 2)[1], reference, "r0")


@pytest.mark.slow
def test_frames_of_different_sizes(detector: DopeDetector, reference: Reference, alone: Callable) -> None:
    """Padded to one common size, the smaller ones would come out different."""
    frames = [reference["image1"], reference["image0"], reference["image2"]]
    together = detector.detect(frames)
    for found, frame in zip(together, frames, strict=True):
        assert_same(found, alone(frame))
    expected = {part: len(reference[f"r0/ppi/{part.value}_score"]) for part in Part}
    assert {part: len(together[1].parts[part]) for part in Part} == expected


@pytest.mark.slow
def test_passes_of_any_size(alone: Callable, reference: Reference, fake_model: Checkpoint) -> None:
    frames = np.stack([reference["image2"], reference["image3"], reference["image2"]])
    settings = reference.settings("r0", frames_per_pass=2, boxes_per_pass=33)
    in_small_passes = DopeDetector(fake_model, settings).detect(frames)
    for found, frame in zip(in_small_passes, frames, strict=True):
        assert_same(found, alone(frame))
