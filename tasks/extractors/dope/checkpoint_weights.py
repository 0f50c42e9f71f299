"""The weights of a DOPE model file: every tensor there, of the right shape and finite, sorted by what uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tasks.extractors.dope.joints import JOINT_COUNT, Part
from tasks.models.libraries import import_torchvision

# Upstream registers one ResNet-50 under two names, so the file names every one of its tensors twice.
RESNET = "backbone.resnet_backbone."
RESNET_AGAIN = "roi_heads.dope_head.resnet_backbone."
RPN_HEAD = "rpn.head."
PREDICTOR = "roi_heads.dope_predictor."

C4_CHANNELS = 1024
HEAD_CHANNELS = 2048
RPN_ANCHORS = 15
NUMBERS_PER_JOINT = 5  # x, y in the proposal's box; X, Y, Z

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class PartWeights:
    """The weights of one part, float32; K anchor poses of J joints.

    Attributes:
        anchor_poses: (K, J, 5).
        cls_weight: (K + 1, 2048), the first row for background.
        cls_bias: (K + 1,).
        pose_weight: (K * J * 5, 2048).
        pose_bias: (K * J * 5,).
    """

    anchor_poses: Tensor
    cls_weight: Tensor
    cls_bias: Tensor
    pose_weight: Tensor
    pose_bias: Tensor


@dataclass(frozen=True)
class Weights:
    """All weights of a DOPE model, float32, named as in torchvision's modules.

    Attributes:
        resnet: of ``torchvision.models.resnet50``.
        rpn_head: of ``torchvision.models.detection.rpn.RPNHead``.
        parts: of each part.
    """

    resnet: Mapping[str, Tensor]
    rpn_head: Mapping[str, Tensor]
    parts: Mapping[Part, PartWeights]


def checked_weights(state_dict: Mapping[str, Any], num_anchor_poses: Mapping[Part, int]) -> Weights:
    """Sorts the tensors of a model file; tensors that DOPE does not have are left out.

    Raises:
        ValueError: missing tensors, wrong shapes, values that are not finite, two different copies of the ResNet.
    """
    tensors = {_current_name(str(key)): value for key, value in state_dict.items()}
    expected = expected_shapes(num_anchor_poses)
    _check_shapes(tensors, expected)
    floats = {key: tensors[key].float() for key in expected}
    _check_values(floats)
    return Weights(
        resnet=_below(floats, RESNET),
        rpn_head=_below(floats, RPN_HEAD),
        parts={part: _part_weights(floats, part) for part in Part},
    )


def expected_shapes(num_anchor_poses: Mapping[Part, int]) -> Shapes:
    """Names and shapes of all 555 tensors of a model with so many anchor poses."""
    shapes: dict[str, tuple[int, ...]] = {
        f"{RPN_HEAD}conv.0.0.weight": (C4_CHANNELS, C4_CHANNELS, 3, 3),
        f"{RPN_HEAD}conv.0.0.bias": (C4_CHANNELS,),
        f"{RPN_HEAD}cls_logits.weight": (RPN_ANCHORS, C4_CHANNELS, 1, 1),
        f"{RPN_HEAD}cls_logits.bias": (RPN_ANCHORS,),
        f"{RPN_HEAD}bbox_pred.weight": (4 * RPN_ANCHORS, C4_CHANNELS, 1, 1),
        f"{RPN_HEAD}bbox_pred.bias": (4 * RPN_ANCHORS,),
    }
    for prefix in (RESNET, RESNET_AGAIN):
        shapes |= {prefix + key: shape for key, shape in _resnet_shapes().items()}
    for part, count in num_anchor_poses.items():
        pose_numbers = count * JOINT_COUNT[part] * NUMBERS_PER_JOINT
        shapes[f"roi_heads.{part.value}_anchor_poses"] = (count, JOINT_COUNT[part], NUMBERS_PER_JOINT)
        shapes[f"{PREDICTOR}{part.value}_cls_score.weight"] = (count + 1, HEAD_CHANNELS)
        shapes[f"{PREDICTOR}{part.value}_cls_score.bias"] = (count + 1,)
        shapes[f"{PREDICTOR}{part.value}_pose_pred.weight"] = (pose_numbers, HEAD_CHANNELS)
        shapes[f"{PREDICTOR}{part.value}_pose_pred.bias"] = (pose_numbers,)
    return shapes


def _resnet_shapes() -> Shapes:
    import_torchvision()
    from torchvision.models import resnet50
    from torchvision.ops import FrozenBatchNorm2d

    with torch.device("meta"):
        return {key: tuple(value.shape) for key, value in resnet50(norm_layer=FrozenBatchNorm2d).state_dict().items()}


def _current_name(key: str) -> str:
    # torchvision wrapped this convolution in two modules in 2022; published files are older.
    return key.replace(f"{RPN_HEAD}conv.", f"{RPN_HEAD}conv.0.0.") if key in _RENAMED else key


_RENAMED = (f"{RPN_HEAD}conv.weight", f"{RPN_HEAD}conv.bias")


def _check_shapes(tensors: Mapping[str, Any], expected: Shapes) -> None:
    missing = [key for key in expected if key not in tensors]
    if missing:
        raise ValueError(f"state_dict lacks {len(missing)} of {len(expected)} tensors, the first is {missing[0]!r}")
    for key, shape in expected.items():
        value = tensors[key]
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise ValueError(f"state_dict[{key!r}] is {_described(value)}; it must be a tensor of floats")
        if tuple(value.shape) != shape:
            raise ValueError(f"state_dict[{key!r}] has shape {tuple(value.shape)}; it must be {shape}")


def _described(value: Any) -> str:
    return f"a tensor of {value.dtype}" if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _check_values(floats: Mapping[str, Tensor]) -> None:
    for key, value in floats.items():
        if not torch.isfinite(value).all():
            raise ValueError(f"state_dict[{key!r}] holds NaN or infinite values; every weight must be finite")
        if key.endswith("running_var") and (value < 0).any():
            raise ValueError(f"state_dict[{key!r}] holds {value.min()}; a variance must not be negative")
        if key.startswith(RESNET):
            again = RESNET_AGAIN + key.removeprefix(RESNET)
            if not torch.equal(value, floats[again]):
                raise ValueError(f"state_dict[{key!r}] differs from {again!r}; they must be copies of one ResNet-50")


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _part_weights(floats: Mapping[str, Tensor], part: Part) -> PartWeights:
    predictor = f"{PREDICTOR}{part.value}_"
    return PartWeights(
        anchor_poses=floats[f"roi_heads.{part.value}_anchor_poses"],
        cls_weight=floats[f"{predictor}cls_score.weight"],
        cls_bias=floats[f"{predictor}cls_score.bias"],
        pose_weight=floats[f"{predictor}pose_pred.weight"],
        pose_bias=floats[f"{predictor}pose_pred.bias"],
    )
