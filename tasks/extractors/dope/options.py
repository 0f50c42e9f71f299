"""What a DOPE checkpoint file configures: the network's options and, part by part, the post-processing's.

The defaults are those of the published program for what a file leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from storyframes.features import BODY_JOINTS
from tasks.extractors.dope.joints import BODY_MIRROR, Part


def _five_per_part() -> Mapping[Part, float]:
    return dict.fromkeys(Part, 5.0)


@dataclass(frozen=True)
class NetworkOptions:
    """The network's sizes and thresholds.

    Attributes:
        num_anchor_poses: K, anchor poses of each part.
        min_size: pixels; frames are resized so that their shorter side has this length ...
        max_size: ... unless the longer side would become longer than this.
        image_mean: of red, green, blue in 0..1, subtracted before resizing.
        image_std: of red, green, blue in 0..1, divided by before resizing.
        rpn_pre_nms_top_n: boxes that enter non-maximum suppression.
        rpn_post_nms_top_n: boxes that may leave it.
        rpn_nms_thresh: largest intersection over union of two boxes.
        pose2d_reg_weights: what the regressed 2D offsets are divided by.
        pose3d_reg_weights: what the regressed 3D offsets are divided by.
    """

    num_anchor_poses: Mapping[Part, int]
    min_size: int = 800
    max_size: int = 1333
    image_mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    image_std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    rpn_pre_nms_top_n: int = 1000
    rpn_post_nms_top_n: int = 1000
    rpn_nms_thresh: float = 0.7
    pose2d_reg_weights: Mapping[Part, float] = field(default_factory=_five_per_part)
    pose3d_reg_weights: Mapping[Part, float] = field(default_factory=_five_per_part)

    def __post_init__(self) -> None:
        for part, count in self.num_anchor_poses.items():
            _require(count >= 1, f"num_anchor_poses[{part.value}] = {count}", "at least 1")
        _require(self.min_size >= 1, f"min_size = {self.min_size}", "at least 1 pixel")
        _require(self.max_size >= self.min_size, f"max_size = {self.max_size}", f"at least min_size, {self.min_size}")
        _require(min(self.image_std) > 0, f"image_std = {self.image_std}", "positive")
        _require(self.rpn_pre_nms_top_n >= 1, f"rpn_pre_nms_top_n = {self.rpn_pre_nms_top_n}", "at least 1")
        _require(self.rpn_post_nms_top_n >= 1, f"rpn_post_nms_top_n = {self.rpn_post_nms_top_n}", "at least 1")
        _require(0 <= self.rpn_nms_thresh <= 1, f"rpn_nms_thresh = {self.rpn_nms_thresh}", "in 0..1")
        for weights in (self.pose2d_reg_weights, self.pose3d_reg_weights):
            _require(min(weights.values()) > 0, f"regression weights {list(weights.values())}", "positive")


class GroupingRule(Enum):
    """Which candidates PPI takes for the same body, hand or face; the value is its name in checkpoint files.

    The first two compare proposal boxes, the others 2D joints; in the ``..._LR`` ones a candidate may be mirrored.
    """

    BBOX = "bbox"
    BBOX_TORSOHEAD = "bbox_torsohead"  # upstream treats it exactly as BBOX
    ALL_JOINTS = "mje"
    TORSO = "torso"
    TORSO_LR = "torsoLR"
    TORSO_HEAD = "torsohead"
    TORSO_HEAD_LR = "torsoheadLR"
    HEAD = "head"
    SHOULDER_HEAD = "shoulderhead"
    SHOULDER_HEAD_LR = "shoulderheadLR"

    @property
    def compares_boxes(self) -> bool:
        return self in (GroupingRule.BBOX, GroupingRule.BBOX_TORSOHEAD)

    @property
    def joints(self) -> tuple[int, ...] | None:
        """The body joints compared; None means all joints, of any part."""
        return _COMPARED.get(self)

    @property
    def mirrored_joints(self) -> tuple[int, ...] | None:
        """The body joints of a mirrored candidate, in the order of ``joints``; None where mirroring does not count."""
        if self not in (GroupingRule.TORSO_LR, GroupingRule.TORSO_HEAD_LR, GroupingRule.SHOULDER_HEAD_LR):
            return None
        return tuple(BODY_MIRROR[joint] for joint in _COMPARED[self])


_HIPS = (BODY_JOINTS.index("right_hip"), BODY_JOINTS.index("left_hip"))
_SHOULDERS = (BODY_JOINTS.index("right_shoulder"), BODY_JOINTS.index("left_shoulder"))
_HEAD = (BODY_JOINTS.index("head"),)
_COMPARED: Mapping[GroupingRule, tuple[int, ...]] = {
    GroupingRule.TORSO: _HIPS + _SHOULDERS,
    GroupingRule.TORSO_LR: _HIPS + _SHOULDERS,
    GroupingRule.TORSO_HEAD: _HIPS + _SHOULDERS + _HEAD,
    GroupingRule.TORSO_HEAD_LR: _HIPS + _SHOULDERS + _HEAD,
    GroupingRule.HEAD: _HEAD,
    GroupingRule.SHOULDER_HEAD: _SHOULDERS + _HEAD,
    GroupingRule.SHOULDER_HEAD_LR: _SHOULDERS + _HEAD,
}


@dataclass(frozen=True)
class PpiOptions:
    """Pose proposals integration (PPI) of one part. See :mod:`tasks.extractors.dope.ppi` for the algorithm.

    Attributes:
        part: which part.
        first_kind: number of anchor poses of the first kind: full bodies (then upper bodies), right hands (then left).
        score_th: smallest score of a candidate.
        th_iou: candidates that overlap by more than this (compared by joints: differ by less) are one group.
        rule: how overlap is measured.
        th_pose3d: candidates of one mode differ by less than this, mean over joints, in the unit of the 3D poses.
        min_mode_score: a further mode of a group starts from a candidate of at least this score.
        th_persondetect: smallest sum of scores of a detection, exclusive.
    """

    part: Part
    first_kind: int
    score_th: float
    th_iou: float = 0.2
    rule: GroupingRule = GroupingRule.BBOX
    th_pose3d: float = 0.3
    min_mode_score: float = 0.05
    th_persondetect: float = 0.002

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", Part(self.part))  # their names will do
        object.__setattr__(self, "rule", GroupingRule(self.rule))
        _require(self.th_pose3d > 0, f"th_pose3D = {self.th_pose3d}", "positive, or no pose is similar even to itself")
        if self.part is not Part.BODY:
            any_part = self.rule.compares_boxes or self.rule is GroupingRule.ALL_JOINTS
            _require(any_part, f"iou_func = {self.rule.value!r} for a {self.part.value}", "'bbox' or 'mje'")


def _require(holds: bool, what: str, rule: str) -> None:
    if not holds:
        raise ValueError(f"{what}; it must be {rule}")
