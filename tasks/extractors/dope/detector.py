"""DOPE as a whole: a batch of frames in; the bodies, hands and faces found in each frame out."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from tasks.extractors.dope.checkpoint import Checkpoint
from tasks.extractors.dope.layers import Layers, TorchLayers
from tasks.extractors.dope.network import DopeNetwork, Frames, frame_size, groups_of_one_input_size, network_input
from tasks.extractors.dope.people import FrameDetections
from tasks.extractors.dope.postprocessing import frame_detections
from tasks.extractors.dope.settings import DopeSettings
from tasks.extractors.settings import EngineName, Precision
from tasks.extractors.torch_compute import computing


class DopeDetector:
    """Detects bodies, hands and faces in frames.

    Memory does not grow with the number of frames; those of one call go through the network
    ``settings.frames_at_once`` at a time.

    Raises:
        ValueError: the settings contradict the file's options.
        RuntimeError: torch cannot use the device.
        ExtractionError: OpenVINO is not installed, or cannot compute in the precision on this machine.
    """

    def __init__(self, checkpoint: Checkpoint, settings: DopeSettings | None = None) -> None:
        self.settings = settings or DopeSettings()
        self.options = self.settings.applied_to(checkpoint.network)
        self.ppi = checkpoint.ppi
        self.device = torch.device(self.settings.torch_device)
        self.engine = self.settings.engine_here
        self.precision = self._precision(checkpoint)
        self.network = DopeNetwork(
            checkpoint.weights,
            self.options,
            self._layers(checkpoint),
            boxes_per_pass=self.settings.boxes_at_once,
            roi_border=self.settings.roi_border,
        ).to(self.device)

    def _precision(self, checkpoint: Checkpoint) -> Precision:
        if self.settings.precision:
            return self.settings.precision
        return Precision.FLOAT16 if checkpoint.half and self.device.type != "cpu" else Precision.FLOAT32

    def _layers(self, checkpoint: Checkpoint) -> Layers:
        eps = self.settings.eps(checkpoint.half)
        if self.engine is EngineName.OPENVINO:
            from tasks.extractors.dope.openvino_layers import OpenVinoLayers

            return OpenVinoLayers(checkpoint.weights, eps, self.precision)
        return TorchLayers(checkpoint.weights, eps, half=self.precision is Precision.FLOAT16)

    def detect(self, frames: Frames) -> list[FrameDetections]:
        """Detections of each frame, in the order of the frames.

        Args:
            frames: uint8 RGB, an array (N, H, W, 3) or a sequence of arrays (H, W, 3), also of different sizes.

        Raises:
            ValueError: a frame is not uint8 (H, W, 3), has no pixels or is too narrow; nothing was computed.
        """
        sizes = [frame_size(frame) for frame in frames]
        detections: dict[int, FrameDetections] = {}
        for indices in groups_of_one_input_size(sizes, self.options, self.settings.frames_at_once):
            images = network_input([frames[i] for i in indices], self.options, self.device)
            with self._numerics():
                outputs = self.network(images, [sizes[i] for i in indices])
            for i, poses in zip(indices, outputs, strict=True):
                detections[i] = frame_detections(poses, self.ppi, self.settings)
        return [detections[i] for i in range(len(sizes))]

    def _numerics(self) -> AbstractContextManager[None]:
        """A GPU would take TF32 for float32, unasked."""
        if self.device.type == "cpu":
            return nullcontext()
        return computing(self.device.type, tf32=self.precision is Precision.TF32)
