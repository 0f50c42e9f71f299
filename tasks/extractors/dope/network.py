"""The DOPE network: frames in, a pose of every kind in every box out.

Weinzaepfel et al., ECCV 2020: Faster R-CNN whose boxes are classified into "anchor poses" of each part and, for every
anchor pose, refined to a 2D and a 3D pose (Rogez et al., "LCR-Net++", TPAMI 2019). The boxes come from a region
proposal network (Ren et al., "Faster R-CNN", NeurIPS 2015) on a single feature map, with torchvision's anchors and box
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tasks.extractors.dope.checkpoint import PartWeights, Weights
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.layers import STRIDE, BoxNumbers, Layers
from tasks.extractors.dope.options import NetworkOptions
from tasks.extractors.dope.roi_ops import nms, roi_align
from tasks.extractors.dope.settings import RoiBorder
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


ANCHOR_SIZES = (32, 64, 128, 256, 512)  # pixels of the resized frame, side of the square of the same area
ANCHOR_RATIOS = (0.5, 1.0, 2.0)  # height / width
SMALLEST_SIDE = 1e-3  # pixels


class RegionProposals(nn.Module):
    """Boxes of a frame that may hold a person or a part of one, best first."""

    def __init__(self, options: NetworkOptions) -> None:
        super().__init__()
        import_torchvision()
        from torchvision.models.detection._utils import BoxCoder
        from torchvision.models.detection.rpn import AnchorGenerator

        self.anchor_generator = AnchorGenerator((ANCHOR_SIZES,), (ANCHOR_RATIOS,))
        self.box_coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
        self.options = options

    def forward(self, images: ImageList, objectness: Tensor, deltas: Tensor) -> list[Tensor]:
        """The boxes of every image, (N, 4) float32, x1 y1 x2 y2 in pixels of the resized frame, best first.

        ``objectness`` and ``deltas`` are those of :class:`tasks.extractors.dope.layers.FrameMaps`.
        """
        anchors = self.anchor_generator(images, [objectness])[0]
        # (B, anchors of a cell [* 4], H, W) -> (B, cells and their anchors[, 4]), the order of the anchors
        scores = objectness.permute(0, 2, 3, 1).flatten(1)
        deltas = deltas.permute(0, 2, 3, 1).reshape(len(scores), -1, 4)
        return [self._best_boxes(scores[i], deltas[i], anchors, size) for i, size in enumerate(images.image_sizes)]

    def _best_boxes(self, scores: Tensor, deltas: Tensor, anchors: Tensor, size: tuple[int, int]) -> Tensor:
        from torchvision.ops import clip_boxes_to_image, remove_small_boxes

        scores, best = scores.topk(min(self.options.rpn_pre_nms_top_n, len(scores)))
        boxes = self.box_coder.decode_single(deltas[best], anchors[best])
        boxes = clip_boxes_to_image(boxes, size)
        large = remove_small_boxes(boxes, SMALLEST_SIDE)
        boxes, scores = boxes[large], scores[large].sigmoid()
        return boxes[nms(boxes, scores, self.options.rpn_nms_thresh)[: self.options.rpn_post_nms_top_n]]


BINS = 7  # cells along each side of a box's features


@dataclass(frozen=True)
class PartPoses:
    """Poses of one part in all N boxes of a frame, K anchor poses of J joints each; float32.

    Column 0 of the scores is background, column k + 1 anchor pose k.
    """

    scores: Tensor  # (N, K + 1), probabilities
    pose2d: Tensor  # (N, K, J, 2), pixels of the frame
    pose3d: Tensor  # (N, K, J, 3), units in storyframes.features


@dataclass(frozen=True)
class FramePoses:
    """The network's output for one frame: boxes in the order of the region proposal network, poses in these boxes."""

    boxes: Tensor  # (N, 4) float32, x1 y1 x2 y2 in pixels of the frame
    parts: Mapping[Part, PartPoses]


