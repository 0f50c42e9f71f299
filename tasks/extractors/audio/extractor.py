"""A model of sound as a feature: rows at its own rate, their times, and their means over each video frame."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.audio.shape import AudioShape
from tasks.extractors.audio.sound import FrameRows, Sound, SoundExtractor, keeping
from tasks.extractors.audio.windows import SoundRows, moments, window_rows
from tasks.extractors.base import Cost, ExtractionError, Source
from tasks.extractors.embed.extractor import Embedding, column_names, layer_groups, layer_numbers
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import EmbedSettings, Kind, Origin
from tasks.extractors.frames import FrameClock
from tasks.media.sound import AudioBlock

if TYPE_CHECKING:
    from tasks.extractors.audio.encoder import SoundEncoder

USUAL_CHUNK_S = 30.0
_SEAM = 0.05  # of the rows' distance from their mean: a larger difference between two windows is a caveat


class AudioPool(StrEnum):
    """What becomes of several layers."""

    NONE = "none"  # they are concatenated
    MEAN = "mean"  # their mean


class AudioSettings(EmbedSettings):
    """A model of sound."""

    kind: Literal[Kind.AUDIO]
    pool: AudioPool = AudioPool.NONE
    # seconds of sound whose rows are kept of one window, without the context; without it 30, and of a model whose
    # window is of one length what the context leaves of it
    chunk_s: float | None = Field(default=None, gt=0, le=600, allow_inf_nan=False)
    # seconds of sound that a window has before and after its chunk
    context_s: float = Field(default=2.0, ge=0, le=60, allow_inf_nan=False)

    @model_validator(mode="after")
    def _hears(self) -> Self:
        if self.gives_scores:
            raise ValueError("output = 'scores' is not available of models of sound")
        if self.origin not in (Origin.HF, Origin.PATH):
            raise ValueError(f"{self.origin}: has no models of sound: take hf:OWNER/NAME or path:FOLDER")
        return self


class AudioEmbedding(Embedding[AudioSettings], SoundExtractor[AudioSettings]):
    """A model of sound, of one section ``[[embed]]``."""

    Settings = AudioSettings
    version = 1
    libraries = ("transformers", "torch", "av")

    @property
    def cost(self) -> Cost:
        return Cost(0.2, 8.0)

    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """Like openSMILE's: rows at the model's own rate, and their means over frames beside them."""
        shape, layers = self._shape(model), self._layers(model)
        groups = () if self.settings.pool is AudioPool.MEAN else layers
        columns = column_names(self.name, shape.width, groups or (-1,))
        middle = f"the middle of the {1000 * shape.front_end.field / shape.rate:g} ms of sound that a row is made of"
        means = "mean of the rows whose time lies in the video frame's interval; NaN where there is none"

        def row(axis: Axis, about: str) -> ArraySpec:
            return ArraySpec(axis, "float32", about, shape=(len(columns),), dims=("column",), columns=columns)

        return FeatureSpec(
            self.name,
            f"sound by {model.origin}:{model.name}, layer {', '.join(map(str, layers))} of {shape.depth}",
            {
                "values": row(Axis.AUDIO_FRAME, f"one row per {1000 * shape.row_s:g} ms"),
                "time": ArraySpec(Axis.AUDIO_FRAME, "float64", f"{middle}, on the recording's clock", units="s"),
                "per_frame": row(Axis.FRAME, means),
            },
            layer_groups(shape.width, groups) if groups else {},
        )

    def _shape(self, model: LocalModel) -> AudioShape:
        """Checked against the section's chunks."""
        shape = AudioShape.of(model.folder, model.config, self._where)
        try:
            window_rows(shape, self._chunk_s(shape), self.settings.context_s)
        except ValueError as error:
            raise ExtractionError(f"{self._where}: {error}") from None
        return shape

    def _layers(self, model: LocalModel) -> tuple[int, ...]:
        return layer_numbers(self.settings, self._shape(model).depth)

    def _chunk_s(self, shape: AudioShape) -> float | None:
        usual = None if shape.window_rows else USUAL_CHUNK_S
        return self.settings.chunk_s if self.settings.chunk_s is not None else usual

    @property
    def _where(self) -> str:
        return self.settings.label

    def write_sound(self, source: Source, clock: FrameClock | None, out: FeatureWriter) -> None:
        """Write the rows, their times, and their means over frames."""
        shape = self._shape(self.model)
        streams = self.common.recording.streams
        blocks = Sound.blocks(source, shape.rate, streams=streams)
        # The processor normalises a whole signal at once: a sound that does not fit into memory is decoded twice.
        whole = (0.0, 1.0)
        if shape.normalises:
            kept: list[AudioBlock] = []
            whole = moments(block.samples for block in keeping(blocks, kept))
            blocks = iter(kept) if kept else Sound.blocks(source, shape.rate, streams=streams)
            out.quality |= {"audio_mean": whole[0], "audio_std": float(np.sqrt(whole[1]))}
        sound = Sound(blocks, shape.rate)
        self.note_model(out)
        stream = SoundRows(self._open(shape), shape, self._chunk_s(shape), self.settings.context_s, whole)
        values, time = out.array("values"), out.array("time")
        means = FrameRows(clock, self.spec.columns, out) if clock else None
        for rows in stream.of(sound.samples()):
            row_time = sound.start_s + shape.centre_s + shape.row_s * np.arange(values.rows, values.rows + len(rows))
            self._check(rows, row_time)
            values.append(rows)
            time.append(row_time)
            if means:
                means.add(row_time, rows)
        sound.note_extent(clock, out)
        if values.rows == 0:
            raise ExtractionError(
                f"the sound is {sound.duration_s:.3f} s long, shorter than the "
                f"{shape.front_end.field / shape.rate:.3f} s that one row of {self.settings.source} is made of"
            )
        if means:
            means.finish()
        self._note_chunks(stream, shape, out)

    def _open(self, shape: AudioShape) -> SoundEncoder:
        """The loaded network."""
        from tasks.extractors.audio.encoder import SoundEncoder

        assert self.model.folder is not None  # the section allows no torchvision
        return SoundEncoder(
            self.model.folder,
            self.model.digest,
            shape,
            self._layers(self.model),
            self._where,
            mean=self.settings.pool is AudioPool.MEAN,
            device=self.settings.device,
            precision=self.settings.precision,
            batch_size=self.settings.batch_size,
        )

    def _check(self, rows: np.ndarray, time: np.ndarray) -> None:
        broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(broken):
            raise ExtractionError(
                f"{self._where}: the model gives NaN or infinity for the sound at {time[broken[0]]:.2f} s (and for "
                f"{len(broken) - 1} of the {len(rows)} rows around it): try precision = 'float32'"
            )

    def _note_chunks(self, stream: SoundRows, shape: AudioShape, out: FeatureWriter) -> None:
        """How the sound was divided, and what that does to values: what users of them must know, if it is much."""
        rows, context = window_rows(shape, self._chunk_s(shape), self.settings.context_s)
        out.attributes["window_s"] = rows * shape.row_s
        out.attributes["context_s"] = context * shape.row_s
        out.attributes["normalised_over"] = "the whole sound" if shape.normalises else "nothing"
        out.quality["windows"] = stream.windows
        if stream.windows > 1:
            if context:
                out.quality["seam_difference"] = stream.seam
            if shape.sees_whole or not context or stream.seam > _SEAM:  # without context nothing measures it
                out.caveat(Caveat.CHUNKED_SOUND)
