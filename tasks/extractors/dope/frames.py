"""uint8 frames into the network's input: checked, grouped, normalised, resized and padded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.extractors.dope.options import NetworkOptions
from tasks.models.libraries import import_torchvision

if TYPE_CHECKING:
    from torchvision.models.detection.image_list import ImageList

PADDING_MULTIPLE = 32  # pixels; two maps of the coarsest stride

Frame = NDArray[np.uint8]
Frames = Sequence[Frame] | NDArray[np.uint8]


class Size(NamedTuple):
    height: int
    width: int

    @property
    def padded(self) -> Size:
        """The smallest size that holds this one and has sides divisible by 32."""
        height, width = (math.ceil(side / PADDING_MULTIPLE) * PADDING_MULTIPLE for side in self)
        return Size(height, width)


def frame_size(frame: Frame) -> Size:
    """Size of an RGB frame.

    Raises:
        ValueError: not uint8 (H, W, 3), or empty.
    """
    shape = np.shape(frame)
    if len(shape) != 3 or shape[2] != 3 or 0 in shape or getattr(frame, "dtype", None) != np.uint8:
        raise ValueError(
            f"a frame has shape {shape} and type {getattr(frame, 'dtype', type(frame).__name__)}; "
            "it must be RGB, uint8 (height, width, 3) with at least one pixel"
        )
    return Size(shape[0], shape[1])


def resized_size(size: Size, options: NetworkOptions) -> Size:
    """Size after resizing: the shorter side ``min_size``, or less where the longer side would exceed ``max_size``.

    Sides are rounded down, so a side can be one pixel shorter than ``min_size``.

    Raises:
        ValueError: the frame is so narrow that nothing of its shorter side would be left.
    """
    factor = min(options.min_size / min(size), options.max_size / max(size))
    resized = Size(math.floor(size.height * factor), math.floor(size.width * factor))
    if min(resized) < 1:
        raise ValueError(
            f"a frame of {size.height} x {size.width} pixels would be resized to {resized.height} x {resized.width}; "
            f"its longer side must be at most {options.max_size} times its shorter side (max_size)"
        )
    return resized


def groups_of_one_input_size(sizes: Sequence[Size], options: NetworkOptions, largest: int) -> list[list[int]]:
    """Indices of the frames that go through the network together, at most ``largest`` each.

    More padding than a frame needs would change the network's output at its border, so only frames that are padded to
    the same size share a pass. Frames of one video always do.
    """
    by_padded: dict[Size, list[int]] = {}
    for index, size in enumerate(sizes):
        by_padded.setdefault(resized_size(size, options).padded, []).append(index)
    return [indices[i : i + largest] for indices in by_padded.values() for i in range(0, len(indices), largest)]


def network_input(frames: Sequence[Frame], options: NetworkOptions, device: torch.device) -> ImageList:
    """Frames of one padded size as one float32 batch (B, 3, H, W), with their sizes before padding.

    Normalises, then resizes (bilinear, no anti-aliasing), then pads with zeros at the bottom and the right.
    """
    import_torchvision()
    from torchvision.models.detection.transform import GeneralizedRCNNTransform

    transform = GeneralizedRCNNTransform(
        options.min_size,
        options.max_size,
        list(options.image_mean),
        list(options.image_std),
        size_divisible=PADDING_MULTIPLE,
    ).eval()
    # torch.tensor copies, so frames may be read-only or flipped views.
    pixels = [torch.tensor(np.ascontiguousarray(frame)).to(device).permute(2, 0, 1) / 255 for frame in frames]
    images, _ = transform(pixels)
    return images