class DopeNetwork(nn.Module):
    """The network of one model file.

    Args:
        options: sizes and thresholds.
        layers: of the network, in torch or OpenVINO.
        boxes_per_pass: boxes whose features are in memory at once.
        roi_border: the features of a box beyond the feature map.
    """

    def __init__(
        self,
        weights: Weights,
        options: NetworkOptions,
        layers: Layers,
        boxes_per_pass: int,
        roi_border: RoiBorder = RoiBorder.ZERO,
    ) -> None:
        super().__init__()
        self.layers = layers
        self.proposals = RegionProposals(options)
        self.anchor_poses = nn.ModuleDict(
            {part.value: AnchorPoses(weights.parts[part], part, options) for part in Part}
        )
        self.boxes_per_pass = boxes_per_pass
        self.roi_border = roi_border

    @torch.inference_mode()
    def forward(self, images: ImageList, frame_sizes: Sequence[Size]) -> list[FramePoses]:
        """Poses of every frame of a batch, in pixels of the frames before resizing.

        Args:
            images: B resized and padded frames.
            frame_sizes: their B sizes before resizing.
        """
        maps = self.layers.of_frames(images.tensors)
        boxes = self.proposals(images, maps.objectness, maps.deltas)
        numbers = self.box_numbers(maps.features, boxes)
        per_frame = zip(boxes, numbers, images.image_sizes, frame_sizes, strict=True)
        return [
            self._frame_poses(frame_boxes, frame_numbers, Size(*resized), size)
            for frame_boxes, frame_numbers, resized, size in per_frame
        ]

    def box_numbers(self, features: Tensor, boxes: Sequence[Tensor]) -> list[BoxNumbers]:
        """The outputs for the boxes of every frame. RoIAlign is in float32: coordinates need the digits."""
        counts = torch.tensor([len(frame_boxes) for frame_boxes in boxes])
        frame_of_box = torch.repeat_interleave(counts).to(features.device)
        crops = self._crops(features, torch.cat(list(boxes)), frame_of_box)
        numbers = BoxNumbers.joined([self.layers.of_boxes(crop) for crop in crops])
        ends = [0, *counts.cumsum(0).tolist()]
        return [numbers[start:stop] for start, stop in pairwise(ends)]

    def _crops(self, features: Tensor, boxes: Tensor, frame_of_box: Tensor) -> Iterator[Tensor]:
        passes = zip(boxes.split(self.boxes_per_pass), frame_of_box.split(self.boxes_per_pass), strict=True)
        for pass_boxes, frame_numbers in passes:
            yield roi_align(features, pass_boxes, frame_numbers, BINS, 1 / STRIDE, self.roi_border)

    def _frame_poses(self, boxes: Tensor, numbers: BoxNumbers, resized: Size, size: Size) -> FramePoses:
        to_frame = torch.tensor(size[::-1], device=boxes.device) / torch.tensor(resized[::-1], device=boxes.device)
        parts = {
            part: self.anchor_poses[part.value](numbers.logits[part], numbers.offsets[part], boxes, to_frame)
            for part in Part
        }
        return FramePoses(boxes * to_frame.repeat(2), parts)


class AnchorPoses(nn.Module):
    """Scores and poses of one part from the layers' outputs for the boxes."""

    anchor_xy: Tensor
    anchor_xyz: Tensor

    def __init__(self, weights: PartWeights, part: Part, options: NetworkOptions) -> None:
        super().__init__()
        self.register_buffer("anchor_xy", weights.anchor_poses[..., :2].clone())
        self.register_buffer("anchor_xyz", weights.anchor_poses[..., 2:].clone())
        self.divisors = options.pose2d_reg_weights[part], options.pose3d_reg_weights[part]

    def forward(self, logits: Tensor, offsets: Tensor, boxes: Tensor, to_frame: Tensor) -> PartPoses:
        """Poses in N boxes.

        Args:
            logits: (N, K + 1) float32.
            offsets: (N, K * J * 5) float32.
            boxes: (N, 4) float32, pixels of the resized frame.
            to_frame: (2,) float32, factors for x and y from the resized frame to the frame.
        """
        scores = functional.softmax(logits, -1)
        by_anchor = offsets.unflatten(1, (len(self.anchor_xy), -1))
        # An anchor pose's numbers are all its (x, y), then all its (X, Y, Z).
        joints = self.anchor_xy.shape[1]
        xy, xyz = by_anchor.split([2 * joints, 3 * joints], -1)
        in_box = self.anchor_xy + xy.unflatten(-1, (joints, 2)) / self.divisors[0]
        corner, size = boxes[:, None, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None, None]
        pose2d = (corner + in_box * size) * to_frame
        pose3d = self.anchor_xyz + xyz.unflatten(-1, (joints, 3)) / self.divisors[1]
        return PartPoses(scores, pose2d, pose3d)
