"""The network's layers in OpenVINO, on processors, with two means to save memory and time.

Memory: OpenVINO rearranges the weights for the processor and also keeps the originals, which it hardly reads again.
They are put into a file without a name and mapped, so that their pages can be released and read again from the file.

Time: a box has 49 cells, then 16. A library's convolution computes box by box and reads millions of weights for 16
cells at a time, at two thirds of the speed of a matrix product. Here the cells of all boxes are the rows of one
product; for a 3 x 3 convolution a row is a cell with its eight neighbours.
"""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tasks.extractors.dope.checkpoint import C4_CHANNELS, Weights
from tasks.extractors.dope.layers import BoxLayers, BoxNumbers, FrameLayers, FrameMaps, frame_and_box_layers, linear
from tasks.extractors.image.engines import compile_network, convert_network
from tasks.extractors.settings import Precision


class MappedWeights:
    """Moves the parameters of networks (float32, on the processor) into a mapped file; the networks stay usable."""

    def __init__(self, *networks: nn.Module) -> None:
        parameters = list({id(weight): weight for network in networks for weight in network.parameters()}.values())
        with tempfile.TemporaryFile() as file:
            file.truncate(4 * sum(parameter.numel() for parameter in parameters))
            self._map = mmap.mmap(file.fileno(), 0)
        offset = 0
        for parameter in parameters:
            mapped = torch.frombuffer(self._map, dtype=torch.float32, count=parameter.numel(), offset=offset)
            # One by one, so that memory never holds all of them twice.
            parameter.data = mapped.view(parameter.shape).copy_(parameter.data)
            offset += 4 * parameter.numel()
            self.release()

    def release(self) -> None:
        """Release the memory; the file keeps the values."""
        self._map.madvise(mmap.MADV_DONTNEED)


class BoxProducts(nn.Module):
    """torchvision's ``layer4`` (batch normalisations folded) with channels last: (N, 7, 7, 1024) -> (N, 4, 4, 2048)."""

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
        self.first, self.last = _of_cells(block.conv1), _of_cells(block.conv3)
        # (out, in, 3, 3) -> (out, numbers of a row: the nine cells, each with its channels)
        self.middle = linear(block.conv2.weight.permute(0, 2, 3, 1).flatten(1), block.conv2.bias)
        self.shortcut = _of_cells(block.downsample[0]) if block.downsample is not None else None

    def forward(self, cells: Tensor) -> Tensor:
        hidden = self.middle(self._with_neighbours(self.first(cells).relu())).relu()
        shortcut = cells
        if self.shortcut is not None:
            shortcut = self.shortcut(cells[:, :: self.stride, :: self.stride])
        return (self.last(hidden) + shortcut).relu()

    def _with_neighbours(self, cells: Tensor) -> Tensor:
        """(N, H, W, C) -> (N, H / stride, W / stride, 9 C), zeros beyond the border."""
        height, width = cells.shape[1:3]
        padded = functional.pad(cells, (0, 0, 1, 1, 1, 1))
        shifted = [
            padded[:, y : y + height : self.stride, x : x + width : self.stride] for y in range(3) for x in range(3)
        ]
        return torch.cat(shifted, -1)


def _of_cells(conv: nn.Conv2d) -> nn.Linear:
    """A 1 x 1 convolution as a product."""
    assert conv.bias is not None
    return linear(conv.weight.flatten(1), conv.bias)


_SIDE = 7  # cells along each side of a box's features
_MOST_KEPT = 2**17  # pixels of a pass: more than 256 x 448


class OpenVinoLayers:
    """Both parts (:class:`tasks.extractors.dope.layers.Layers`), with as many threads as torch has in this process.

    Args:
        weights: of the model; not used after this call.
        precision: in what the layers compute; inputs and outputs are float32.

    Raises:
        ExtractionError: OpenVINO is not installed or cannot compute so here.
    """

    def __init__(self, weights: Weights, eps: float, precision: Precision) -> None:
        frame_layers, box_layers = frame_and_box_layers(weights, eps)
        frame, box = _Frames(frame_layers), _Boxes(box_layers)
        del frame_layers, box_layers
        self._weights = MappedWeights(frame, box)
        _return_freed_memory()
        self._frame = _request(frame, torch.zeros(1, 3, 64, 64), (-1, 3, -1, -1), precision)
        boxes = (_SIDE, _SIDE, C4_CHANNELS)
        self._box = _request(box, torch.zeros(2, *boxes), (-1, *boxes), precision)
        self._weights.release()
        _return_freed_memory()

    def of_frames(self, pixels: Tensor) -> FrameMaps:
        # What the two need besides weights is most of the memory, and they never compute at the same time. Of small
        # frames it is little, and to get it back from the kernel for each is a twentieth of their time.
        is_large = pixels[:, 0].numel() > _MOST_KEPT
        if is_large:
            self._box.get_compiled_model().release_memory()
        features, objectness, deltas = _computed(self._frame, pixels)
        self._weights.release()
        if is_large:
            self._frame.get_compiled_model().release_memory()
            _return_freed_memory()
        return FrameMaps(features.permute(0, 3, 1, 2), objectness, deltas)

    def of_boxes(self, crops: Tensor) -> BoxNumbers:
        outputs = _computed(self._box, crops.permute(0, 2, 3, 1))
        self._weights.release()
        return BoxNumbers.of(outputs)


class _Frames(nn.Module):
    """:class:`FrameLayers` with the features' channels last, the order that RoIAlign reads."""

    def __init__(self, layers: FrameLayers) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, objectness, deltas = self.layers(pixels)
        return features.permute(0, 2, 3, 1), objectness, deltas


class _Boxes(nn.Module):
    """:class:`BoxLayers` on crops with channels last, as matrix products."""

    def __init__(self, layers: BoxLayers) -> None:
        super().__init__()
        layers.resnet = BoxProducts(layers.resnet)
        self.layers = layers

    def forward(self, crops: Tensor) -> tuple[Tensor, ...]:
        return self.layers.with_parts(self.layers.resnet(crops).mean((1, 2)))


def _request(network: nn.Module, example: Tensor, shape: Sequence[int], precision: Precision) -> Any:
    network.requires_grad_(False).eval()
    threads = torch.get_num_threads()
    compiled = compile_network("[dope]", precision, lambda: convert_network(network, example, shape), threads)
    return compiled.create_infer_request()


def _return_freed_memory() -> None:
    """Return freed memory to the kernel, which the C library otherwise keeps; only where it can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def _computed(request: Any, inputs: Tensor) -> list[Tensor]:
    """The outputs, copied: the next call writes into the same memory."""
    request.infer([inputs.contiguous().numpy()], share_inputs=True)
    return [torch.from_numpy(np.array(output.data)) for output in request.output_tensors]
