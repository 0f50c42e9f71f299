"""What a model of pictures gives: of its configuration where that says it, else by trying it once."""

from __future__ import annotations

import json
import re
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
# How wide torchvision's own rows are, so that planning need not load them; a model that is not here is tried.
_TORCHVISION = {
    r"resnet(18|34)|maxvit_t": 512,
    r"convnext_(tiny|small)|swin(_v2)?_[ts]|vit_b_\d+": 768,
    r"convnext_base|densenet121|googlenet|mobilenet_v3_small|shufflenet_v2_x(0_5|1_0|1_5)|swin(_v2)?_b|vit_l_\d+": 1024,
    r"efficientnet_(b0|b1|v2_[sml])|mnasnet.*|mobilenet_v2|mobilenet_v3_large|vit_h_14": 1280,
    r"efficientnet_b2": 1408,
    r"convnext_large|efficientnet_b3": 1536,
    r"densenet169": 1664,
    r"efficientnet_b4": 1792,
    r"densenet201": 1920,
    r"(wide_)?resn(et|ext)(50|101|152).*|inception_v3|efficientnet_b5|shufflenet_v2_x2_0": 2048,
    r"densenet161": 2208,
    r"efficientnet_b6": 2304,
    r"efficientnet_b7": 2560,
    r"alexnet|vgg.*": 4096,
}


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
        if encoder.library is Library.TORCHVISION and encoder.pool is Pool.MODEL:
            found = torchvision_shape(encoder.name)
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


def torchvision_shape(name: str) -> ImageShape | None:
    """Of what goes into the last linear layer of a model of torchvision; None where it has to be tried."""
    width = next((width for pattern, width in _TORCHVISION.items() if re.fullmatch(pattern, name)), None)
    return None if width is None else ImageShape(width)


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
