"""The DOPE network: frames in, a pose of every kind in every box out.

Weinzaepfel et al., ECCV 2020: Faster R-CNN whose boxes are classified into "anchor poses" of each part and, for every
anchor pose, refined to a 2D and a 3D pose (Rogez et al., "LCR-Net++", TPAMI 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from tasks.extractors.dope.checkpoint_weights import PartWeights, Weights
from tasks.extractors.dope.frames import Size
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.options import NetworkOptions
from tasks.extractors.dope.proposals import RegionProposals
from tasks.extractors.dope.resnet import STRIDE, split_resnet50
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
        eps: of batch normalisation.
        boxes_per_pass: boxes whose features are in memory at once.
        roi_border: what is seen of a box beyond the feature map.
        half: whether the layers compute in float16; coordinates and probabilities stay float32.
    """

    def __init__(
        self,
        weights: Weights,
        options: NetworkOptions,
        eps: float,
        boxes_per_pass: int,
        roi_border: RoiBorder = RoiBorder.ZERO,
        half: bool = False,
    ) -> None:
        super().__init__()
        self.frame_layers, self.box_layers = split_resnet50(weights.resnet, eps)
        self.proposals = RegionProposals(weights.rpn_head, options)
        self.predictors = nn.ModuleDict(
            {part.value: PartPredictor(weights.parts[part], part, options) for part in Part}
        )
        self.boxes_per_pass = boxes_per_pass
        self.roi_border = roi_border
        self.dtype = torch.float16 if half else torch.float32
        for layer in self.modules():
            if half and isinstance(layer, nn.Conv2d | nn.Linear):
                layer.half()
            if isinstance(layer, nn.Conv2d):
                layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
        self.requires_grad_(False).eval()

    @torch.inference_mode()
    def forward(self, images: ImageList, frame_sizes: Sequence[Size]) -> list[FramePoses]:
        """Poses of every frame of a batch, in pixels of the frames before resizing.

        Args:
            images: B resized and padded frames.
            frame_sizes: their B sizes before resizing.
        """
        features = self.features(images.tensors)
        boxes = self.proposals(images, features)
        vectors = self.box_vectors(features, boxes)
        per_frame = zip(boxes, vectors, images.image_sizes, frame_sizes, strict=True)
        return [
            self._frame_poses(its_boxes, its_vectors, Size(*resized), size)
            for its_boxes, its_vectors, resized, size in per_frame
        ]

    def features(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 1024, H/16, W/16)."""
        return self.frame_layers(pixels.to(dtype=self.dtype, memory_format=torch.channels_last))

    def box_vectors(self, features: Tensor, boxes: Sequence[Tensor]) -> list[Tensor]:
        """Of every frame one vector per box, (N, 2048)."""
        counts = [len(of_frame) for of_frame in boxes]
        frame_of_box = torch.repeat_interleave(torch.tensor(counts)).to(features.device)
        # RoIAlign runs in float32 in a half-precision network too: box coordinates need the digits.
        maps = features.float()
        vectors = [
            self.box_layers(crops.to(features.dtype)).mean((2, 3))
            for crops in self._crops(maps, torch.cat(list(boxes)), frame_of_box)
        ]
        return list(torch.cat(vectors).split(counts))

    def _crops(self, maps: Tensor, boxes: Tensor, frame_of_box: Tensor) -> Iterator[Tensor]:
        passes = zip(boxes.split(self.boxes_per_pass), frame_of_box.split(self.boxes_per_pass), strict=True)
        for some_boxes, their_frames in passes:
            crops = roi_align(maps, some_boxes, their_frames, BINS, 1 / STRIDE, self.roi_border)
            yield crops.contiguous(memory_format=torch.channels_last)

    def _frame_poses(self, boxes: Tensor, vectors: Tensor, resized: Size, size: Size) -> FramePoses:
        to_frame = torch.tensor(size[::-1], device=boxes.device) / torch.tensor(resized[::-1], device=boxes.device)
        parts = {part: self.predictors[part.value](vectors, boxes, to_frame) for part in Part}
        return FramePoses(boxes * to_frame.repeat(2), parts)


class PartPredictor(nn.Module):
    """Scores and poses of one part from the vectors of the boxes."""

    anchor_xy: Tensor
    anchor_xyz: Tensor

    def __init__(self, weights: PartWeights, part: Part, options: NetworkOptions) -> None:
        super().__init__()
        self.cls_score = _linear(weights.cls_weight, weights.cls_bias)
        self.pose_pred = _linear(weights.pose_weight, weights.pose_bias)
        self.register_buffer("anchor_xy", weights.anchor_poses[..., :2].clone())
        self.register_buffer("anchor_xyz", weights.anchor_poses[..., 2:].clone())
        self.divisors = options.pose2d_reg_weights[part], options.pose3d_reg_weights[part]

    def forward(self, vectors: Tensor, boxes: Tensor, to_frame: Tensor) -> PartPoses:
        """Poses in N boxes.

        Args:
            vectors: (N, 2048).
            boxes: (N, 4) float32, pixels of the resized frame.
            to_frame: (2,) float32, factors for x and y from the resized frame to the frame.
        """
        scores = functional.softmax(self.cls_score(vectors).float(), -1)
        offsets = self.pose_pred(vectors).float().unflatten(1, (len(self.anchor_xy), -1))
        # An anchor pose's numbers are all its (x, y), then all its (X, Y, Z).
        joints = self.anchor_xy.shape[1]
        xy, xyz = offsets.split([2 * joints, 3 * joints], -1)
        in_box = self.anchor_xy + xy.unflatten(-1, (joints, 2)) / self.divisors[0]
        corner, size = boxes[:, None, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None, None]
        pose2d = (corner + in_box * size) * to_frame
        pose3d = self.anchor_xyz + xyz.unflatten(-1, (joints, 3)) / self.divisors[1]
        return PartPoses(scores, pose2d, pose3d)


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return layer
