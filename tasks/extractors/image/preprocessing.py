"""From pictures to a model's images: as the library that the model comes with does it to a PIL image.

Only bytes are changed here: resized with antialiasing, the middle cut out. Bringing them to the model's scale and
normalising them is the network's own first step (:class:`~tasks.extractors.image.network.EmbeddingNetwork`).
"""

from __future__ import annotations

import math
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
        sides = rgb.shape[1:3]
        rows, columns = (
            Side(side, self.shorter_side * side // min(sides), size)
            for side, size in zip(sides, self.size, strict=True)
        )
        return np.ascontiguousarray(self._resized_middle(rgb, rows, columns))

    @abstractmethod
    def _resized_middle(self, rgb: np.ndarray, rows: Side, columns: Side) -> np.ndarray:
        """The middle of the resized frames."""


@dataclass(frozen=True)
class Side:
    """The height or the width of a frame that is resized, and of whose result the middle is cut out."""

    pixels: int  # of the frame
    resized: int
    cut: int  # pixels of the middle

    @property
    def middle(self) -> slice:
        """Where the middle is in the resized side."""
        first = round((self.resized - self.cut) / 2)
        return slice(first, first + self.cut)

    @property
    def periods(self) -> tuple[slice, slice]:
        """The fewest whole periods of the scale that have the middle: pixels of the frame, and of the resized side.

        In a period the pixels of both are whole numbers, so the resampling weights repeat from one to the next, and
        whole periods are resized with the weights that they have within the whole side.
        """
        count = math.gcd(self.pixels, self.resized)
        pixels, resized = self.pixels // count, self.resized // count
        first, stop = self.middle.start // resized, -(-self.middle.stop // resized)
        return slice(first * pixels, stop * pixels), slice(first * resized, stop * resized)


class ExactCropper(Cropper):
    """To the bit what the libraries give for PIL images, which resize the whole frame and crop it then."""

    def __init__(
        self, shorter_side: int, size: tuple[int, int], interpolation: Interpolation = Interpolation.BILINEAR
    ) -> None:
        super().__init__(shorter_side, size, interpolation)
        self._parts: dict[tuple[Side, Side], tuple[slice, slice]] = {}

    def part(self, rows: Side, columns: Side) -> tuple[slice, slice]:
        """The columns of a frame that are resized, and which columns of the resized frame they become.

        They are the periods around the middle, or all columns where Pillow would round these differently: it resizes
        rows and columns one after the other, in an order that depends on how many there are. So a picture of noise is
        resized in both ways, once for each size of frames.
        """
        if (rows, columns) not in self._parts:
            part, whole = columns.periods, (slice(0, columns.pixels), slice(0, columns.resized))
            noise = np.random.default_rng(0).integers(0, 256, (rows.pixels, columns.pixels, 3), dtype=np.uint8)
            is_equal = part == whole or np.array_equal(
                self._resize(noise, rows, *part), self._resize(noise, rows, *whole)[:, part[1]]
            )
            self._parts[rows, columns] = part if is_equal else whole
        return self._parts[rows, columns]

    def _resized_middle(self, rgb: np.ndarray, rows: Side, columns: Side) -> np.ndarray:
        pixels, resized = self.part(rows, columns)
        left = columns.middle.start - resized.start
        frames = np.stack([self._resize(frame, rows, pixels, resized) for frame in rgb])
        return frames[:, rows.middle, left : left + columns.cut]

    def _resize(self, frame: np.ndarray, rows: Side, pixels: slice, resized: slice) -> np.ndarray:
        """These columns of a frame, resized to as many as ``resized`` has."""
        filter_ = Image.Resampling[self.interpolation.upper()]
        box, size = (pixels.start, 0, pixels.stop, rows.pixels), (resized.stop - resized.start, rows.resized)
        return np.asarray(Image.fromarray(frame).resize(size, filter_, box))


class FastCropper(Cropper):
    """At a quarter of the cost; one value in about a thousand differs, by one of 256 levels."""

    def _resized_middle(self, rgb: np.ndarray, rows: Side, columns: Side) -> np.ndarray:
        frames, size = torch.from_numpy(rgb).permute(0, 3, 1, 2), (rows.resized, columns.resized)
        resized = torch.nn.functional.interpolate(frames, size, mode=str(self.interpolation), antialias=True)
        return resized.permute(0, 2, 3, 1).numpy()[:, rows.middle, columns.middle]


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
        processed = processor(images=pictures, do_rescale=False, do_normalize=False, return_tensors="np")[
            "pixel_values"
        ]
        return np.ascontiguousarray(processed.transpose(0, 2, 3, 1))

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
