"""What a DOPE model file configures: the network's options and, for each part, those of the post-processing.

The file's option dicts (``dope_kwargs``, ``*_ppi_kwargs``) are converted and checked here. What a file leaves out has
the published program's defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from storyframes.features import BODY_JOINTS
from tasks.extractors.dope.joints import BODY_MIRROR, Part


def _five_per_part() -> Mapping[Part, float]:
    return dict.fromkeys(Part, 5.0)


@dataclass(frozen=True)
class NetworkOptions:
    """The network's sizes and thresholds."""

    num_anchor_poses: Mapping[Part, int]  # K, anchor poses of each part
    min_size: int = 800  # pixels; frames are resized so that their shorter side has this length
    max_size: int = 1333  # pixels, of the longer side; a frame whose longer side would exceed it becomes smaller
    # of red, green, blue in 0..1, subtracted before resizing
    image_mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    # of red, green, blue in 0..1, divided by before resizing
    image_std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    rpn_pre_nms_top_n: int = 1000  # boxes that enter non-maximum suppression
    rpn_post_nms_top_n: int = 1000  # boxes that may leave it
    rpn_nms_thresh: float = 0.7  # largest intersection over union of two boxes
    # what the regressed 2D offsets are divided by
    pose2d_reg_weights: Mapping[Part, float] = field(default_factory=_five_per_part)
    # what the regressed 3D offsets are divided by
    pose3d_reg_weights: Mapping[Part, float] = field(default_factory=_five_per_part)

    def __post_init__(self) -> None:
        for part, count in self.num_anchor_poses.items():
            _require(count >= 1, f"num_anchor_poses[{part.value}] = {count}", "at least 1")
        for name in ("min_size", "rpn_pre_nms_top_n", "rpn_post_nms_top_n"):
            _require(getattr(self, name) >= 1, f"{name} = {getattr(self, name)}", "at least 1")
        _require(self.max_size >= self.min_size, f"max_size = {self.max_size}", f"at least min_size, {self.min_size}")
        _require(min(self.image_std) > 0, f"image_std = {self.image_std}", "positive")
        _require(0 <= self.rpn_nms_thresh <= 1, f"rpn_nms_thresh = {self.rpn_nms_thresh}", "in 0..1")
        for weights in (self.pose2d_reg_weights, self.pose3d_reg_weights):
            _require(min(weights.values()) > 0, f"regression weights {list(weights.values())}", "positive")


