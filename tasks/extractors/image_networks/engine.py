"""What a network of images is, and what an engine is: something that computes a network for batches of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tasks.extractors.base import ExtractionError

if TYPE_CHECKING:
    from tasks.extractors.image_networks.embedding_network import EmbeddingNetwork


class ImageModel(Protocol):
    """Which network. Two that are equal give the same values: a converted network is kept under it.

    Attributes:
        section: of the configuration, for messages: ``[resnet50]``.
        size: (height, width) pixels of its images.
    """

    @property
    def section(self) -> str: ...

    @property
    def size(self) -> tuple[int, int]: ...

    def __hash__(self) -> int: ...

    def build(self) -> EmbeddingNetwork:
        """The network on the processor, float32, in evaluation mode.

        Raises:
            ExtractionError: the weights are damaged, or of another network.
        """


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
        """Begin with (n, height, width, 3) uint8 RGB images; what is returned waits for their (n, …) float32 rows.

        Raises:
            ExtractionError: there is not enough memory for a single image.
        """


def unavailable(section: str, precision: str, why: str) -> ExtractionError:
    """The error of a precision that this machine does not have: the values would not be what the fingerprint says."""
    return ExtractionError(f"{section} precision = {str(precision)!r}: {why}; set precision = 'float32'")
