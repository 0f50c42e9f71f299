"""Choosing the engine: OpenVINO on a processor, torch on a GPU or where OpenVINO is not installed."""

from __future__ import annotations

from tasks.extractors.image_networks.engine import Engine, ImageModel
from tasks.extractors.image_networks.settings import EngineName, NetworkSettings


def open_engine(model: ImageModel, settings: NetworkSettings) -> Engine:
    """The engine that the settings name, ready.

    Args:
        model: what it computes.
        settings: resolved.

    Raises:
        ExtractionError: the weights are damaged, or the engine is not installed or cannot compute in this precision.
    """
    if settings.engine is EngineName.TORCH:
        from tasks.extractors.image_networks.torch_engine import TorchEngine

        return TorchEngine(model, settings.precision, settings.batch_size, settings.device)
    from tasks.extractors.image_networks.openvino_engine import OpenVinoEngine

    return OpenVinoEngine(model, settings.precision, settings.batch_size, settings.cpus or 1)
