"""The DOPE network: frames in, a pose of every kind in every box out.

Weinzaepfel et al., ECCV 2020: Faster R-CNN whose boxes are classified into "anchor poses" of each part and, for every
anchor pose, refined to a 2D and a 3D pose (Rogez et al., "LCR-Net++", TPAMI 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from tasks.extractors.dope.checkpoint_weights import PartWeights, Weights
from tasks.extractors.dope.frames import Size
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.layers import BoxNumbers, Layers
from tasks.extractors.dope.options import NetworkOptions
from tasks.extractors.dope.proposals import RegionProposals
from tasks.extractors.dope.resnet import STRIDE
from tasks.extractors.dope.roi_ops import roi_align
from tasks.extractors.dope.settings import RoiBorder

if TYPE_CHECKING:
    from torchvision.models.detection.image_list import ImageList

BINS = 7  # cells along each side of a box's features


@dataclass(frozen=True)
class PartPoses:
    """Poses of one part in all N boxes of a frame, K anchor poses of J joints each; float32.

    Attributes:
        scores: (N, K + 1), probabilities; column 0 is background, k + 1 is anchor pose k.
        pose2d: (N, K, J, 2), pixels of the frame.
        pose3d: (N, K, J, 3), units in :mod:`storyframes.features`.
    """

    scores: Tensor
    pose2d: Tensor
    pose3d: Tensor


@dataclass(frozen=True)
class FramePoses:
    """What the network says about one frame.

    Attributes:
        boxes: (N, 4) float32, x1 y1 x2 y2 in pixels of the frame, in the order of the region proposal network.
        parts: the poses of each part in these boxes.
    """

    boxes: Tensor
    parts: Mapping[Part, PartPoses]


class DopeNetwork(nn.Module):
    """The network of one model file.

    Args:
        weights: of the file.
        options: sizes and thresholds.
        layers: what computes its layers.
        boxes_per_pass: boxes whose features are in memory at once.
        roi_border: what is seen of a box beyond the feature map.
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
            self._frame_poses(its_boxes, its_numbers, Size(*resized), size)
            for its_boxes, its_numbers, resized, size in per_frame
        ]

    def box_numbers(self, features: Tensor, boxes: Sequence[Tensor]) -> list[BoxNumbers]:
        """What the layers say of the boxes of every frame; RoIAlign is in float32: coordinates need the digits."""
        counts = torch.tensor([len(of_frame) for of_frame in boxes])
        frame_of_box = torch.repeat_interleave(counts).to(features.device)
        crops = self._crops(features, torch.cat(list(boxes)), frame_of_box)
        numbers = BoxNumbers.joined([self.layers.of_boxes(some) for some in crops])
        ends = [0, *counts.cumsum(0).tolist()]
        return [numbers[start:stop] for start, stop in pairwise(ends)]

    def _crops(self, features: Tensor, boxes: Tensor, frame_of_box: Tensor) -> Iterator[Tensor]:
        passes = zip(boxes.split(self.boxes_per_pass), frame_of_box.split(self.boxes_per_pass), strict=True)
        for some_boxes, their_frames in passes:
            yield roi_align(features, some_boxes, their_frames, BINS, 1 / STRIDE, self.roi_border)

    def _frame_poses(self, boxes: Tensor, numbers: BoxNumbers, resized: Size, size: Size) -> FramePoses:
        to_frame = torch.tensor(size[::-1], device=boxes.device) / torch.tensor(resized[::-1], device=boxes.device)
        parts = {
            part: self.anchor_poses[part.value](numbers.logits[part], numbers.offsets[part], boxes, to_frame)
            for part in Part
        }
        return FramePoses(boxes * to_frame.repeat(2), parts)


class AnchorPoses(nn.Module):
    """Scores and poses of one part from what the layers say of the boxes."""

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
        of_anchor = offsets.unflatten(1, (len(self.anchor_xy), -1))
        # An anchor pose's numbers are all its (x, y), then all its (X, Y, Z).
        joints = self.anchor_xy.shape[1]
        xy, xyz = of_anchor.split([2 * joints, 3 * joints], -1)
        in_box = self.anchor_xy + xy.unflatten(-1, (joints, 2)) / self.divisors[0]
        corner, size = boxes[:, None, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None, None]
        pose2d = (corner + in_box * size) * to_frame
        pose3d = self.anchor_xyz + xyz.unflatten(-1, (joints, 3)) / self.divisors[1]
        return PartPoses(scores, pose2d, pose3d)
