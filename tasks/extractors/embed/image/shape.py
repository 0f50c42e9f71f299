"""What a model of pictures gives: of its configuration where that says it, else by trying it once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks.extractors.embed.image.encoder import Encoder, Library
from tasks.extractors.embed.image.settings import Pool
from tasks.extractors.image_networks.settings import Precision

# Vision transformers of transformers whose rows are as wide as their blocks, whatever the pool.
_PLAIN = frozenset(
    "beit clip_vision_model deit dinov2 dinov2_with_registers dinov3_vit siglip siglip_vision_model vit".split()
)


@dataclass(frozen=True)
class ImageShape:
    """What comes of one picture.

    Attributes:
        width: numbers of a layer's token, or of the model's own row.
        depth: layers; None where it was not asked.
        tokens: of ``pool = "none"``; None where a picture is one row.
    """

    width: int
    depth: int | None = None
    tokens: int | None = None


def image_shape(encoder: Encoder) -> ImageShape:
    """What the encoder gives.

    Raises:
        ExtractionError: the model's files are not what they should be, or it has no such layer or pool.
    """
    if encoder.pool is not Pool.NONE:
        found = _transformers(encoder) if encoder.library is Library.TRANSFORMERS else None
        if encoder.library is Library.TIMM and encoder.layers == (-1,) and encoder.pool is Pool.MODEL:
            found = _timm(encoder)
        if found:
            return found
    return _tried(encoder)


def _transformers(encoder: Encoder) -> ImageShape | None:
    config = _config(encoder)
    vision = config.get("vision_config", config)
    width, depth = (vision.get(name) for name in ("hidden_size", "num_hidden_layers"))
    if config.get("model_type") == "clip" and encoder.pool is Pool.MODEL:
        width = config.get("projection_dim")
    elif config.get("model_type") not in (*_PLAIN, "clip"):
        return None
    return ImageShape(width, depth) if isinstance(width, int) and isinstance(depth, int) else None


def _timm(encoder: Encoder) -> ImageShape | None:
    """As wide as what goes into the classifier, whose weights say it."""
    config = _config(encoder)
    classifier = config.get("pretrained_cfg", config).get("classifier")
    if not isinstance(classifier, str) or encoder.weights.suffix != ".safetensors":
        return None
    weight = safetensors_shapes(encoder.weights).get(f"{classifier}.weight")
    return ImageShape(weight[1]) if weight and len(weight) == 2 else None


def _config(encoder: Encoder) -> Mapping[str, Any]:
    assert encoder.folder is not None
    return json.loads((encoder.folder / "config.json").read_text(encoding="utf-8"))


def safetensors_shapes(path: Path) -> dict[str, list[int]]:
    """The shapes of the tensors of a safetensors file, from its header: 8 bytes of its length, then JSON."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, 100_000_000)))
        return {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # what is wrong with it is said by who loads it


@lru_cache(maxsize=32)
def _tried(encoder: Encoder) -> ImageShape:
    from tasks.extractors.embed.image.network import try_network

    row, depth = try_network(encoder.prepared(Precision.FLOAT32))
    return ImageShape(row[-1] // len(encoder.layers), depth, row[0] if len(row) == 2 else None)
