"""The network's layers, in two parts: one computes on whole frames, the other on single boxes.

They run in torch (here) or in OpenVINO (:mod:`tasks.extractors.dope.openvino_layers`); the code between the two parts
is the same for both. ResNet-50 (He et al., "Deep residual learning for image recognition", CVPR 2016) is as in
torchvision (stride in the 3 x 3 convolution), with frozen batch normalisation: its layers up to stride 16 see frames,
its last layer sees boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from tasks.extractors.dope.checkpoint import C4_CHANNELS, RPN_ANCHORS, PartWeights, Weights
from tasks.extractors.dope.joints import Part
from tasks.models.libraries import import_torchvision

STRIDE = 16  # pixels of the resized frame per cell of the feature map


def split_resnet50(weights: Mapping[str, Tensor], eps: float) -> tuple[nn.Module, nn.Module]:
    """The frame part, (B, 3, H, W) -> (B, 1024, H/16, W/16), and the box part, (N, 1024, 7, 7) -> (N, 2048, 4, 4)."""
    import_torchvision()
    from torchvision.models import resnet50
    from torchvision.ops import FrozenBatchNorm2d

    with torch.device("meta"):
        resnet = resnet50(norm_layer=FrozenBatchNorm2d)
    resnet.load_state_dict(dict(weights), assign=True)
    _fold_batch_norms(resnet, eps)
    layers = (resnet.conv1, resnet.relu, resnet.maxpool, resnet.layer1, resnet.layer2, resnet.layer3)
    return nn.Sequential(*layers), resnet.layer4


def _fold_batch_norms(resnet: nn.Module, eps: float) -> None:
    """Merge every frozen batch normalisation into the convolution before it: the same function, a third faster."""
    from torchvision.ops import FrozenBatchNorm2d

    pairs = (("conv1", "bn1"), ("conv2", "bn2"), ("conv3", "bn3"), ("0", "1"))  # the last is a block's shortcut
    for block in list(resnet.modules()):
        for conv_name, norm_name in pairs:
            norm = getattr(block, norm_name, None)
            if isinstance(norm, FrozenBatchNorm2d):
                setattr(block, conv_name, _folded(getattr(block, conv_name), norm, eps))
                setattr(block, norm_name, nn.Identity())


def _folded(conv: nn.Conv2d, norm: nn.Module, eps: float) -> nn.Conv2d:
    weight, bias, mean, variance = (buffer.double() for buffer in norm.buffers())  # the order of FrozenBatchNorm2d
    deviation = (variance + eps).sqrt()
    # A channel without any variance is constant: it contributes its bias, without a division by zero.
    scale = torch.where(deviation > 0, weight / deviation, 0.0)
    conv.weight = nn.Parameter((conv.weight.double() * scale[:, None, None, None]).float(), requires_grad=False)
    conv.bias = nn.Parameter((bias - mean * scale).float(), requires_grad=False)
    return conv


@dataclass(frozen=True)
class FrameMaps:
    """Outputs for B frames of H x W pixels, float32."""

    features: Tensor  # (B, 1024, H/16, W/16)
    objectness: Tensor  # (B, 15, H/16, W/16), logits of every anchor of a cell
    deltas: Tensor  # (B, 60, H/16, W/16), from the anchors to boxes


@dataclass(frozen=True)
class BoxNumbers:
    """Outputs for N boxes, float32; K anchor poses of J joints each."""

    vectors: Tensor  # (N, 2048), from which the others are computed
    logits: Mapping[Part, Tensor]  # (N, K + 1)
    offsets: Mapping[Part, Tensor]  # (N, K * J * 5), from the anchor poses

    @classmethod
    def of(cls, outputs: Sequence[Tensor]) -> BoxNumbers:
        """From the outputs of :class:`BoxLayers`, in its order."""
        vectors, *by_part = outputs
        return cls(vectors, dict(zip(Part, by_part[::2], strict=True)), dict(zip(Part, by_part[1::2], strict=True)))

    @classmethod
    def joined(cls, passes: Sequence[BoxNumbers]) -> BoxNumbers:
        """The boxes of all passes, in their order."""
        return cls(
            torch.cat([numbers.vectors for numbers in passes]),
            {part: torch.cat([numbers.logits[part] for numbers in passes]) for part in Part},
            {part: torch.cat([numbers.offsets[part] for numbers in passes]) for part in Part},
        )

    def __getitem__(self, boxes: slice) -> BoxNumbers:
        return BoxNumbers(
            self.vectors[boxes],
            {part: self.logits[part][boxes] for part in Part},
            {part: self.offsets[part][boxes] for part in Part},
        )


class Layers(Protocol):
    """Both parts."""

    def of_frames(self, pixels: Tensor) -> FrameMaps:
        """Compute on pixels, (B, 3, H, W) float32 with sides divisible by 32."""

    def of_boxes(self, crops: Tensor) -> BoxNumbers:
        """Compute on the features of boxes, (N, 1024, 7, 7) float32."""


class TorchLayers(nn.Module):
    """Both parts in torch, on any device; in float16 where ``half`` is set. ``eps`` is batch normalisation's."""

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
        return FrameMaps(*(output.float() for output in maps))

    def of_boxes(self, crops: Tensor) -> BoxNumbers:
        outputs = self.box(crops.to(dtype=self.dtype, memory_format=torch.channels_last))
        return BoxNumbers.of([output.float() for output in outputs])


def frame_and_box_layers(weights: Weights, eps: float) -> tuple[FrameLayers, BoxLayers]:
    """Both parts, float32; ``eps`` is batch normalisation's."""
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
        """The vectors (N, 2048), then logits and offsets of each part."""
        layers = zip(self.scores, self.offsets, strict=True)
        return (vectors, *(layer(vectors) for part_layers in layers for layer in part_layers))


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A layer that shares these tensors."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return layer
