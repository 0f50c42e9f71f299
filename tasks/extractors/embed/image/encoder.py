"""Which model of pictures, and what is read out of it: what an engine makes a network of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.extractors.embed.image.settings import Pool
from tasks.extractors.image_networks.settings import Precision

if TYPE_CHECKING:
    from tasks.extractors.embed.image.backbone import Backbone
    from tasks.extractors.embed.image.preprocessing import Normalisation, Preprocessing
    from tasks.extractors.image_networks.embedding_network import EmbeddingNetwork


class Library(StrEnum):
    """What a model is loaded with."""

    TIMM = "timm"
    TRANSFORMERS = "transformers"
    TORCHVISION = "torchvision"


@dataclass(frozen=True)
class Encoder:
    """A model of pictures on this machine, and what is wanted of it.

    Attributes:
        section: of the configuration, for messages.
        library: what loads it.
        name: of the architecture; torchvision's.
        weights: their file.
        folder: with the model's other files (timm, transformers).
        published: by which name torchvision publishes the weights, whose transforms are taken.
        digest: SHA-256 of all that is loaded.
        layers: which, see :class:`~tasks.extractors.embed.image.backbone.Backbone`.
        pool: what becomes of their tokens.
    """

    section: str
    library: Library
    name: str
    weights: Path
    folder: Path | None = None
    published: str = ""
    digest: str = ""
    layers: tuple[int, ...] = (-1,)
    pool: Pool = Pool.MODEL

    def prepared(self, precision: Precision, row: tuple[int, ...] | None = None) -> PreparedEncoder:
        """With its preprocessing.

        Args:
            precision: of the network.
            row: the shape of the rows that it has to give, where that is known.

        Raises:
            ExtractionError: the model's files are not what they should be.
        """
        preprocessing = self._preprocessing(precision)
        return PreparedEncoder(self, preprocessing.size, preprocessing.normalisation, preprocessing, row)

    def _preprocessing(self, precision: Precision) -> Preprocessing:
        from tasks.extractors.embed.image import preprocessing

        if self.library is Library.TORCHVISION:
            from tasks.extractors.embed.image.torchvision_models import preset

            return preprocessing.of_torchvision(preset(self.name, self.published, self.section), precision)
        assert self.folder is not None  # these two have one
        if self.library is Library.TIMM:
            from tasks.extractors.embed.image.timm_models import data_config

            return preprocessing.of_timm(data_config(self.folder, self.section), precision)
        return preprocessing.of_transformers(self.folder, self.section)

    def backbone(self) -> Backbone:
        """The model itself, float32, in evaluation mode.

        Raises:
            ExtractionError: the model's files are not what they should be.
        """
        if self.library is Library.TORCHVISION:
            from tasks.extractors.embed.image import torchvision_models

            return torchvision_models.load(self.name, self.weights, self.section)
        assert self.folder is not None
        if self.library is Library.TIMM:
            from tasks.extractors.embed.image import timm_models

            return timm_models.load(self.folder, self.weights, self.section)
        from tasks.extractors.embed.image import transformers_models

        return transformers_models.load(self.folder, self.section, needs_pooler=self.pool is Pool.MODEL)


@dataclass(frozen=True, eq=False)
class PreparedEncoder:
    """See :class:`tasks.extractors.image_networks.engine.ImageModel`.

    Attributes:
        encoder: which.
        size: (height, width) pixels of its images.
        normalisation: of their bytes.
        preprocessing: what makes images of pictures.
        row: the shape of the rows that the network has to give, where that is known.
    """

    encoder: Encoder
    size: tuple[int, int]
    normalisation: Normalisation
    preprocessing: Any  # not part of what two equal ones share
    row: tuple[int, ...] | None = None

    @property
    def section(self) -> str:
        return self.encoder.section

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PreparedEncoder) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return (self.encoder, self.size, self.normalisation, self.row)

    def build(self) -> EmbeddingNetwork:
        from tasks.extractors.embed.image.network import build_network

        return build_network(self)
