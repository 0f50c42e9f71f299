"""From pictures to a model's images: as the library that the model comes with does it to a PIL image.

Only bytes are changed here: resized with antialiasing, the middle cut out. Bringing them to the model's scale and
normalising them is the network's own first step (:class:`~tasks.extractors.image.network.EmbeddingNetwork`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from tasks.extractors.base import ExtractionError
from tasks.extractors.settings import Precision
from tasks.models.libraries import import_torchvision

_BYTES = 255.0
_TRIALS = ((48, 64), (72, 40))  # pictures whose images have to be of one size
_MOST_LEVELS = 1.1  # of 256: more is no rounding
_INSTEAD = "take this model from timm or torchvision"


class Interpolation(StrEnum):
    """How pixels between pixels are made."""

    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


class Cropper(ABC):
    """Makes images of frames.

    Args:
        shorter_side: pixels to which the shorter side of a frame is resized.
        size: (height, width) pixels of the images, which fit into the resized frame.
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


@dataclass(frozen=True)
class Normalisation:
    """What the network does to the bytes first: ``(byte / scale - mean) / std``, for each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float = _BYTES


@dataclass(frozen=True)
class Preprocessing:
    """A model's own."""

    # (n, height, width, 3) uint8 RGB pictures in, (n, \\*size, 3) uint8 images out; made anew each time
    images: Callable[[np.ndarray], np.ndarray] = field(compare=False)
    size: tuple[int, int]  # (height, width) of the images
    normalisation: Normalisation  # what is left to do


def of_torchvision(preset: Any, precision: Precision) -> Preprocessing:
    """What torchvision's transforms for classification do.

    Args:
        preset: ``weights.transforms()``.
        precision: of the network; see :func:`cropper_class`.
    """
    (side,), (shorter,) = set(preset.crop_size), set(preset.resize_size)
    interpolation = Interpolation(preset.interpolation.value)
    cropper = cropper_class(precision)(shorter, (side, side), interpolation)
    return Preprocessing(cropper.crop, (side, side), Normalisation(tuple(preset.mean), tuple(preset.std)))


def of_timm(config: Mapping[str, Any], precision: Precision) -> Preprocessing:
    """What timm's evaluation transform does, by its configuration of the model (``resolve_model_data_config``)."""
    import_torchvision()
    from timm.data import create_transform
    from torchvision import transforms

    size = (int(config["input_size"][1]), int(config["input_size"][2]))
    normalisation = Normalisation(tuple(config["mean"]), tuple(config["std"]))
    steps = create_transform(**config, is_training=False, normalize=False).transforms
    if [type(step) for step in steps[:2]] == [transforms.Resize, transforms.CenterCrop]:
        shorter, crop = steps[0].size, tuple(steps[1].size)
        interpolation = steps[0].interpolation.value
        if isinstance(shorter, int) and shorter >= max(size) and crop == size and interpolation in list(Interpolation):
            return Preprocessing(
                cropper_class(precision)(shorter, size, Interpolation(interpolation)).crop, size, normalisation
            )

    def image(picture: np.ndarray) -> np.ndarray:
        image = Image.fromarray(picture)
        for step in steps:  # the last makes a tensor, (3, height, width) uint8, of the image
            image = step(image)
        return np.asarray(image).transpose(1, 2, 0)

    return Preprocessing(lambda rgb: np.stack([image(picture) for picture in rgb]), size, normalisation)


def of_transformers(folder: Path, section: str) -> Preprocessing:
    """What the image processor in a model's folder does.

    Raises:
        ExtractionError: there is none, its images have no fixed size, or are made in another way than by bringing bytes
            to the model's scale.
    """
    import_torchvision()
    from transformers import AutoImageProcessor

    try:
        processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ExtractionError(
            f"{section} transformers cannot load the model's image processor: {reason[:300]}"
        ) from None

    def images(rgb: np.ndarray) -> np.ndarray:
        pictures = [Image.fromarray(picture) for picture in rgb]
        found = processor(images=pictures, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"]
        return np.ascontiguousarray(found.transpose(0, 2, 3, 1))

    try:
        trials = [images(np.zeros((1, *size, 3), np.uint8)) for size in _TRIALS]
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise ExtractionError(
            f"{section} the model's image processor makes no image of a picture ({error}): {_INSTEAD}"
        ) from None
    if trials[0].shape != trials[1].shape or trials[0].shape[3:] != (3,) or trials[0].dtype != np.uint8:
        raise ExtractionError(
            f"{section} the model's image processor makes images of {trials[0].shape[1:]} {trials[0].dtype} of one "
            f"picture and of {trials[1].shape[1:]} of another; a feature needs RGB images of one size"
        )
    size = (trials[0].shape[1], trials[0].shape[2])
    normalisation = _normalisation(processor)
    _compare(processor, images, normalisation, section)
    return Preprocessing(images, size, normalisation)


def _compare(
    processor: Any, images: Callable[[np.ndarray], np.ndarray], normalisation: Normalisation, section: str
) -> None:
    """Make sure that what the network is given is what the processor would give it.

    A processor that resizes numbers, not bytes (DINOv3's), is a level of 256 apart in some places, and is let through.
    """
    noise = np.random.default_rng(0).integers(0, 256, (1, *_TRIALS[0], 3), dtype=np.uint8)
    own = processor(images=[Image.fromarray(noise[0])], return_tensors="np")["pixel_values"]
    scale, mean, std = normalisation.scale, np.array(normalisation.mean), np.array(normalisation.std)
    own_bytes = (own.transpose(0, 2, 3, 1) * std + mean) * scale
    apart = float(np.abs(own_bytes - images(noise)).max())
    if not apart < _MOST_LEVELS:
        raise ExtractionError(
            f"{section} the model's image processor does more than to resize and normalise: what the network would be "
            f"given is {apart:.0f} of 256 levels apart from what it gives; {_INSTEAD}"
        )


def _normalisation(processor: Any) -> Normalisation:
    scale = 1 / processor.rescale_factor if processor.do_rescale else 1.0
    mean, std = (processor.image_mean, processor.image_std) if processor.do_normalize else (0.0, 1.0)
    scale = _BYTES if abs(scale - _BYTES) < 1e-6 else scale
    return Normalisation(_of_channels(mean), _of_channels(std), scale)


def _of_channels(value: Any) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,) * 3
