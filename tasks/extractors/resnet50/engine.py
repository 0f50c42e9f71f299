"""What an engine is: something that computes the network's embeddings for batches of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tasks.extractors.base import ExtractionError
from tasks.extractors.resnet50.settings import Precision, ResNet50Weights


@dataclass(frozen=True)
class Model:
    """Which network.

    Attributes:
        which: the weights.
        path: their file; None for seeded random weights.
        digest: SHA-256 of the file, or what stands for it.
    """

    which: ResNet50Weights
    path: Path | None
    digest: str


class Engine(Protocol):
    """A network at work.

    Attributes:
        device: where: ``cpu`` or ``cuda``.
        batch_size: images that should be given to it together.
        ahead: how many batches may be under way while the next is prepared.
    """

    device: str
    batch_size: int
    ahead: int

    def start(self, images: np.ndarray) -> Callable[[], np.ndarray]:
        """Begin with (n, 224, 224, 3) uint8 RGB images; what is returned waits for their (n, 2048) float32 embeddings.

        Raises:
            ExtractionError: there is not enough memory for a single image.
        """


def unavailable(precision: Precision, why: str) -> ExtractionError:
    """The error of a precision that this machine does not have: the values would not be what the fingerprint says."""
    return ExtractionError(f"[resnet50] precision = {str(precision)!r}: {why}; set precision = 'float32'")
