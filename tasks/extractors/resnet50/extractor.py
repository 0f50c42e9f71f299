"""resnet50: 2048 numbers per frame, the global average pool of torchvision's ResNet-50 (He et al., CVPR 2016).

The preprocessing is the weights' own, as torchvision defines it for PIL images, as it was for the published weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from storyframes.features import FEATURES
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import ALL, CommonSettings, Cost, ExtractionError, Source, Tolerance
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.image_networks.embedding_writer import EmbeddingWriter
from tasks.extractors.image_networks.engines import open_engine
from tasks.extractors.image_networks.settings import Precision
from tasks.extractors.resnet50.model import Model
from tasks.extractors.resnet50.settings import PUBLISHED, UNTRAINED_SEED, ResNet50Settings
from tasks.models import weights
from tasks.models.digests import model_digest


class ResNet50(FrameExtractor[ResNet50Settings]):
    """The ``resnet50`` extractor."""

    spec = FEATURES["resnet50"]
    Settings = ResNet50Settings
    version = 3
    libraries = ("torch", "torchvision", "openvino", "opencv-python-headless", "av")
    tolerance: ClassVar = {ALL: Tolerance(0.01)}

    def __init__(self, settings: ResNet50Settings, common: CommonSettings) -> None:
        super().__init__(settings.resolved(), common)
        self._resolved: Model | None = None

    @property
    def needs(self) -> Mapping[str, float]:
        return self.settings.needs

    @property
    def cost(self) -> Cost:
        return Cost(0.9 if self.settings.precision is Precision.FLOAT32 else 0.4)

    def value_settings(self) -> Mapping[str, Any]:
        return {name: str(getattr(self.settings, name)) for name in ("weights", "engine", "precision")}

    def models(self) -> Mapping[str, str]:
        return {"resnet50": self._model().digest}

    def fetch_models(self) -> Iterable[Path]:
        return [self._published()] if self.settings.path is None else []

    def open(self, source: Source, out: FeatureWriter) -> EmbeddingWriter:
        from tasks.extractors.resnet50.network import cropper

        model = self._model()
        if model.path is None:
            out.caveat(Caveat.UNTRAINED)
        engine = open_engine(model, self.settings)
        out.attributes["device"] = engine.device
        crop = cropper(model.which, self.settings.precision).crop
        return EmbeddingWriter(lambda batch: (crop(batch.rgb), np.ones(len(batch), bool)), engine, out.array("values"))

    def _model(self) -> Model:
        """The weights; a download happens here, once.

        Raises:
            ExtractionError: there are none, and untrained weights are not allowed.
        """
        if self._resolved is None:
            path = self._find_weights()
            digest = model_digest(path) if path else f"untrained, seed {UNTRAINED_SEED}"
            self._resolved = Model(self.settings.weights, path, digest)
        return self._resolved

    def _find_weights(self) -> Path | None:
        if self.settings.path is not None:
            if not self.settings.path.is_file():
                raise ExtractionError(f"[resnet50] path = {str(self.settings.path)!r} does not exist")
            return self.settings.path
        if found := weights.find(PUBLISHED[self.settings.weights]):
            return found
        if self.settings.allow_untrained:
            return None
        if not self.may_download:
            raise ExtractionError(weights.not_here(PUBLISHED[self.settings.weights]))
        return self._published()

    def _published(self) -> Path:
        try:
            return weights.fetch(PUBLISHED[self.settings.weights])
        except weights.WeightsError as error:
            raise ExtractionError(str(error)) from None
