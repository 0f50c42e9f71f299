"""From frames to the images that a network sees: resized with antialiasing, the middle cut out.

That is what the transforms that torchvision and timm publish with most weights do to a PIL image before they normalise
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum

import numpy as np
import torch
from PIL import Image

from tasks.extractors.image_networks.settings import Precision


class Interpolation(StrEnum):
    """How pixels between pixels are made."""

    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


class Cropper(ABC):
    """Makes images of frames.

    Args:
        shorter_side: pixels to which the shorter side of a frame is resized.
        size: (height, width) pixels of the images, which fit into the resized frame.
        interpolation: see :class:`Interpolation`.
    """

    def __init__(
        self, shorter_side: int, size: tuple[int, int], interpolation: Interpolation = Interpolation.BILINEAR
    ) -> None:
        self.shorter_side = shorter_side
        self.size = size
        self.interpolation = interpolation

    def crop(self, rgb: np.ndarray) -> np.ndarray:
        """The images for (n, height, width, 3) uint8 RGB frames: (n, \\*size, 3) uint8."""
        shorter = min(rgb.shape[1:3])
        height, width = (self.shorter_side * side // shorter for side in rgb.shape[1:3])
        top, left = round((height - self.size[0]) / 2), round((width - self.size[1]) / 2)
        resized = self._resize(rgb, height, width)
        return np.ascontiguousarray(resized[:, top : top + self.size[0], left : left + self.size[1]])

    @abstractmethod
    def _resize(self, rgb: np.ndarray, height: int, width: int) -> np.ndarray: ...


class ExactCropper(Cropper):
    """To the bit what the libraries give for PIL images."""

    def _resize(self, rgb: np.ndarray, height: int, width: int) -> np.ndarray:
        filter_ = Image.Resampling[self.interpolation.upper()]
        return np.stack([np.asarray(Image.fromarray(frame).resize((width, height), filter_)) for frame in rgb])


class FastCropper(Cropper):
    """At a quarter of the cost; one value in about a thousand differs, by one of 256 levels."""

    def _resize(self, rgb: np.ndarray, height: int, width: int) -> np.ndarray:
        frames = torch.from_numpy(rgb).permute(0, 3, 1, 2)
        resized = torch.nn.functional.interpolate(frames, (height, width), mode=str(self.interpolation), antialias=True)
        return resized.permute(0, 2, 3, 1).numpy()


def cropper_class(precision: Precision) -> type[Cropper]:
    """The exact one where the network keeps what it gains, the fast one where the network rounds more coarsely."""
    return ExactCropper if Precision(precision) is Precision.FLOAT32 else FastCropper
