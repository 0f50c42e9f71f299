"""A model of pictures: which one, what is read out of it, what an engine makes a network of, and how wide its rows are.

Planning asks how wide, so a model's library is imported only where its configuration does not say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storyframes.store.storage.files import sha256_file
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.local_model import safetensors_shapes
from tasks.extractors.embed.settings import Activation
from tasks.extractors.image.settings import Pool
from tasks.extractors.settings import Precision
from tasks.models.libraries import loading

if TYPE_CHECKING:
    from tasks.extractors.image.network import Backbone, EmbeddingNetwork
    from tasks.extractors.image.preprocessing import Preprocessing

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


class Library(StrEnum):
    """The library that loads a model."""

    TIMM = "timm"
    TRANSFORMERS = "transformers"
    TORCHVISION = "torchvision"


@dataclass(frozen=True)
class Encoder:
    """A model of pictures on this machine, and what is read out of it."""

    section: str  # of the configuration, for messages
    library: Library
    name: str  # of the architecture; torchvision's
    weights: Path | None  # their file; None for torchvision's architecture with random weights, always the same
    folder: Path | None = None  # with the model's other files (timm, transformers)
    published: str = ""  # torchvision's name of the weights, whose transforms are taken
    digest: str = ""  # SHA-256 of all that is loaded
    layers: tuple[int, ...] = (-1,)
    pool: Pool = Pool.MODEL  # what becomes of their tokens
    gives_hidden: bool = True  # whether these are read
    activation: Activation | None = None  # of the scores behind them; None without scores
    allow_untrained: bool = False  # whether weights of the head may be random
    sha256: str = ""  # that the file of weights must have when it is loaded; empty for any
    # the content of config.json (timm, transformers); ``digest`` covers it
    config: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def with_head(self) -> bool:
        """Whether the model's head is read."""
        return self.activation is not None

    def prepared(self, precision: Precision, row: tuple[int, ...] | None = None) -> PreparedEncoder:
        """With its preprocessing, and the shape of the rows that it has to give, if that is known.

        Raises:
            ExtractionError: the model's files are not what they should be.
        """
        return PreparedEncoder(self, self._preprocessing(precision), row)

    def _preprocessing(self, precision: Precision) -> Preprocessing:
        from tasks.extractors.image import backbones, preprocessing

        if self.library is Library.TORCHVISION:
            return preprocessing.of_torchvision(backbones.preset(self.name, self.published, self.section), precision)
        if self.library is Library.TIMM:
            return preprocessing.of_timm(backbones.data_config(self.config, self.section), precision)
        assert self.folder is not None  # these two have one
        return preprocessing.of_transformers(self.folder, self.section)

    def backbone(self) -> Backbone:
        """The model itself, float32, in evaluation mode.

        Raises:
            ExtractionError: the model's files are not what they should be.
        """
        from tasks.extractors.image import backbones

        if self.weights and self.sha256 and (digest := sha256_file(self.weights)) != self.sha256:
            raise ExtractionError(
                f"{self.weights} has SHA-256 {digest}, but {self.weights.name} has {self.sha256}: fetch it again"
            )
        if self.library is Library.TORCHVISION:
            return backbones.load_torchvision(self.name, self.weights, self.section, with_head=self.with_head)
        assert self.folder is not None
        assert self.weights is not None
        if self.library is Library.TIMM:
            return backbones.load_timm(self.config, self.weights, self.section, with_head=self.with_head)
        if self.with_head:
            return backbones.load_classifier_backbone(self.folder, self.section, allow_untrained=self.allow_untrained)
        return backbones.load_transformers(self.folder, self.section, needs_pooler=self.pool is Pool.MODEL)


