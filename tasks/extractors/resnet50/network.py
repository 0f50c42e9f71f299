"""ResNet-50 up to its average pool, as a torch module, with weights whose checksum is right."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.image_networks.crops import Cropper, cropper_class
from tasks.extractors.image_networks.embedding_network import EmbeddingNetwork
from tasks.extractors.image_networks.settings import Precision
from tasks.extractors.resnet50.settings import PUBLISHED, SIDE, UNTRAINED_SEED, ResNet50Weights
from tasks.models import weights
from tasks.models.libraries import import_torchvision


def build_network(path: Path | None, which: ResNet50Weights) -> EmbeddingNetwork:
    """The network on the processor, float32, in evaluation mode.

    Args:
        path: the weights' file; None makes seeded random weights.
        which: the weights it should hold.

    Raises:
        ExtractionError: the file is damaged or of another network.
    """
    torchvision = import_torchvision()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(UNTRAINED_SEED)
        pooled = torchvision.models.resnet50(weights=None)
    if path is not None:
        _load(pooled, path, which)
    pooled.fc = torch.nn.Identity()
    preset = torchvision.models.ResNet50_Weights[str(which)].transforms()
    return EmbeddingNetwork(pooled, preset.mean, preset.std, foldable=True).eval()


def cropper(which: ResNet50Weights, precision: Precision) -> Cropper:
    """What makes the network's images of frames, as torchvision publishes it with the weights."""
    preset = import_torchvision().models.ResNet50_Weights[str(which)].transforms()
    return cropper_class(precision)(preset.resize_size[0], (SIDE, SIDE))


def _load(network: torch.nn.Module, path: Path, which: ResNet50Weights) -> None:
    try:
        if path.name == PUBLISHED[which].filename:
            weights.check(path, PUBLISHED[which])
        state = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(state)
    except weights.WeightsError as error:
        raise ExtractionError(str(error)) from None
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ExtractionError(f"{path.name}: is not a file of ResNet-50 weights ({reason[:200]})") from None
