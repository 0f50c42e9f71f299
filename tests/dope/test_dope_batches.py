"""Several frames at once give what each gives alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.dope.reference import LIMITS, Reference

from tasks.extractors.dope.checkpoint import Checkpoint
from tasks.extractors.dope.detector import DopeDetector
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.people import FrameDetections
from tasks.extractors.dope.settings import DopeSettings, PostProcessing

pytestmark = [pytest.mark.usefixtures("layers_once"), pytest.mark.slow]

LIMIT = LIMITS["r0"]
BOXES = 60  # of about 200 that are found: most of a frame's time goes into its boxes


def settings_of(reference: Reference, **more: int) -> DopeSettings:
    return reference.settings("r0").model_copy(update={"rpn_post_nms_top_n": BOXES, **more})


@pytest.fixture(scope="module")
def detector(reference: Reference, fake_model: Checkpoint, layers_once: None) -> DopeDetector:
    return DopeDetector(fake_model, settings_of(reference, frames_per_pass=4))


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
    assert sum(len(ours.parts[part]) for part in Part) > 2
    for part in Part:
        a, b = ours.parts[part], theirs.parts[part]
        np.testing.assert_array_equal(a.label, b.label)
        np.testing.assert_array_equal(a.members, b.members)
        for name, limit in LIMIT.detected(PostProcessing.PPI).items():
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=limit)
    for name in ("hand_is_right", "hands_of_body", "face_of_body"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_frames_of_one_video(detector: DopeDetector, reference: Reference, alone: Callable) -> None:
    frame = reference.frame("r0")
    frames = np.stack([frame[:, ::-1], frame])
    for found, each in zip(detector.detect(frames), frames, strict=True):
        assert_same(found, alone(each))


def test_frames_of_different_sizes(detector: DopeDetector, reference: Reference, alone: Callable) -> None:
    """Padded to one common size, the smaller ones would come out different."""
    frames = [reference["image1"], reference["image0"], reference["image2"]]
    for found, frame in zip(detector.detect(frames), frames, strict=True):
        assert_same(found, alone(frame))


def test_passes_of_any_size(alone: Callable, reference: Reference, fake_model: Checkpoint) -> None:
    frames = np.stack([reference["image2"], reference["image3"], reference["image2"]])
    settings = settings_of(reference, frames_per_pass=2, boxes_per_pass=33)
    in_small_passes = DopeDetector(fake_model, settings).detect(frames)
    for found, frame in zip(in_small_passes, frames, strict=True):
        assert_same(found, alone(frame))
