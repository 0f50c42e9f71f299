"""From frames to the images that the network sees: resized with antialiasing, the middle cut out.

That is what the transform that torchvision publishes with the weights does to a PIL image before it normalises it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from PIL import Image

from tasks.extractors.resnet50.settings import Precision, ResNet50Weights
from tasks.models.torchvision_import import import_torchvision

SIDE = 224  # pixels; both published weights want it


class Cropper(ABC):
    """Makes images of frames.

    Args:
        shorter_side: pixels to which the shorter side of a frame is resized.
    """

    def __init__(self, shorter_side: int) -> None:
        self.shorter_side = shorter_side

    def crop(self, rgb: np.ndarray) -> np.ndarray:
        """The images for (n, height, width, 3) uint8 RGB frames: (n, 224, 224, 3) uint8."""
        shorter = min(rgb.shape[1:3])
        height, width = (self.shorter_side * side // shorter for side in rgb.shape[1:3])
        top, left = round((height - SIDE) / 2), round((width - SIDE) / 2)
        resized = self._resize(rgb, height, width)
        return np.ascontiguousarray(resized[:, top : top + SIDE, left : left + SIDE])

    @abstractmethod
    def _resize(self, rgb: np.ndarray, height: int, width: int) -> np.ndarray: ...


class ExactCropper(Cropper):
    """To the bit what torchvision gives for PIL images."""

    def _resize(self, rgb: np.ndarray, height: int, width: int) -> np.ndarray:
        return np.stack(
            [np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.BILINEAR)) for frame in rgb]
        )


class FastCropper(Cropper):
    """At a quarter of the cost; one value in about a thousand differs, by one of 256 levels."""

    def _resize(self, rgb: np.ndarray, height: int, width: int) -> np.ndarray:
        frames = torch.from_numpy(rgb).permute(0, 3, 1, 2)
        resized = torch.nn.functional.interpolate(frames, (height, width), mode="bilinear", antialias=True)
        return resized.permute(0, 2, 3, 1).numpy()


def cropper(which: ResNet50Weights, precision: Precision) -> Cropper:
    """The exact one where the network keeps what it gains, the fast one where the network rounds more coarsely."""
    preset = import_torchvision().models.ResNet50_Weights[str(which)].transforms()
    kind = ExactCropper if Precision(precision) is Precision.FLOAT32 else FastCropper
    return kind(preset.resize_size[0])
