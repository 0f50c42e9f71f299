"""What torchvision itself makes of frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from tasks.extractors.resnet50 import ResNet50Weights
from tasks.models.libraries import import_torchvision

V1 = ResNet50Weights.V1


def transform(which: ResNet50Weights) -> Any:
    return import_torchvision().models.get_weight(f"ResNet50_Weights.{which}").transforms()


def torchvisions_embeddings(weights: Path, which: ResNet50Weights, frames: np.ndarray) -> np.ndarray:
    """From PIL images: (n, 2048) float32."""
    reference = import_torchvision().models.resnet50(weights=None)
    reference.load_state_dict(torch.load(weights, weights_only=True))
    reference.fc = torch.nn.Identity()
    with torch.inference_mode():
        return reference.eval()(torch.stack([transform(which)(Image.fromarray(frame)) for frame in frames])).numpy()
