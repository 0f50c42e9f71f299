"""ResNet-50's last layer for boxes as matrix products over all of them.

A box has 49 places, then 16. A library's convolution goes box by box, so that it reads millions of weights for 16
places at a time: two thirds of what a matrix product reaches. Here the places of all boxes are the rows of one product;
for a 3 x 3 convolution a row is a place with its eight neighbours.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tasks.extractors.dope.layers import linear


class BoxProducts(nn.Module):
    """(N, 7, 7, 1024) in, (N, 4, 4, 2048) out: as ``layer`` does it with channels first.

    Args:
        layer: torchvision's ``layer4`` with its batch normalisations folded.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(_Block(block) for block in layer.children()))

    def forward(self, crops: Tensor) -> Tensor:
        return self.blocks(crops)


class _Block(nn.Module):
    """A bottleneck block: 1 x 1, 3 x 3, 1 x 1, and the shortcut."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.stride = block.stride
        self.first, self.last = _of_places(block.conv1), _of_places(block.conv3)
        # (out, in, 3, 3) -> (out, a row's numbers: the nine places, each with its channels)
        self.middle = linear(block.conv2.weight.permute(0, 2, 3, 1).flatten(1), block.conv2.bias)
        self.shortcut = _of_places(block.downsample[0]) if block.downsample is not None else None

    def forward(self, places: Tensor) -> Tensor:
        hidden = self.middle(self._with_neighbours(self.first(places).relu())).relu()
        shortcut = places
        if self.shortcut is not None:
            shortcut = self.shortcut(places[:, :: self.stride, :: self.stride])
        return (self.last(hidden) + shortcut).relu()

    def _with_neighbours(self, places: Tensor) -> Tensor:
        """(N, H, W, C) -> (N, H / stride, W / stride, 9 C), zeros beyond the border."""
        height, width = places.shape[1:3]
        padded = functional.pad(places, (0, 0, 1, 1, 1, 1))
        shifted = [
            padded[:, y : y + height : self.stride, x : x + width : self.stride] for y in range(3) for x in range(3)
        ]
        return torch.cat(shifted, -1)


def _of_places(conv: nn.Conv2d) -> nn.Linear:
    assert conv.bias is not None
    return linear(conv.weight.flatten(1), conv.bias)
