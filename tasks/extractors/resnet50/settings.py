"""What can be set of resnet50; light, since planning reads it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from tasks.extractors.image_networks.settings import NetworkSettings
from tasks.models import weights

UNTRAINED_SEED = 0
SIDE = 224  # pixels of the images; both published weights want it


class ResNet50Weights(StrEnum):
    """torchvision's published weights; their embeddings differ."""

    V1 = "IMAGENET1K_V1"
    V2 = "IMAGENET1K_V2"


PUBLISHED = {
    ResNet50Weights.V1: weights.MODELS["resnet50-v1"],
    ResNet50Weights.V2: weights.MODELS["resnet50-v2"],
}


class ResNet50Settings(NetworkSettings):
    """``[resnet50]``

    Attributes:
        weights: IMAGENET1K_V1, what ``pretrained=True`` meant when the reference features were made, or _V2.
        path: the weights' file; without it torch's cache is searched, then the file is downloaded.
        allow_untrained: where there are no weights, use seeded random ones, a caveat of the values (for a demo).
    """

    weights: ResNet50Weights = ResNet50Weights.V1
    path: Path | None = None
    allow_untrained: bool = False

    def for_measuring(self) -> ResNet50Settings:
        """With random weights where there are none: they cost the same."""
        return self.model_copy(update={"allow_untrained": True})
