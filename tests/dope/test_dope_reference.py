"""The whole of DOPE against the original code, with the fake model: stage by stage, raw output, detections."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from support.dope.reference import LIMITS, STAGE_LIMITS, Reference, check_raw_poses, worst

from tasks.extractors.dope.checkpoint import Checkpoint
from tasks.extractors.dope.detector import DopeDetector
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.layers import STRIDE
from tasks.extractors.dope.network import BINS, FramePoses, frame_size, network_input
from tasks.extractors.dope.people import FrameDetections
from tasks.extractors.dope.postprocessing import frame_detections, part_detections
from tasks.extractors.dope.roi_ops import roi_align
from tasks.extractors.dope.settings import DopeSettings, PostProcessing, RoiBorder
from tasks.extractors.settings import EngineName

pytestmark = [pytest.mark.usefixtures("layers_once"), pytest.mark.slow]

RunKey = tuple[EngineName, RoiBorder, str]
SMALL_RUNS: list[RunKey] = [
    *((EngineName.OPENVINO, RoiBorder.ZERO, name) for name in ("r0", "r1", "r2", "r4", "r5", "r6")),
    *((EngineName.OPENVINO, RoiBorder.REPEAT, name) for name in ("r1", "r4")),
    (EngineName.TORCH, RoiBorder.ZERO, "r5"),
    (EngineName.TORCH, RoiBorder.REPEAT, "r2"),
]


class Run:
    """One run of the reference, computed once."""

    def __init__(self, name: str, reference: Reference, model: Checkpoint, engine: EngineName) -> None:
        self.name, self.reference = name, reference
        self.detector = DopeDetector(model, reference.settings(name, engine=engine))
        frame = reference.frame(name)
        self.images = network_input([frame], self.detector.options, self.detector.device)
        self.poses: FramePoses = self.detector.network(self.images, [frame_size(frame)])[0]

    def settings(self, how: PostProcessing) -> DopeSettings:
        return self.reference.settings(self.name, post_processing=how)

    def check_parts(self, how: PostProcessing) -> None:
        """Detections before assignment: as many, the same anchor poses, the same numbers."""
        for part in Part:
            ours = part_detections(self.poses, self.detector.ppi[part], self.settings(how))
            label = "center_label" if how is PostProcessing.PPI else "label"
            np.testing.assert_array_equal(ours.label, self.reference.detected(self.name, how, part, label))
            for name, limit in LIMITS[self.name].detected(how).items():
                assert worst(getattr(ours, name), self.reference.detected(self.name, how, part, name)) <= limit

    def detections(self, how: PostProcessing) -> FrameDetections:
        return frame_detections(self.poses, self.detector.ppi, self.settings(how))


@pytest.fixture(scope="module")
def run_once(
    reference: Reference, repeating: Reference, fake_model: Checkpoint, layers_once: None
) -> Callable[[RunKey], Run]:
    """One run of the reference; each is computed once."""

    @cache
    def run(key: RunKey) -> Run:
        engine, border, name = key
        return Run(name, repeating if border is RoiBorder.REPEAT else reference, fake_model, engine)

    return run


@pytest.mark.parametrize("key", SMALL_RUNS, ids="-".join)
def test_everything_of_a_run(key: RunKey, run_once: Callable[[RunKey], Run]) -> None:
    run = run_once(key)
    check_stages(run)
    check_raw_poses(run.poses, run.reference, run.name)
    check_ppi(run)
    check_nms(run)


@pytest.mark.end_to_end
def test_the_smallest_run_from_the_frame_to_its_detections(run_once: Callable[[RunKey], Run]) -> None:
    run = run_once((EngineName.OPENVINO, RoiBorder.ZERO, "r2"))
    check_raw_poses(run.poses, run.reference, run.name)
    check_ppi(run)
    check_nms(run)
    (found,), expected = run.detector.detect([run.reference.frame("r2")]), run.detections(PostProcessing.PPI)
    for part in Part:
        np.testing.assert_array_equal(found.parts[part].pose2d, expected.parts[part].pose2d)
    np.testing.assert_array_equal(found.hands_of_body, expected.hands_of_body)


@pytest.mark.parametrize("name", ["r1", "r4"])
def test_the_rules_for_the_border_differ_where_boxes_reach_beyond_it(
    name: str, run_once: Callable[[RunKey], Run]
) -> None:
    zero, repeat = (run_once((EngineName.OPENVINO, border, name)) for border in (RoiBorder.ZERO, RoiBorder.REPEAT))
    differ = (zero.poses.parts[Part.BODY].scores != repeat.poses.parts[Part.BODY].scores).any(1)
    assert int(differ.sum()) == zero.reference.meta[name]["out_of_map"]["boxes"]


def check_stages(run: Run) -> None:
    name, reference, network = run.name, run.reference, run.detector.network
    assert tuple(run.images.image_sizes[0]) == tuple(reference[f"{name}/resized_hw"])
    assert tuple(run.images.tensors.shape) == tuple(reference[f"{name}/input_shape"])
    chosen = reference.nearest_boxes(name, run.poses)[reference[f"{name}/proposal_idx"][:20]]
    with torch.inference_mode():
        maps = network.layers.of_frames(run.images.tensors)
        features, objectness, deltas = maps.features, maps.objectness, maps.deltas
        boxes = network.proposals(run.images, maps.objectness, maps.deltas)[0][chosen]
        crops = roi_align(features, boxes, torch.zeros(len(boxes)), BINS, 1 / STRIDE, reference.border)
        vectors = network.box_numbers(features, [boxes])[0].vectors
    ours = {
        "input_sub": run.images.tensors[0, :, ::8, ::8],
        "c4_sub": features[0, ::64, ::3, ::3],
        "rpn_obj_sub": objectness[0, :, ::2, ::2],
        "rpn_box_sub": deltas[0, :, ::4, ::4],
        "roi_sub": crops[:, ::128],
        "head_sub": vectors[:, ::16],
    }
    differences = {stage: worst(numbers, reference[f"{name}/{stage}"]) for stage, numbers in ours.items()}
    assert {stage for stage, limit in STAGE_LIMITS.items() if differences[stage] > limit} == set(), differences


def check_ppi(run: Run) -> None:
    reference = run.reference
    run.check_parts(PostProcessing.PPI)
    found, limits = run.detections(PostProcessing.PPI), LIMITS[run.name]
    for part in Part:
        members = reference.detected(run.name, PostProcessing.PPI, part, "members")
        np.testing.assert_array_equal(found.parts[part].members, members)
    np.testing.assert_array_equal(found.hand_is_right, reference[f"{run.name}/ppi/hand_isright_correct"])
    assert (found.hand_is_right != reference[f"{run.name}/ppi/hand_isright_upstream"]).any(), "upstream's bug is back"
    np.testing.assert_array_equal(found.hands_of_body, reference[f"{run.name}/assign/wrists_left_right"])
    np.testing.assert_array_equal(found.face_of_body, reference[f"{run.name}/assign/head"])
    assert worst(found.parts[Part.BODY].pose2d, reference[f"{run.name}/assign/body_pose2d"]) <= limits.ppi_2d


def check_nms(run: Run) -> None:
    run.check_parts(PostProcessing.NMS)
    hand_is_right = run.detections(PostProcessing.NMS).hand_is_right
    np.testing.assert_array_equal(hand_is_right, run.reference[f"{run.name}/nms/hand_isright_correct"])


def test_default_size(reference: Reference, repeating: Reference, fake_model: Checkpoint) -> None:
    run = Run("r3", reference, fake_model, EngineName.OPENVINO)
    check_raw_poses(run.poses, reference, "r3")
    check_ppi(run)
    check_nms(run)
    run.reference = repeating  # no box of this one reaches beyond the border, so both rules give the same
    check_raw_poses(run.poses, repeating, "r3")
    check_ppi(run)
    check_nms(run)
