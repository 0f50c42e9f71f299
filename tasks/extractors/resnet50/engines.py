"""Choosing the engine: OpenVINO on a processor, torch on a GPU or where OpenVINO is not installed."""

from __future__ import annotations

from tasks.extractors.resnet50.engine import Engine, Model
from tasks.extractors.resnet50.settings import EngineName, ResNet50Settings


def open_engine(model: Model, settings: ResNet50Settings) -> Engine:
    """The engine that the settings name, ready.

    Args:
        model: what it computes.
        settings: resolved.

    Raises:
        ExtractionError: the weights are damaged, or the engine is not installed or cannot compute in this precision.
    """
    if settings.engine is EngineName.TORCH:
        from tasks.extractors.resnet50.torch_engine import TorchEngine

        return TorchEngine(model, settings.precision, settings.batch_size, settings.device)
    from tasks.extractors.resnet50.openvino_engine import OpenVinoEngine

    return OpenVinoEngine(model, settings.precision, settings.batch_size, settings.cpus or 1)
