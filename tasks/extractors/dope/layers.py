"""The layers of the network, in two parts: one sees whole frames, the other single boxes, whatever boxes there are.

What computes them is torch (here) or OpenVINO (:mod:`tasks.extractors.dope.openvino_layers`); what lies between them is
the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from tasks.extractors.dope.checkpoint_weights import C4_CHANNELS, RPN_ANCHORS, PartWeights, Weights
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.resnet import split_resnet50
from tasks.models.libraries import import_torchvision


@dataclass(frozen=True)
class FrameMaps:
    """Of B frames of H x W pixels, float32.

    Attributes:
        features: (B, 1024, H/16, W/16).
        objectness: (B, 15, H/16, W/16), of every anchor of a cell, as logits.
        deltas: (B, 60, H/16, W/16), from the anchors to boxes.
    """

    features: Tensor
    objectness: Tensor
    deltas: Tensor


@dataclass(frozen=True)
class BoxNumbers:
    """Of N boxes, float32; K anchor poses of J joints each.

    Attributes:
        vectors: (N, 2048), what the others are made of.
        logits: of each part (N, K + 1).
        offsets: of each part (N, K * J * 5), from the anchor poses.
    """

    vectors: Tensor
    logits: Mapping[Part, Tensor]
    offsets: Mapping[Part, Tensor]

    @classmethod
    def of(cls, outputs: Sequence[Tensor]) -> BoxNumbers:
        """What :class:`BoxLayers` gives, in its order."""
        vectors, *of_parts = outputs
        return cls(vectors, dict(zip(Part, of_parts[::2], strict=True)), dict(zip(Part, of_parts[1::2], strict=True)))

    @classmethod
    def joined(cls, passes: Sequence[BoxNumbers]) -> BoxNumbers:
        """Of all boxes of these, in their order."""
        return cls(
            torch.cat([some.vectors for some in passes]),
            {part: torch.cat([some.logits[part] for some in passes]) for part in Part},
            {part: torch.cat([some.offsets[part] for some in passes]) for part in Part},
        )

    def __getitem__(self, chosen: slice) -> BoxNumbers:
        return BoxNumbers(
            self.vectors[chosen],
            {part: self.logits[part][chosen] for part in Part},
            {part: self.offsets[part][chosen] for part in Part},
        )


class Layers(Protocol):
    """Both parts, at work."""

    def of_frames(self, pixels: Tensor) -> FrameMaps:
        """Of (B, 3, H, W) float32 with sides divisible by 32."""

    def of_boxes(self, crops: Tensor) -> BoxNumbers:
        """Of (N, 1024, 7, 7) float32, what the boxes' features are."""


class TorchLayers(nn.Module):
    """Both parts on any device of torch's.

    Args:
        weights: of the model.
        eps: of batch normalisation.
        half: whether they compute in float16.
    """

    def __init__(self, weights: Weights, eps: float, half: bool = False) -> None:
        super().__init__()
        self.dtype = torch.float16 if half else torch.float32
        self.frame, self.box = frame_and_box_layers(weights, eps)
        for layer in self.modules():
            if half and isinstance(layer, nn.Conv2d | nn.Linear):
                layer.half()
            if isinstance(layer, nn.Conv2d):
                layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
        self.requires_grad_(False).eval()

    def of_frames(self, pixels: Tensor) -> FrameMaps:
        maps = self.frame(pixels.to(dtype=self.dtype, memory_format=torch.channels_last))
        return FrameMaps(*(of_one.float() for of_one in maps))

    def of_boxes(self, crops: Tensor) -> BoxNumbers:
        outputs = self.box(crops.to(dtype=self.dtype, memory_format=torch.channels_last))
        return BoxNumbers.of([output.float() for output in outputs])


def frame_and_box_layers(weights: Weights, eps: float) -> tuple[FrameLayers, BoxLayers]:
    """Both parts, float32; ``eps`` is of batch normalisation."""
    frame, box = split_resnet50(weights.resnet, eps)
    return FrameLayers(frame, weights.rpn_head), BoxLayers(box, weights.parts)


class FrameLayers(nn.Module):
    """(B, 3, H, W) pixels in; the maps of :class:`FrameMaps` out, in their order."""

    def __init__(self, resnet: nn.Module, head_weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        import_torchvision()
        from torchvision.models.detection.rpn import RPNHead

        self.resnet = resnet
        with torch.device("meta"):
            self.head = RPNHead(C4_CHANNELS, RPN_ANCHORS)
        self.head.load_state_dict(dict(head_weights), assign=True)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.resnet(pixels)
        (objectness,), (deltas,) = self.head([features])
        return features, objectness, deltas


class BoxLayers(nn.Module):
    """(N, 1024, 7, 7) crops in; vectors, then logits and offsets of each part out."""

    def __init__(self, resnet: nn.Module, parts: Mapping[Part, PartWeights]) -> None:
        super().__init__()
        self.resnet = resnet
        self.scores = nn.ModuleList([linear(parts[part].cls_weight, parts[part].cls_bias) for part in Part])
        self.offsets = nn.ModuleList([linear(parts[part].pose_weight, parts[part].pose_bias) for part in Part])

    def forward(self, crops: Tensor) -> tuple[Tensor, ...]:
        return self.with_parts(self.resnet(crops).mean((2, 3)))

    def with_parts(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """The vectors (N, 2048) and what is made of them."""
        of_parts = zip(self.scores, self.offsets, strict=True)
        return (vectors, *(layer(vectors) for of_part in of_parts for layer in of_part))


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A layer of these very tensors."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return layer
