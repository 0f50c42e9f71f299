"""The option dicts of a DOPE model file (``dope_kwargs``, ``*_ppi_kwargs``) as checked options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.options import GroupingRule, NetworkOptions, PpiOptions


def network_options(dope_kwargs: Mapping[str, Any]) -> NetworkOptions:
    """``dope_kwargs`` of a model file.

    Raises:
        ValueError: an unknown key, a value of the wrong type or out of its range, or no ``num_anchor_poses``.
    """
    if "num_anchor_poses" not in dope_kwargs:
        raise ValueError("dope_kwargs has no 'num_anchor_poses'; it must give a number for body, hand and face")
    try:
        return NetworkOptions(**_converted(dope_kwargs, _NETWORK_FIELDS, ignored=_TRAINING_ONLY))
    except ValueError as error:
        raise ValueError(f"dope_kwargs: {error}") from error


def ppi_options(ppi_kwargs: Mapping[str, Any], part: Part, num_anchor_poses: int) -> PpiOptions:
    """``{part}_ppi_kwargs`` of a model file.

    Raises:
        ValueError: an unknown key, or a value of the wrong type or out of its range.
    """
    # What upstream takes where the file is silent; anchors + 1 makes every hand a right one and no body an upper body.
    absent = {"first_kind": num_anchor_poses + 1, "score_th": 0.1 / num_anchor_poses}
    try:
        return PpiOptions(part=part, **(absent | _converted(ppi_kwargs, _PPI_FIELDS, ignored=_PRINTING_ONLY)))
    except ValueError as error:
        raise ValueError(f"{part.value}_ppi_kwargs: {error}") from error


@dataclass(frozen=True)
class _Field:
    """Where a value of the file goes, how it is converted, and what it must be for that."""

    option: str
    convert: Callable[[Any], Any]
    rule: str


def _converted(given: Mapping[str, Any], fields: Mapping[str, _Field], ignored: frozenset[str]) -> dict[str, Any]:
    unknown = sorted(str(key) for key in given if key not in fields and key not in ignored)
    if unknown:
        raise ValueError(f"unknown keys {unknown}; it must be some of {sorted(fields)}")
    options = {}
    for key in given.keys() - ignored:
        try:
            options[fields[key].option] = fields[key].convert(given[key])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{key} = {given[key]!r}; it must be {fields[key].rule}") from error
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


def _whole_field(option: str) -> _Field:
    return _Field(option, _whole, "a whole number")


def _real_field(option: str) -> _Field:
    return _Field(option, _real, "a finite number")


_NETWORK_FIELDS: Mapping[str, _Field] = {
    "num_anchor_poses": _Field("num_anchor_poses", _per_part(_whole), "a dict of whole numbers for body, hand, face"),
    "min_size": _whole_field("min_size"),
    "max_size": _whole_field("max_size"),
    "image_mean": _Field("image_mean", _three_reals, "three numbers"),
    "image_std": _Field("image_std", _three_reals, "three numbers"),
    "rpn_pre_nms_top_n_test": _whole_field("rpn_pre_nms_top_n"),
    "rpn_post_nms_top_n_test": _whole_field("rpn_post_nms_top_n"),
    "rpn_nms_thresh": _real_field("rpn_nms_thresh"),
    "pose2d_reg_weights": _Field("pose2d_reg_weights", _per_part(_real), "a dict of numbers for body, hand, face"),
    "pose3d_reg_weights": _Field("pose3d_reg_weights", _per_part(_real), "a dict of numbers for body, hand, face"),
}
_TRAINING_ONLY = frozenset(
    {
        "rpn_pre_nms_top_n_train",
        "rpn_post_nms_top_n_train",
        "rpn_fg_iou_thresh",
        "rpn_bg_iou_thresh",
        "rpn_batch_size_per_image",
        "rpn_positive_fraction",
    }
)
_PPI_FIELDS: Mapping[str, _Field] = {
    "K": _whole_field("first_kind"),
    "score_th": _real_field("score_th"),
    "th_iou": _real_field("th_iou"),
    "iou_func": _Field("rule", GroupingRule, f"one of {[rule.value for rule in GroupingRule]}"),
    "th_pose3D": _real_field("th_pose3d"),
    "min_mode_score": _real_field("min_mode_score"),
    "th_persondetect": _real_field("th_persondetect"),
}
_PRINTING_ONLY = frozenset({"verbose"})
