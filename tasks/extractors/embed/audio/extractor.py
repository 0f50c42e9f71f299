"""A model of sound as a feature: rows at its own rate, their times, and their means over each video frame."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import Cost, ExtractionError, Input, MissingInputError, Source
from tasks.extractors.embed.audio.settings import USUAL_CHUNK_S, AudioPool, AudioSettings
from tasks.extractors.embed.audio.shape import AudioShape, audio_shape
from tasks.extractors.embed.audio.stream import SoundRows, moments, window_rows
from tasks.extractors.embed.extractor import Embedding, column_names, layer_groups, layer_numbers
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.frame_means import FrameRows
from tasks.extractors.frames import Clock, read_clock_if_any
from tasks.extractors.heard_sound import HeardSound, note_extent, read_sound
from tasks.media.container import RecordingError
from tasks.media.sound import NoAudioError

if TYPE_CHECKING:
    from tasks.extractors.embed.audio.encoder import SoundEncoder

_SEAM = 0.05  # of how far rows lie from their mean: a larger difference between two windows is told


class AudioEmbedding(Embedding[AudioSettings]):
    """A model of sound, of one section ``[[embed]]``."""

    Settings = AudioSettings
    version = 1
    inputs = (Input.VIDEO, Input.AUDIO)
    needs_frames = False
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
        shape = audio_shape(model.folder, model.config, self._where)
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
        return f"[[embed]] {self.name}: {self.settings.source}"

    def extract(self, source: Source, out: FeatureWriter) -> None:
        """Write the rows, their times, and their means over frames."""
        clock = read_clock_if_any(source, out)
        shape = self._shape(self.model)
        try:
            self._store(source, shape, clock, out)
        except NoAudioError as error:
            raise MissingInputError(str(error)) from None
        except RecordingError as error:
            raise ExtractionError(str(error)) from None

    def _store(self, source: Source, shape: AudioShape, clock: Clock | None, out: FeatureWriter) -> None:
        sound = read_sound(source, shape.rate)
        first = next(sound)  # before anything is loaded: there may be none
        self.note_model(out)
        # The processor normalises a whole signal at once: it is decoded twice, which costs little beside the network.
        whole = (0.0, 1.0)
        if shape.normalises:
            whole = moments(block.samples for block in read_sound(source, shape.rate))
            out.quality |= {"audio_mean": whole[0], "audio_std": float(np.sqrt(whole[1]))}
        heard = HeardSound()
        stream = SoundRows(self._open(shape), shape, self._chunk_s(shape), self.settings.context_s, whole)
        values, time = out.array("values"), out.array("time")
        means = FrameRows(clock, self.spec.columns, out) if clock else None
        for rows in stream.of(heard.samples(chain([first], sound))):
            row_time = first.time + shape.centre_s + shape.row_s * np.arange(values.rows, values.rows + len(rows))
            self._check(rows, row_time)
            values.append(rows)
            time.append(row_time)
            if means:
                means.add(row_time, rows)
        seconds = stream.samples / shape.rate
        note_extent(first.time, first.time + seconds, heard, clock, out)
        if values.rows == 0:
            raise ExtractionError(
                f"the sound is {seconds:.3f} s long, shorter than the {shape.front_end.field / shape.rate:.3f} s that "
                f"one row of {self.settings.source} is made of"
            )
        if means:
            means.finish()
        self._note_chunks(stream, shape, out)

    def _open(self, shape: AudioShape) -> SoundEncoder:
        """The loaded network."""
        from tasks.extractors.embed.audio.encoder import SoundEncoder

        assert self.model.folder is not None  # the section allows no torchvision
        return SoundEncoder(
            self.model.folder,
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
