"""resnet50: 2048 numbers per frame, the global average pool of torchvision's ResNet-50 (He et al., CVPR 2016).

A preset of the general features of pictures: torchvision's model, its own pool, and its own preprocessing for PIL
images, as it was for the published weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from storyframes.features import FEATURES
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import ALL, CommonSettings, Cost, ExtractionError, Source, Tolerance
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.image.encoder import Encoder, Library
from tasks.extractors.image.writer import ImageWriter
from tasks.extractors.settings import NetworkSettings, Precision
from tasks.models import weights
from tasks.models.digests import model_digest

_ROW = FEATURES["resnet50"].arrays["values"].shape


class ResNet50Weights(StrEnum):
    """torchvision's published weights; their embeddings differ."""

    V1 = "IMAGENET1K_V1"
    V2 = "IMAGENET1K_V2"


PUBLISHED = {
    ResNet50Weights.V1: weights.MODELS["resnet50-v1"],
    ResNet50Weights.V2: weights.MODELS["resnet50-v2"],
}


class ResNet50Settings(NetworkSettings):
    """``[resnet50]``"""

    # IMAGENET1K_V1, what ``pretrained=True`` meant when the reference features were made, or _V2
    weights: ResNet50Weights = ResNet50Weights.V1
    path: Path | None = None  # the weights' file; without it torch's cache is searched, then the file is downloaded
    # if there are no weights, use random ones, always the same, with a caveat (for a demo)
    allow_untrained: bool = False

    def for_measuring(self) -> ResNet50Settings:
        """With random weights where there are none: they cost the same."""
        return self.model_copy(update={"allow_untrained": True})


class ResNet50(FrameExtractor[ResNet50Settings]):
    """The ``resnet50`` extractor."""

    spec = FEATURES["resnet50"]
    Settings = ResNet50Settings
    version = 3
    needs_clock = False
    libraries = ("torch", "torchvision", "openvino", "opencv-python-headless", "av")
    imports = ("torch", "torchvision")
    tolerance: ClassVar = {ALL: Tolerance(0.01)}

    def __init__(self, settings: ResNet50Settings, common: CommonSettings) -> None:
        super().__init__(settings.resolved(), common)
        self._encoder: Encoder | None = None

    @property
    def cost(self) -> Cost:
        return Cost(0.9 if self.settings.precision is Precision.FLOAT32 else 0.4)

    def value_settings(self) -> Mapping[str, Any]:
        return {name: str(getattr(self.settings, name)) for name in ("weights", "engine", "precision")}

    def models(self) -> Mapping[str, str]:
        return {"resnet50": self.encoder.digest}

    def fetch_models(self) -> Iterable[Path]:
        return [self._published()] if self.settings.path is None else []

    def open(self, source: Source, out: FeatureWriter) -> ImageWriter:
        from tasks.extractors.image.engines import open_engine

        if self.encoder.weights is None:
            out.caveat(Caveat.UNTRAINED)
        prepared = self.encoder.prepared(self.settings.precision, _ROW)
        engine = open_engine(prepared, self.settings)
        out.attributes["device"] = engine.device
        return ImageWriter(prepared.preprocessing, engine, out)

    @property
    def encoder(self) -> Encoder:
        """The network with its weights; a download happens here, once.

        Raises:
            ExtractionError: there are none, and untrained weights are not allowed.
        """
        if self._encoder is None:
            path = self._find_weights()
            self._encoder = resnet50(self.settings.weights, path, model_digest(path) if path else "untrained, seed 0")
        return self._encoder

    def _find_weights(self) -> Path | None:
        settings, published = self.settings, PUBLISHED[self.settings.weights]
        if settings.path is not None:
            if not settings.path.is_file():
                raise ExtractionError(f"[resnet50] path = {str(settings.path)!r} does not exist")
            return settings.path
        if path := published.path_here:
            return path
        if settings.allow_untrained:
            return None
        if not self.may_download:
            raise ExtractionError(weights.not_here(published))
        return self._published()

    def _published(self) -> Path:
        try:
            return weights.fetch(PUBLISHED[self.settings.weights])
        except weights.WeightsError as error:
            raise ExtractionError(str(error)) from None


def resnet50(which: ResNet50Weights, path: Path | None, digest: str = "") -> Encoder:
    """ResNet-50 as a model of pictures.

    Args:
        which: the weights that the file holds.
        path: the file; None for random weights. One with the name of a published file has to be that file.
        digest: SHA-256 of the file, or a text in its place: engines keep converted networks by it.
    """
    published = PUBLISHED[which]
    sha256 = published.sha256 if path and path.name == published.filename else ""
    return Encoder("[resnet50]", Library.TORCHVISION, "resnet50", path, published=which, digest=digest, sha256=sha256)
