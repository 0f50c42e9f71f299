"""resnet50: 2048 numbers per frame, the global average pool of torchvision's ResNet-50 (He et al., CVPR 2016).

The preprocessing is the weights' own, as torchvision defines it for PIL images, as it was for the published weights.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from storyframes.features import FEATURES
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.store.shards import ShardWriter
from tasks.extractors.base import ALL, CommonSettings, Cost, ExtractionError, Source, Tolerance
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.resnet50.engine import Engine, Model
from tasks.extractors.resnet50.engines import open_engine
from tasks.extractors.resnet50.settings import PUBLISHED, UNTRAINED_SEED, Device, Precision, ResNet50Settings
from tasks.media.recording import FrameBatch
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
        if self.settings.device is Device.CUDA:
            return {"GPU": 1 / self.settings.sessions_per_gpu}
        return {"CPU": self.settings.cpus or 1}

    @property
    def cost(self) -> Cost:
        return Cost(0.9 if self.settings.precision is Precision.FLOAT32 else 0.4)

    def value_settings(self) -> Mapping[str, Any]:
        return {name: str(getattr(self.settings, name)) for name in ("weights", "engine", "precision")}

    def models(self) -> Mapping[str, str]:
        return {"resnet50": self._model().digest}

    def open(self, source: Source, out: FeatureWriter) -> EmbeddingWriter:
        from tasks.extractors.resnet50.crops import cropper

        model = self._model()
        if model.path is None:
            out.caveat(Caveat.UNTRAINED)
        engine = open_engine(model, self.settings)
        out.attributes["device"] = engine.device
        images = cropper(model.which, self.settings.precision)
        return EmbeddingWriter(images.crop, engine, out.array("values"))

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
        published = PUBLISHED[self.settings.weights]
        if found := weights.find(published):
            return found
        if self.settings.allow_untrained:
            return None
        try:
            return weights.fetch(published)
        except weights.WeightsError as error:
            raise ExtractionError(str(error)) from None


class EmbeddingWriter:
    """Takes frames, appends their embeddings in the same order.

    Args:
        crop: frames in, images of the network's size out.
        engine: images in, embeddings out.
        values: where they go.
    """

    def __init__(self, crop: Callable[[np.ndarray], np.ndarray], engine: Engine, values: ShardWriter) -> None:
        self._crop = crop
        self._engine = engine
        self._values = values
        self.on_gpu = engine.device != "cpu"
        self._images: list[np.ndarray] = []
        self._under_way: deque[Callable[[], np.ndarray]] = deque()

    def add(self, batch: FrameBatch) -> None:
        self._images.extend(self._crop(batch.rgb))
        while len(self._images) >= self._engine.batch_size:
            self._start()
            self._collect(all_but=self._engine.ahead)

    def finish(self) -> None:
        while self._images:
            self._start()
            self._collect(all_but=self._engine.ahead)
        self._collect(all_but=0)

    def _start(self) -> None:
        size = self._engine.batch_size
        images, self._images = self._images[:size], self._images[size:]
        self._under_way.append(self._engine.start(np.stack(images)))

    def _collect(self, all_but: int) -> None:
        while len(self._under_way) > all_but:
            self._values.append(self._under_way.popleft()())
