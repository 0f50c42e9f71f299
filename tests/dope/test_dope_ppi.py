"""Pose proposals integration and handedness against the original code's results on synthetic input."""

from __future__ import annotations

import numpy as np
import pytest
from support.dope.units import UnitCase, unit_cases

from tasks.extractors.dope.joints import JOINT_COUNT, Part
from tasks.extractors.dope.options import ppi_options
from tasks.extractors.dope.postprocessing import Candidates, integrate

HAND_CASES = [case for case in unit_cases() if case.part is Part.HAND]


def test_all_unit_cases_are_there() -> None:
    assert len(unit_cases()) == 26


@pytest.mark.parametrize("case", unit_cases(), ids=str)
def test_equals_the_original(case: UnitCase) -> None:
    poses = integrate(case.candidates, case.options)
    assert len(poses) == len(case.expected("score"))
    np.testing.assert_allclose(poses.score, case.expected("score"), rtol=0, atol=1e-5)
    np.testing.assert_allclose(poses.pose2d, case.expected("pose2d"), rtol=0, atol=1e-3)
    np.testing.assert_allclose(poses.pose3d, case.expected("pose3d"), rtol=0, atol=1e-5)
    assert (np.diff(poses.score) <= 0).all()
    assert {poses.score.dtype, poses.pose2d.dtype, poses.pose3d.dtype} == {np.dtype(np.float32)}


@pytest.mark.parametrize("case", HAND_CASES, ids=str)
def test_handedness_is_the_label_of_the_centre(case: UnitCase) -> None:
    is_right = integrate(case.candidates, case.options).label < case.options.first_kind
    np.testing.assert_array_equal(is_right, case.expected("isright_correct"))


def test_handedness_differs_from_upstreams_bug() -> None:
    """Upstream looks the label up in the wrong list; were we to copy that, this would find no difference."""
    differing = 0
    for case in HAND_CASES:
        is_right = integrate(case.candidates, case.options).label < case.options.first_kind
        differing += int((is_right != case.expected("isright_upstream")).sum())
    assert differing == sum(
        int((case.expected("isright_correct") != case.expected("isright_upstream")).sum()) for case in HAND_CASES
    )
    assert differing > 0


def _candidates(part: Part, scores: list[float], pose3d: float = 0.0) -> Candidates:
    count, joints = len(scores), JOINT_COUNT[part]
    return Candidates(
        score=np.array(scores, np.float32),
        box=np.tile(np.array([0, 0, 10, 10], np.float32), (count, 1)),
        pose2d=np.zeros((count, joints, 2), np.float32),
        pose3d=np.full((count, joints, 3), pose3d, np.float32),
        label=np.zeros(count, np.int64),
        proposal=np.arange(count),
    )


def test_no_candidates_no_detections() -> None:
    poses = integrate(_candidates(Part.BODY, []), ppi_options({}, Part.BODY, 5))
    assert poses.pose2d.shape == (0, 13, 2)
    assert poses.pose3d.shape == (0, 13, 3)


def test_score_is_a_sum_and_needs_to_exceed_the_threshold() -> None:
    candidates = _candidates(Part.FACE, [0.5, 0.75, 0.25])
    assert integrate(candidates, ppi_options({"th_persondetect": 1.4}, Part.FACE, 5)).score.tolist() == [1.5]
    assert len(integrate(candidates, ppi_options({"th_persondetect": 1.5}, Part.FACE, 5))) == 0


def test_ends_on_poses_that_are_not_finite() -> None:
    """NaN is not similar even to itself; upstream would loop for ever."""
    candidates = _candidates(Part.HAND, [0.5, 0.75], pose3d=float("nan"))
    assert len(integrate(candidates, ppi_options({}, Part.HAND, 5))) == 0


@pytest.mark.parametrize(("limit", "detections"), [(0.33, 1), (0.34, 2)])
def test_a_box_includes_its_last_pixel(limit: float, detections: int) -> None:
    """Two boxes of 10 x 10 pixels share half of each: 50 of 150."""
    candidates = _candidates(Part.FACE, [0.5, 0.75])
    candidates.box[:] = [[0, 0, 9, 9], [5, 0, 14, 9]]
    assert len(integrate(candidates, ppi_options({"th_iou": limit}, Part.FACE, 5))) == detections
