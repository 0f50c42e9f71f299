"""A model of pictures as a feature: one row for each frame of a session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.spec import of_track
from storyframes.store.publish import FeatureWriter
from tasks.extractors.base import ALL, Cost, ExtractionError, Source, Tolerance
from tasks.extractors.embed.extractor import Embedding, describe_output, layer_numbers
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import Origin
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.frames import FrameClock
from tasks.extractors.image.encoder import Encoder, ImageShape, Library, image_shape
from tasks.extractors.image.faces import Faces, read_faces
from tasks.extractors.image.settings import Crop, ImageSettings
from tasks.extractors.image.writer import MASK, ImageWriter
from tasks.extractors.regions import note_doubtful_of, region_view
from tasks.extractors.settings import NetworkSettings

_LIBRARIES = {Origin.TIMM: Library.TIMM, Origin.TORCHVISION: Library.TORCHVISION}


class ImageEmbedding(Embedding[ImageSettings], FrameExtractor[ImageSettings]):
    """A model of pictures, of every frame; it shares the pass over the frames with others of its kind."""

    Settings = ImageSettings
    version = 1
    needs_clock = False
    libraries = ("torch", "torchvision", "timm", "transformers", "openvino", "opencv-python-headless", "av")
    tolerance: ClassVar = {ALL: Tolerance(0.01, 0.01)}

    def __init__(self, settings: ImageSettings, common: Any) -> None:
        # Only the engine: the digest of the model's files comes from planning, and must not be taken again here.
        super().__init__(NetworkSettings.resolved(settings), common)

    @staticmethod
    def face_in(rgb: np.ndarray, square: np.ndarray) -> np.ndarray | None:
        """The face in a (height, width, 3) uint8 picture, or None where it is too small or large.

        Args:
            square: (3,) x and y of the centre and the side, in pixels.
        """
        return Faces(square[None]).cut(0, rgb)

    @property
    def after(self) -> tuple[str, ...]:  # type: ignore[override]  # by the settings
        return ("frames", *self.reads)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]  # by the settings
        return self.settings.reads

    @property
    def cost(self) -> Cost:
        return Cost(0.9 / self.settings.every_n_frames, 5.0)

    @cached_property
    def encoder(self) -> Encoder:
        """The model, and what is read out of it."""
        model, settings = self.model, self.settings
        return Encoder(
            section=f"{settings.section}:",
            library=_LIBRARIES.get(model.origin) or (Library.TIMM if model.is_timms else Library.TRANSFORMERS),
            name=model.name,
            weights=model.weights[0],
            folder=model.folder,
            published=model.revision,
            digest=model.digest,
            layers=settings.layers,
            pool=settings.pool,
            gives_hidden=settings.gives_hidden,
            activation=self.head.activation if self.head else None,
            allow_untrained=settings.allow_untrained,
            config=model.config,
        )

    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """``values``, and a mask where some frames have no row."""
        settings, shape = self.settings, ImageShape(0)
        if settings.gives_hidden:
            shape = image_shape(replace(self.encoder, activation=None))
        layers = settings.layers if shape.depth is None else layer_numbers(settings, shape.depth)
        columns, groups, units = self.columns(shape.width, layers)
        tokens = () if shape.tokens is None else (shape.tokens,)
        of = "the face in each frame" if settings.crop is Crop.FACE else "each frame"
        rows = describe_output(settings, f"layer {', '.join(map(str, settings.layers))}, pool {settings.pool}") + (
            ", NaN where valid is 0" if settings.masked else ""
        )
        arrays = {
            "values": ArraySpec(
                Axis.FRAME,
                str(settings.dtype),
                f"the model's numbers of {of}: {rows}",
                (*tokens, len(columns)),
                ("token", "column") if tokens else ("column",),
                columns=columns,
                units=units,
            )
        }
        if settings.masked:
            arrays[MASK] = ArraySpec(
                Axis.FRAME, "uint8", "1 where the frame was looked at, 0 where it was skipped or has no face", fill=0
            )
        about = f"{of} by {model.origin}:{model.name}, {describe_output(settings, f'pool {settings.pool}')}"
        return FeatureSpec(self.name, about, arrays, groups, mask=MASK if settings.masked else "")

    def open(self, source: Source, out: FeatureWriter) -> ImageWriter:
        from tasks.extractors.image.engines import open_engine

        settings = self.settings
        faces = self._faces(source, out) if settings.crop is Crop.FACE else None
        prepared = self.encoder.prepared(settings.precision, tuple(self.spec.arrays["values"].shape))
        engine = open_engine(prepared, settings)
        self.note_model(out)
        out.attributes["device"] = engine.device
        return ImageWriter(prepared.preprocessing, engine, out, every=settings.every_n_frames, faces=faces)

    def embed(self, pictures: Iterable[np.ndarray]) -> np.ndarray:
        """The rows of single pictures, whatever their sizes.

        Args:
            pictures: (height, width, 3) uint8 RGB each.

        Returns:
            (n, d) float64; (0, 0) without a picture.

        Raises:
            ExtractionError: the model cannot be run, or gives numbers that are not finite.
        """
        from tasks.extractors.image.engines import open_engine

        prepared = self.encoder.prepared(self.settings.precision)
        engine = open_engine(prepared, self.settings)
        images = (prepared.preprocessing.images(rgb[None])[0] for rgb in pictures)
        batches = iter(lambda: list(islice(images, engine.batch_size)), [])
        embedded = [engine.start(np.stack(batch))() for batch in batches]
        if not embedded:
            return np.zeros((0, 0))
        rows = np.concatenate(embedded)
        if not np.isfinite(rows).all():
            raise ExtractionError(f"{self.settings.section}: the model gives numbers that are not finite for a picture")
        return rows.reshape(len(rows), -1).astype(np.float64)

    def _faces(self, source: Source, out: FeatureWriter) -> Faces:
        settings = self.settings
        (fingerprint,) = (extractor.fingerprint(source).digest for extractor in self.read_extractors.values())
        faces = read_faces(
            out.storage,
            source.session_id,
            of_track(settings.landmarks, source.track),
            settings.margin,
            len(FrameClock.read(source, out)),
            f"{settings.section}:",
            fingerprint,
        )
        note_doubtful_of(source, out, of_track(settings.landmarks, source.track))
        view = region_view(source, out, self.common.recording)  # landmarks are in pixels of the whole picture
        return faces if view is None else Faces(view.squares(faces.squares))
