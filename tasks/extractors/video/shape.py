"""What a model of videos takes and gives, by its configuration.

Planning asks, so no library of models is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import Origin

_FASTEST = 1000.0  # frames a second; more is no rate of videos
_PROCESSOR_FILES = ("processor_config.json", "video_preprocessor_config.json", "preprocessor_config.json")


@dataclass(frozen=True)
class Family:
    """A family of models of transformers.

    Attributes:
        frames, width: where its configuration says how many frames a clip has, and how wide a row is.
        blocks: the list of its blocks, whose mean over all tokens is a row. Empty where a row is the vector that the
            model itself makes of a clip, and no other layer is read.
        unused: parts of the model that no row depends on.
        options: of a call.
        by_images: whether its frames are prepared by a processor of images.
    """

    frames: tuple[str, ...]
    width: tuple[str, ...]
    blocks: str = ""
    unused: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    by_images: bool = False


FAMILIES: Mapping[str, Family] = {
    "videomae": Family(("num_frames",), ("hidden_size",), "encoder.layer"),
    "vjepa2": Family(
        ("frames_per_clip",), ("hidden_size",), "encoder.layer", ("predictor",), options={"skip_predictor": True}
    ),
    "xclip": Family(
        ("vision_config", "num_frames"),
        ("projection_dim",),
        unused=("text_model", "text_projection", "prompts_generator", "prompts_visual_layernorm"),
        by_images=True,
    ),
}
"""By ``model_type`` of config.json."""

TORCHVISION = ("r3d_18", "mc3_18", "r2plus1d_18")
"""The models of torchvision."""


@dataclass(frozen=True)
class ClipShape:
    """What a model takes and gives.

    Attributes:
        frames: of a clip.
        rate: frames a second that the model was made for; None where its configuration does not say.
        width: numbers of a layer.
        depth: how many blocks it has; None where only its own row can be read.
    """

    frames: int
    rate: float | None
    width: int
    depth: int | None = None


def family_of(model: LocalModel, where: str) -> Family:
    """The family of a model of transformers.

    Raises:
        ExtractionError: it is none that is known.
    """
    name = str(model.config.get("model_type"))
    if name not in FAMILIES:
        raise ExtractionError(
            f"{where} is a {name!r} (model_type in config.json), no model of videos that is known: "
            f"{', '.join(FAMILIES)}, or of torchvision {', '.join(TORCHVISION)}"
        )
    return FAMILIES[name]


def clip_shape(model: LocalModel, where: str) -> ClipShape:
    """What the model takes and gives.

    Raises:
        ExtractionError: its configuration does not say, or it is of no family that is known.
    """
    if model.origin is Origin.TORCHVISION:
        return ClipShape(16, 15.0, 512)  # as their published accuracies are measured: clip_len, frame_rate
    family = family_of(model, where)
    depth = _number(model, ("num_hidden_layers",), where) if family.blocks else None
    return ClipShape(_number(model, family.frames, where), _rate(model), _number(model, family.width, where), depth)


def _number(model: LocalModel, path: tuple[str, ...], where: str) -> int:
    value: Any = model.config
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ExtractionError(f"{where}: {'.'.join(path)} = {value!r} in config.json: a whole number, at least 1")
    return value


def _rate(model: LocalModel) -> float | None:
    """Frames a second, as the configuration of its processor says (``fps``)."""
    if model.folder is None:
        return None
    for name in _PROCESSOR_FILES:
        try:
            content = json.loads((model.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # loading it will say what is wrong
        inner = content.get("video_processor", content) if isinstance(content, dict) else None
        rate = inner.get("fps") if isinstance(inner, dict) else None
        if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate <= _FASTEST:
            return float(rate)
    return None
