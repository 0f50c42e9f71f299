"""ResNet-50 up to its average pool, as a torch module, with weights whose checksum is right."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.resnet50.settings import PUBLISHED, UNTRAINED_SEED, ResNet50Weights
from tasks.models import weights
from tasks.models.torchvision_import import import_torchvision


class EmbeddingNetwork(torch.nn.Module):
    """(n, 224, 224, 3) uint8 RGB images in, (n, 2048) embeddings out.

    Args:
        pooled: ResNet-50 without its last layer; may be in any precision.
        mean, std: of each channel, for values in 0..1.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, pooled: torch.nn.Module, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.pooled = pooled
        self.register_buffer("mean", 255 * torch.tensor(mean)[:, None, None])
        self.register_buffer("std", 255 * torch.tensor(std)[:, None, None])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        normalised = (images.permute(0, 3, 1, 2) - self.mean) / self.std
        return self.pooled(normalised.to(next(self.pooled.parameters()).dtype))


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
    return EmbeddingNetwork(pooled, preset.mean, preset.std).eval()


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
