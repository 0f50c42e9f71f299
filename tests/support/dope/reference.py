"""The original code's results, under two rules for the border, and how far an implementation may be from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.network import FramePoses
from tasks.extractors.dope.settings import DopeSettings, PostProcessing, RoiBorder

# Stage by stage, largest absolute difference.
STAGE_LIMITS = {
    "input_sub": 1e-5,
    "c4_sub": 5e-4,
    "rpn_obj_sub": 1e-3,
    "rpn_box_sub": 1e-4,
    "roi_sub": 5e-3,
    "head_sub": 3e-3,
}


@dataclass(frozen=True)
class Limits:
    """Largest absolute differences: pixels, probabilities, units of the 3D poses.

    What NMS detects are raw poses, not averages, so for them the limits of raw poses hold.
    """

    box: float = 0.02
    score: float = 2e-3
    raw_2d: float = 0.15
    raw_3d: float = 3e-4
    ppi_2d: float = 0.05
    ppi_3d: float = 5e-5

    def detected(self, how: PostProcessing) -> Mapping[str, float]:
        pose2d, pose3d = (self.ppi_2d, self.ppi_3d) if how is PostProcessing.PPI else (self.raw_2d, self.raw_3d)
        return {"score": self.score, "pose2d": pose2d, "pose3d": pose3d}


LIMITS = {name: Limits() for name in ("r0", "r1", "r2", "r4", "r5", "r6")} | {"r3": Limits(ppi_2d=0.1)}


class Reference:
    """The arrays of a file by run and name, and the rule for the border under which they were made."""

    def __init__(self, arrays: Mapping[str, np.ndarray], border: RoiBorder) -> None:
        self.arrays = arrays
        self.border = border
        self.meta = json.loads(str(arrays["meta_json"]))

    def frame(self, run: str) -> np.ndarray:
        return self.arrays[f"image{self.meta[run]['image']}"]

    def settings(self, run: str, **more: Any) -> DopeSettings:
        config = self.meta[run]["config"]
        return DopeSettings(
            min_size=config.get("min_size"),
            max_size=config.get("max_size"),
            rpn_post_nms_top_n=config.get("rpn_post_nms_top_n_test"),
            batch_norm_eps=config.get("eps", 1e-5),
            roi_border=self.border,
            **more,
        )

    def __getitem__(self, key: str) -> np.ndarray:
        return self.arrays[key]

    def detected(self, run: str, how: PostProcessing, part: Part, name: str) -> np.ndarray:
        """Detections before hands and faces are given to bodies."""
        return self.arrays[f"{run}/{how.value}/{part.value}_{name}"]

    def nearest_boxes(self, run: str, poses: FramePoses) -> np.ndarray:
        """For every box of the reference the number of the nearest of ours: neighbours of equal score swap places."""
        expected = self.arrays[f"{run}/boxes"]
        return np.abs(expected[:, None] - poses.boxes.numpy()[None]).max(-1).argmin(1)


def worst(ours: Any, expected: np.ndarray) -> float:
    """Largest absolute difference."""
    return float(np.abs(np.asarray(ours) - expected).max(initial=0.0))


def check_raw_poses(poses: FramePoses, reference: Reference, run: str) -> None:
    """The network's output, all boxes and poses of all parts."""
    limits, nearest = LIMITS[run], reference.nearest_boxes(run, poses)
    assert len(poses.boxes) == reference.meta[run]["N"]
    assert len(set(nearest)) == len(nearest)
    assert worst(poses.boxes[nearest], reference[f"{run}/boxes"]) <= limits.box
    stored = nearest[reference[f"{run}/proposal_idx"]]
    for part in Part:
        ours, key = poses.parts[part], f"{run}/{part.value}"
        assert worst(ours.scores[nearest], reference[f"{key}_scores"]) <= limits.score
        for name, limit in (("pose2d", limits.raw_2d), ("pose3d", limits.raw_3d)):
            numbers = getattr(ours, name)
            assert worst(numbers[stored], reference[f"{key}_{name}"]) <= limit
            sums = numbers[nearest].double().sum((1, 2, 3))
            mean_error = worst(sums, reference[f"{key}_{name}_rowsum"]) / numbers[0].numel()
            assert mean_error <= limit
