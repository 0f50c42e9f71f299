"""Which ResNet-50: what planning knows of it, and what an engine makes a network of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.extractors.resnet50.settings import SIDE, ResNet50Weights

if TYPE_CHECKING:
    from tasks.extractors.image_networks.embedding_network import EmbeddingNetwork


@dataclass(frozen=True)
class Model:
    """Which network; see :class:`tasks.extractors.image_networks.engine.ImageModel`.

    Attributes:
        which: the weights.
        path: their file; None for seeded random weights.
        digest: SHA-256 of the file, or what stands for it.
    """

    which: ResNet50Weights
    path: Path | None
    digest: str

    section = "[resnet50]"
    size = (SIDE, SIDE)

    def build(self) -> EmbeddingNetwork:
        from tasks.extractors.resnet50.network import build_network

        return build_network(self.path, self.which)
