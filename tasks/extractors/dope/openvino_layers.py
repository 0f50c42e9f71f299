"""The layers of the network through OpenVINO, on processors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tasks.extractors.dope.box_products import BoxProducts
from tasks.extractors.dope.checkpoint_weights import C4_CHANNELS, Weights
from tasks.extractors.dope.layers import BoxLayers, BoxNumbers, FrameLayers, FrameMaps, frame_and_box_layers
from tasks.extractors.dope.mapped_weights import MappedWeights
from tasks.extractors.image_networks.openvino_engine import compile_network, convert_network
from tasks.extractors.image_networks.settings import Precision

_SIDE = 7  # cells along each side of a box's features


class OpenVinoLayers:
    """See :class:`tasks.extractors.dope.layers.Layers`. Takes any number of frames of any size, and of boxes.

    It computes with as many threads as torch has in this process.

    Args:
        weights: of the model; not needed any longer afterwards.
        eps: of batch normalisation.
        precision: in what the layers compute; what goes in and comes out is float32.

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
        self._weights.let_go()
        _return_freed_memory()

    def of_frames(self, pixels: Tensor) -> FrameMaps:
        # What the two need besides weights is the most of all memory, and they are never at work at once.
        self._box.get_compiled_model().release_memory()
        features, objectness, deltas = _computed(self._frame, pixels)
        self._frame.get_compiled_model().release_memory()
        self._weights.let_go()
        _return_freed_memory()
        return FrameMaps(features.permute(0, 3, 1, 2), objectness, deltas)

    def of_boxes(self, crops: Tensor) -> BoxNumbers:
        outputs = _computed(self._box, crops.permute(0, 2, 3, 1))
        self._weights.let_go()
        return BoxNumbers.of(outputs)


class _Frames(nn.Module):
    """:class:`FrameLayers` with features as RoIAlign wants them, channels last."""

    def __init__(self, layers: FrameLayers) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, objectness, deltas = self.layers(pixels)
        return features.permute(0, 2, 3, 1), objectness, deltas


class _Boxes(nn.Module):
    """:class:`BoxLayers` of crops with channels last, as matrix products."""

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
    """To the kernel, where the C library can: what was freed while weights were read and changed stays with it else."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def _computed(request: Any, given: Tensor) -> list[Tensor]:
    """The outputs, copied: the next call writes into the same memory."""
    request.infer([given.contiguous().numpy()], share_inputs=True)
    return [torch.from_numpy(np.array(output.data)) for output in request.output_tensors]