@dataclass(frozen=True)
class PreparedEncoder:
    """What an engine computes. Two that are equal give the same values: a converted network is cached under it."""

    encoder: Encoder
    preprocessing: Preprocessing
    row: tuple[int, ...] | None = None  # the shape of the rows that the network has to give, if that is known

    @property
    def section(self) -> str:
        return self.encoder.section

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) pixels of its images."""
        return self.preprocessing.size

    def build(self) -> EmbeddingNetwork:
        """The network on the processor, float32, in evaluation mode, after it was tried once.

        Raises:
            ExtractionError: the model's files are not what they should be, it has no such layer or pool, or it does not
                give the rows that are expected, the same each time.
        """
        from tasks.extractors.image.network import trial_row

        with loading():
            network = self._network(self.encoder.backbone())
            row = trial_row(network, self.size, self.section)
        if self.row is not None and row != self.row:
            raise ExtractionError(
                f"{self.section} the model gives rows of {_sizes(row)}, but its configuration says {_sizes(self.row)}"
            )
        return network

    def trial(self) -> tuple[tuple[int, ...], int]:
        """The shape of its rows, and how many layers the model has; raises as :meth:`build`."""
        from tasks.extractors.image.network import trial_row

        with loading():
            backbone = self.encoder.backbone()
            return trial_row(self._network(backbone), self.size, self.section), backbone.layers

    def _network(self, backbone: Backbone) -> EmbeddingNetwork:
        from tasks.extractors.image.network import EmbeddingNetwork, ScoredReadout, has_batch_norm, read_out

        encoder, norm = self.encoder, self.preprocessing.normalisation
        hidden = read_out(backbone, encoder.layers, encoder.pool, encoder.section) if encoder.gives_hidden else None
        readout = hidden if encoder.activation is None else ScoredReadout(backbone, hidden, encoder.activation)
        assert readout is not None  # one of the two is read
        plain = encoder.pool is Pool.MODEL and not encoder.with_head
        foldable = backbone.foldable and plain and has_batch_norm(backbone)
        return EmbeddingNetwork(readout, norm.mean, norm.std, norm.scale, foldable=foldable).eval()


def _sizes(row: tuple[int, ...]) -> str:
    return " x ".join(map(str, row))


@dataclass(frozen=True)
class ImageShape:
    """What comes of one picture."""

    width: int  # numbers of a layer's token, or of the model's own row
    depth: int | None = None  # layers; None where it was not asked
    tokens: int | None = None  # of ``pool = "none"``; None where a picture is one row


def image_shape(encoder: Encoder) -> ImageShape:
    """What the encoder gives.

    Raises:
        ExtractionError: the model's files are not what they should be, or it has no such layer or pool.
    """
    if encoder.pool is not Pool.NONE:
        shape = _transformers(encoder) if encoder.library is Library.TRANSFORMERS else None
        if encoder.library is Library.TIMM and encoder.layers == (-1,) and encoder.pool is Pool.MODEL:
            shape = _timm(encoder)
        if encoder.library is Library.TORCHVISION and encoder.pool is Pool.MODEL:
            shape = torchvision_shape(encoder.name)
        if shape:
            return shape
    return _tried(encoder)


def _transformers(encoder: Encoder) -> ImageShape | None:
    config = encoder.config
    vision = config.get("vision_config", config)
    width, depth = (vision.get(name) for name in ("hidden_size", "num_hidden_layers"))
    if config.get("model_type") == "clip" and encoder.pool is Pool.MODEL:
        width = config.get("projection_dim")
    elif config.get("model_type") not in (*_PLAIN, "clip"):
        return None
    return ImageShape(width, depth) if isinstance(width, int) and isinstance(depth, int) else None


def _timm(encoder: Encoder) -> ImageShape | None:
    """As wide as what goes into the classifier, whose weights say it."""
    classifier = encoder.config.get("pretrained_cfg", encoder.config).get("classifier")
    weights = encoder.weights
    if not isinstance(classifier, str) or weights is None or weights.suffix != ".safetensors":
        return None
    weight = safetensors_shapes(weights).get(f"{classifier}.weight")
    return ImageShape(weight[1]) if weight and len(weight) == 2 else None


def torchvision_shape(name: str) -> ImageShape | None:
    """Of what goes into the last linear layer of a model of torchvision; None where it has to be tried."""
    width = next((width for pattern, width in _TORCHVISION.items() if re.fullmatch(pattern, name)), None)
    return None if width is None else ImageShape(width)


@lru_cache(maxsize=32)
def _tried(encoder: Encoder) -> ImageShape:
    row, depth = encoder.prepared(Precision.FLOAT32).trial()
    return ImageShape(row[-1] // len(encoder.layers), depth, row[0] if len(row) == 2 else None)
