"""A DOPE model file, read and checked: options and weights, or one error that says what is wrong with the file.

The published files are called ``*.pth.tgz`` but are single ``torch.save`` files, neither tar nor gzip. They hold a
dict: ``half``, ``dope_kwargs``, ``state_dict`` and ``{body,hand,face}_ppi_kwargs``.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tasks.extractors.dope.joints import JOINT_COUNT, Part
from tasks.extractors.dope.options import NetworkOptions, PpiOptions, network_options, ppi_options
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

    The first row of ``cls_weight`` and ``cls_bias`` is for background.
    """

    anchor_poses: Tensor  # (K, J, 5)
    cls_weight: Tensor  # (K + 1, 2048)
    cls_bias: Tensor  # (K + 1,)
    pose_weight: Tensor  # (K * J * 5, 2048)
    pose_bias: Tensor  # (K * J * 5,)


@dataclass(frozen=True)
class Weights:
    """All weights of a DOPE model, float32, named as in torchvision's modules."""

    resnet: Mapping[str, Tensor]  # of torchvision.models.resnet50
    rpn_head: Mapping[str, Tensor]  # of torchvision.models.detection.rpn.RPNHead
    parts: Mapping[Part, PartWeights]


def checked_weights(state_dict: Mapping[str, Any], num_anchor_poses: Mapping[Part, int]) -> Weights:
    """The tensors of a model file by what uses them; tensors that DOPE does not have are left out.

    Raises:
        ValueError: missing tensors, wrong shapes, values that are not finite, two different copies of the ResNet.
    """
    tensors = {_RENAMED.get(str(key), str(key)): value for key, value in state_dict.items()}
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


@cache
def _resnet_shapes() -> Shapes:
    import_torchvision()
    from torchvision.models import resnet50
    from torchvision.ops import FrozenBatchNorm2d

    with torch.device("meta"):
        return {key: tuple(value.shape) for key, value in resnet50(norm_layer=FrozenBatchNorm2d).state_dict().items()}


# torchvision wrapped this convolution in two modules in 2022; published files are older.
_RENAMED = {f"{RPN_HEAD}conv.{name}": f"{RPN_HEAD}conv.0.0.{name}" for name in ("weight", "bias")}


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
        # The least and the greatest are NaN where any is; torch.isfinite takes thirty times as long.
        if not all(extreme.isfinite() for extreme in torch.aminmax(value)):
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


# What a pickled numpy number consists of; options that were computed may be such numbers.
_NUMPY_NUMBERS: list[Any] = [
    # the function that makes it, under its names before and since numpy 2
    *((np.float64().__reduce__()[0], f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    np.dtype,
    *(type(np.dtype(kind)) for kind in "?bBhHiIlLqQefd"),
    codecs.encode,
]


class CheckpointError(ValueError):
    """A model file is damaged, or is not one of DOPE's. The message names the file, the value and the rule."""


@dataclass(frozen=True)
class Checkpoint:
    """What a model file holds."""

    path: Path
    half: bool  # whether the model was published for float16
    network: NetworkOptions
    ppi: Mapping[Part, PpiOptions]
    weights: Weights  # on the processor


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read and check a model file. No code in the file is run (``weights_only``).

    Raises:
        CheckpointError: no such file, not a torch file, truncated, or not the content of a DOPE model.
    """
    path = Path(path)
    content = _unpickled(path)
    try:
        half, state_dict = _typed(content, "half", bool), _typed(content, "state_dict", dict)
        network = network_options(_typed(content, "dope_kwargs", dict))
        ppi = {
            part: ppi_options(_typed(content, f"{part.value}_ppi_kwargs", dict), part, network.num_anchor_poses[part])
            for part in Part
        }
        weights = checked_weights(state_dict, network.num_anchor_poses)
    except ValueError as error:
        raise CheckpointError(f"{path}: not a usable DOPE model: {error}") from error
    return Checkpoint(path, half, network, ppi, weights)


def _unpickled(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file; it must be a DOPE model file")
    try:
        with torch.serialization.safe_globals(_NUMPY_NUMBERS):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling a damaged file can fail with nearly any exception
        raise CheckpointError(
            f"{path} ({path.stat().st_size} bytes): torch cannot read it ({_reason(error)}); it must be a complete "
            "file written by torch.save that holds only tensors, dicts, lists, strings and numbers"
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: holds a {type(content).__name__}; a DOPE model file holds a dict")
    return content


def _reason(error: Exception) -> str:
    # torch puts its reason below the advice to load the file without protection, which must not be followed.
    message = str(error).split("WeightsUnpickler error: ")[-1].strip()
    return message.splitlines()[0] if message else type(error).__name__


def _typed(content: Mapping[str, Any], key: str, kind: type) -> Any:
    if key not in content:
        raise ValueError(f"has no {key!r}, only {sorted(map(str, content))}")
    value = content[key]
    if not isinstance(value, kind):
        raise ValueError(f"{key!r} is a {type(value).__name__}; it must be a {kind.__name__}")
    return value
