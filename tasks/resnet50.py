"""resnet50: 2048 numbers per frame, the global average pool of torchvision's ResNet-50 (He et al., CVPR 2016).

The preprocessing is the weights' own, as torchvision defines it, on PIL images as it was for the published weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from storyframes.publish import FeatureWriter
from storyframes.records import Stamp
from storyframes.shards import ShardWriter
from tasks import weights
from tasks.digests import model_digest
from tasks.extractor import ExtractionError, ExtractorSettings, Fingerprint, Source
from tasks.frame_pass import extract_alone
from tasks.frames import RecordingSettings
from tasks.recording import FrameBatch
from tasks.torchvision_import import import_torchvision

if TYPE_CHECKING:
    import torch

_UNTRAINED_SEED = 0


class ResNet50Weights(StrEnum):
    """torchvision's published weights; their embeddings differ."""

    V1 = "IMAGENET1K_V1"
    V2 = "IMAGENET1K_V2"


_PUBLISHED = {
    ResNet50Weights.V1: weights.MODELS["resnet50-v1"],
    ResNet50Weights.V2: weights.MODELS["resnet50-v2"],
}


class ResNet50Settings(ExtractorSettings):
    """``[resnet50]``

    Attributes:
        weights: IMAGENET1K_V1, what ``pretrained=True`` meant when the reference features were made, or _V2.
        path: the weights' file; without it torch's cache is searched, then the file is downloaded.
        batch_size: frames that go through the network together.
        allow_untrained: where there are no weights, use seeded random ones and stamp the values so (for a demo).
    """

    weights: ResNet50Weights = ResNet50Weights.V1
    path: Path | None = None
    batch_size: int = Field(default=8, ge=1)
    allow_untrained: bool = False


class ResNet50:
    """The ``resnet50`` extractor."""

    name = "resnet50"
    needs: Mapping[str, float] = {"CPU": 1}
    libraries = ("torch", "torchvision", "opencv-python-headless", "pillow")

    def __init__(self, settings: ResNet50Settings, recording: RecordingSettings) -> None:
        self.settings = settings
        self.recording = recording
        self._resolved: Path | None = None
        self._untrained = False

    def fingerprint(self, source: Source) -> Fingerprint:
        path = self._weights_file()
        digest = model_digest(path) if path else f"untrained, seed {_UNTRAINED_SEED}"
        settings = {"weights": self.settings.weights, **self.recording.model_dump()}
        return Fingerprint(self.name, 1, {"video": source.file("video")}, settings, {"resnet50": digest})

    def open(self, source: Source, out: FeatureWriter) -> EmbeddingWriter:
        path = self._weights_file()
        if path is None:
            out.stamp(Stamp.UNTRAINED)
        network = build_network(path, self.settings.weights)
        transform = preprocessing(self.settings.weights)
        return EmbeddingWriter(network, transform, self.settings.batch_size, out.array("values"))

    def extract(self, source: Source, out: FeatureWriter) -> None:
        extract_alone(self, source, out)

    def _weights_file(self) -> Path | None:
        """The weights' file, None for untrained weights; a download happens here, once.

        Raises:
            ExtractionError: there is none, and untrained weights are not allowed.
        """
        if self._resolved is None and not self._untrained:
            self._resolved = self._find_weights()
            self._untrained = self._resolved is None
        return self._resolved

    def _find_weights(self) -> Path | None:
        if self.settings.path is not None:
            if not self.settings.path.is_file():
                raise ExtractionError(f"[resnet50] path = {str(self.settings.path)!r} does not exist")
            return self.settings.path
        published = _PUBLISHED[self.settings.weights]
        if found := weights.find(published):
            return found
        if self.settings.allow_untrained:
            return None
        try:
            return weights.fetch(published)
        except weights.WeightsError as error:
            raise ExtractionError(str(error)) from None


class EmbeddingWriter:
    """Takes frames, appends their embeddings."""

    def __init__(
        self,
        network: torch.nn.Module,
        transform: Callable[[Any], torch.Tensor],
        batch_size: int,
        values: ShardWriter,
    ) -> None:
        self._network = network
        self._transform = transform
        self._batch_size = batch_size
        self._values = values

    def add(self, batch: FrameBatch) -> None:
        for start in range(0, len(batch), self._batch_size):
            frames = batch.rgb[start : start + self._batch_size]
            self._values.append(embed(self._network, self._transform, frames))


def build_network(path: Path | None, which: ResNet50Weights) -> torch.nn.Module:
    """ResNet-50 up to its average pool, in evaluation mode, on the best device there is.

    Args:
        path: the weights' file; None makes seeded random weights.
        which: the weights it should hold.

    Raises:
        ExtractionError: the file is damaged or of another network.
    """
    import torch

    torchvision = import_torchvision()
    if path is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_UNTRAINED_SEED)
            network = torchvision.models.resnet50(weights=None)
    else:
        network = torchvision.models.resnet50(weights=None)
        _load(network, path, which)
    network.fc = torch.nn.Identity()
    return network.eval().to(_device(), memory_format=torch.channels_last)


def _load(network: torch.nn.Module, path: Path, which: ResNet50Weights) -> None:
    import pickle

    import torch

    try:
        if path.name == _PUBLISHED[which].filename:
            weights.check(path, _PUBLISHED[which])
        state = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(state)
    except weights.WeightsError as error:
        raise ExtractionError(str(error)) from None
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ExtractionError(f"{path.name}: is not a file of ResNet-50 weights ({reason[:200]})") from None


def preprocessing(which: ResNet50Weights) -> Callable[[Any], torch.Tensor]:
    """The transform that torchvision publishes with the weights: PIL image -> (3, 224, 224) float32."""
    return import_torchvision().models.ResNet50_Weights[str(which)].transforms()


def embed(network: torch.nn.Module, transform: Callable[[Any], torch.Tensor], rgb: np.ndarray) -> np.ndarray:
    """The embeddings of (n, height, width, 3) uint8 RGB frames: (n, 2048) float32."""
    import torch
    from PIL import Image

    images = torch.stack([transform(Image.fromarray(frame)) for frame in rgb])
    with torch.inference_mode():
        pooled = network(images.to(_device(), memory_format=torch.channels_last))
    return pooled.float().cpu().numpy()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