class GroupingRule(Enum):
    """Which candidates PPI takes for the same body, hand or face; the value is its name in model files.

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
        return _COMPARED.get(self.value.removesuffix("LR"))

    @property
    def mirrored_joints(self) -> tuple[int, ...] | None:
        """The body joints of a mirrored candidate, in the order of ``joints``; None where mirroring does not count."""
        if not self.value.endswith("LR"):
            return None
        return tuple(BODY_MIRROR[joint] for joint in self.joints or ())


_HIPS = (BODY_JOINTS.index("right_hip"), BODY_JOINTS.index("left_hip"))
_SHOULDERS = (BODY_JOINTS.index("right_shoulder"), BODY_JOINTS.index("left_shoulder"))
_HEAD = (BODY_JOINTS.index("head"),)
_COMPARED: Mapping[str, tuple[int, ...]] = {
    "torso": _HIPS + _SHOULDERS,
    "torsohead": _HIPS + _SHOULDERS + _HEAD,
    "head": _HEAD,
    "shoulderhead": _SHOULDERS + _HEAD,
}


@dataclass(frozen=True)
class PpiOptions:
    """Pose proposals integration (PPI) of one part; the algorithm is in :mod:`tasks.extractors.dope.postprocessing`."""

    part: Part
    # number of anchor poses of the first kind: full bodies (then upper bodies), right hands (then left)
    first_kind: int
    score_th: float  # smallest score of a candidate
    th_iou: float = 0.2  # candidates that overlap by more than this (compared by joints: differ by less) are one group
    rule: GroupingRule = GroupingRule.BBOX  # how overlap is measured
    # candidates of one mode differ by less than this, mean over joints, in the unit of the 3D poses
    th_pose3d: float = 0.3
    min_mode_score: float = 0.05  # a further mode of a group starts from a candidate of at least this score
    th_persondetect: float = 0.002  # smallest sum of scores of a detection, exclusive

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", Part(self.part))  # a name becomes the member
        object.__setattr__(self, "rule", GroupingRule(self.rule))
        _require(self.th_pose3d > 0, f"th_pose3D = {self.th_pose3d}", "positive, or no pose is similar even to itself")
        if self.part is not Part.BODY:
            any_part = self.rule.compares_boxes or self.rule is GroupingRule.ALL_JOINTS
            _require(any_part, f"iou_func = {self.rule.value!r} for a {self.part.value}", "'bbox' or 'mje'")


def _require(holds: bool, what: str, rule: str) -> None:
    if not holds:
        raise ValueError(f"{what}; it must be {rule}")


def network_options(dope_kwargs: Mapping[str, Any]) -> NetworkOptions:
    """``dope_kwargs`` of a model file.

    Raises:
        ValueError: an unknown key, a value of the wrong type or out of its range, or no ``num_anchor_poses``.
    """
    if "num_anchor_poses" not in dope_kwargs:
        raise ValueError("dope_kwargs has no 'num_anchor_poses'; it must give a number for body, hand and face")
    try:
        return NetworkOptions(**_converted(dope_kwargs, _NETWORK_VALUES, ignored=_TRAINING_ONLY))
    except ValueError as error:
        raise ValueError(f"dope_kwargs: {error}") from error


def ppi_options(ppi_kwargs: Mapping[str, Any], part: Part, num_anchor_poses: int) -> PpiOptions:
    """``{part}_ppi_kwargs`` of a model file.

    Raises:
        ValueError: an unknown key, or a value of the wrong type or out of its range.
    """
    # Upstream's defaults; anchors + 1 makes every hand a right one and no body an upper body.
    defaults = {"first_kind": num_anchor_poses + 1, "score_th": 0.1 / num_anchor_poses}
    try:
        return PpiOptions(part=part, **(defaults | _converted(ppi_kwargs, _PPI_VALUES, ignored=frozenset({"verbose"}))))
    except ValueError as error:
        raise ValueError(f"{part.value}_ppi_kwargs: {error}") from error


@dataclass(frozen=True)
class _Value:
    """How a value of the file is converted, and what it must be for that."""

    convert: Callable[[Any], Any]
    rule: str


def _converted(given: Mapping[str, Any], values: Mapping[str, _Value], ignored: frozenset[str]) -> dict[str, Any]:
    unknown = sorted(str(key) for key in given if key not in values and key not in ignored)
    if unknown:
        raise ValueError(f"unknown keys {unknown}; it must be some of {sorted(values)}")
    options = {}
    for key in given.keys() - ignored:
        try:
            options[_OPTION_OF_KEY.get(key, key)] = values[key].convert(given[key])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{key} = {given[key]!r}; it must be {values[key].rule}") from error
    return options


def _whole(value: Any) -> int:
    if isinstance(value, bool | str) or int(value) != value:
        raise ValueError
    return int(value)


def _real(value: Any) -> float:
    if isinstance(value, bool | str) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _three_reals(values: Any) -> tuple[float, float, float]:
    red, green, blue = values
    return _real(red), _real(green), _real(blue)


def _per_part(convert: Callable[[Any], Any]) -> Callable[[Any], dict[Part, Any]]:
    def converted(values: Any) -> dict[Part, Any]:
        if not isinstance(values, dict) or set(values) != {part.value for part in Part}:
            raise ValueError
        return {part: convert(values[part.value]) for part in Part}

    return converted


_WHOLE, _REAL = _Value(_whole, "a whole number"), _Value(_real, "a finite number")
_THREE_REALS = _Value(_three_reals, "three numbers")
_REAL_PER_PART = _Value(_per_part(_real), "a dict of numbers for body, hand, face")
_NETWORK_VALUES: Mapping[str, _Value] = {
    "num_anchor_poses": _Value(_per_part(_whole), "a dict of whole numbers for body, hand, face"),
    "min_size": _WHOLE,
    "max_size": _WHOLE,
    "image_mean": _THREE_REALS,
    "image_std": _THREE_REALS,
    "rpn_pre_nms_top_n_test": _WHOLE,
    "rpn_post_nms_top_n_test": _WHOLE,
    "rpn_nms_thresh": _REAL,
    "pose2d_reg_weights": _REAL_PER_PART,
    "pose3d_reg_weights": _REAL_PER_PART,
}
_TRAINING_ONLY = frozenset(
    "rpn_pre_nms_top_n_train rpn_post_nms_top_n_train rpn_fg_iou_thresh rpn_bg_iou_thresh rpn_batch_size_per_image "
    "rpn_positive_fraction".split()
)
_PPI_VALUES: Mapping[str, _Value] = {
    "K": _WHOLE,
    "score_th": _REAL,
    "th_iou": _REAL,
    "iou_func": _Value(GroupingRule, f"one of {[rule.value for rule in GroupingRule]}"),
    "th_pose3D": _REAL,
    "min_mode_score": _REAL,
    "th_persondetect": _REAL,
}
_OPTION_OF_KEY = {
    "rpn_pre_nms_top_n_test": "rpn_pre_nms_top_n",
    "rpn_post_nms_top_n_test": "rpn_post_nms_top_n",
    "K": "first_kind",
    "iou_func": "rule",
    "th_pose3D": "th_pose3d",
}
