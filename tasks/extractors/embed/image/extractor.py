"""A model of pictures as a feature: one row for each frame of a session."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import FeatureWriter
from storyframes.tracks import of_track
from tasks.extractors.base import ALL, Cost, ExtractionError, Source, Tolerance
from tasks.extractors.embed.extractor import Embedding, column_names, layer_groups, layer_numbers
from tasks.extractors.embed.image.encoder import Encoder, Library
from tasks.extractors.embed.image.faces import Faces, read_faces
from tasks.extractors.embed.image.settings import Crop, ImageSettings
from tasks.extractors.embed.image.shape import image_shape
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import Origin
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.frames import read_clock
from tasks.extractors.image_networks.embedding_writer import EmbeddingWriter
from tasks.extractors.image_networks.engine import Engine
from tasks.extractors.image_networks.engines import open_engine
from tasks.extractors.image_networks.settings import NetworkSettings
from tasks.media.recording import FrameBatch

if TYPE_CHECKING:
    from tasks.extractors.embed.image.preprocessing import Preprocessing

MASK = "valid"


class ImageEmbedding(Embedding[ImageSettings], FrameExtractor[ImageSettings]):
    """A model of pictures, of every frame; it shares the pass over the frames with others of its kind."""

    Settings = ImageSettings
    version = 1
    libraries = ("torch", "torchvision", "timm", "transformers", "openvino", "opencv-python-headless", "av")
    tolerance: ClassVar = {ALL: Tolerance(0.01, 0.01)}
    not_values = frozenset({"cpus"})

    def __init__(self, settings: ImageSettings, common: Any) -> None:
        # Only the engine: what the model's files were is settled by planning, and must stay what it found.
        super().__init__(NetworkSettings.resolved(settings), common)

    @property
    def after(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("frames", *self.reads)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.settings.reads

    @property
    def cost(self) -> Cost:
        return Cost(0.9 / self.settings.every_n_frames, 5.0)

    @cached_property
    def encoder(self) -> Encoder:
        """The model, and what is read out of it."""
        model, settings = self.model, self.settings
        libraries = {Origin.TIMM: Library.TIMM, Origin.TORCHVISION: Library.TORCHVISION}
        library = libraries.get(model.origin) or (
            Library.TIMM
            if "architecture" in model.config and "model_type" not in model.config
            else Library.TRANSFORMERS
        )
        return Encoder(
            f"[[embed]] {self.name}:",
            library,
            model.name,
            model.weights[0],
            model.folder,
            model.revision,
            model.digest,
            settings.layers,
            settings.pool,
        )

    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """``values``, and a mask where some frames have no row."""
        settings, shape = self.settings, image_shape(self.encoder)
        layers = settings.layers if shape.depth is None else layer_numbers(settings, shape.depth)
        columns = column_names(self.name, shape.width, layers)
        tokens = () if shape.tokens is None else (shape.tokens,)
        of = "the face in each frame" if settings.crop is Crop.FACE else "each frame"
        rows = f"pool {settings.pool}" + (", NaN where valid is 0" if settings.masked else "")
        arrays = {
            "values": ArraySpec(
                Axis.FRAME,
                str(settings.dtype),
                f"the model's numbers of {of}: layer {', '.join(map(str, settings.layers))}, {rows}",
                (*tokens, len(columns)),
                ("token", "column") if tokens else ("column",),
                columns=columns,
            )
        }
        if settings.masked:
            arrays[MASK] = ArraySpec(
                Axis.FRAME, "uint8", "1 where the frame was looked at, 0 where it was skipped or has no face", fill=0
            )
        about = f"{of} by {model.origin}:{model.name}, pool {settings.pool}"
        groups = layer_groups(shape.width, layers)
        return FeatureSpec(self.name, about, arrays, groups, mask=MASK if settings.masked else "")

    def open(self, source: Source, out: FeatureWriter) -> ImageWriter:
        settings = self.settings
        faces = self._faces(source, out) if settings.crop is Crop.FACE else None
        prepared = self.encoder.prepared(settings.precision, tuple(self.spec.arrays["values"].shape))
        engine = open_engine(prepared, settings)
        self.note_model(out)
        out.attributes["device"] = engine.device
        return ImageWriter(prepared.preprocessing, settings.every_n_frames, faces, engine, out)

    def _faces(self, source: Source, out: FeatureWriter) -> Faces:
        settings = self.settings
        (fingerprint,) = (one.fingerprint(source).digest for one in self.read_extractors.values())
        return read_faces(
            out.storage,
            source.session_id,
            of_track(settings.landmarks, source.track),
            settings.margin,
            len(read_clock(source, out)),
            f"[[embed]] {self.name}:",
            fingerprint,
        )


class ImageWriter(EmbeddingWriter):
    """Takes frames, writes the rows of those that are looked at.

    Args:
        preprocessing: the model's own.
        every: which frames.
        faces: where they are, where only they are looked at.
        engine: images in, rows out.
        out: where the arrays go.
    """

    def __init__(
        self, preprocessing: Preprocessing, every: int, faces: Faces | None, engine: Engine, out: FeatureWriter
    ) -> None:
        self._preprocessing = preprocessing
        self._every = every
        self._faces = faces
        self._out = out
        mask = out.array(MASK) if MASK in out.spec.arrays else None
        super().__init__(self._chosen, engine, out.array("values"), mask)

    def finish(self) -> None:
        super().finish()
        if MASK in self._out.spec.arrays:
            self._out.quality["frames_with_rows"] = self.measured / max(self.frames, 1)

    def _write(self, rows: np.ndarray) -> None:
        try:
            super()._write(rows)
        except ValueError as error:  # a number is too large for what is stored
            raise ExtractionError(
                f"[[embed]] {self._out.spec.name}: {error}, in which its rows are stored: set dtype = 'float32'"
            ) from None

    def _chosen(self, batch: FrameBatch) -> tuple[np.ndarray, np.ndarray]:
        present = (batch.first + np.arange(len(batch))) % self._every == 0
        images: list[np.ndarray] = []
        if self._faces is None:
            if present.any():
                images.append(self._preprocessing.images(batch.rgb[present] if not present.all() else batch.rgb))
        else:
            for row in np.flatnonzero(present):
                face = self._faces.cut(batch.first + int(row), batch.rgb[row])
                present[row] = face is not None
                if face is not None:
                    images.append(self._preprocessing.images(face[None]))
        none = np.empty((0, *self._preprocessing.size, 3), np.uint8)
        return (np.concatenate(images) if images else none), present
