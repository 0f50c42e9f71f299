"""A model of sound as a feature: rows at its own rate, their times, and their means over each video frame."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.audio.shape import OF_WINDOWS, AudioShape, WindowShape
from tasks.extractors.audio.sound import FrameRows, Sound, SoundExtractor, keeping
from tasks.extractors.audio.windows import SecondsOfSound, SoundRows, moments, window_rows
from tasks.extractors.base import Cost, ExtractionError, Source
from tasks.extractors.embed.extractor import (
    Embedding,
    column_names,
    describe_output,
    layer_groups,
    layer_numbers,
    window_time,
)
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import EmbedSettings, Kind, Origin
from tasks.extractors.frames import FrameClock
from tasks.media.sound import AudioBlock

if TYPE_CHECKING:
    from tasks.extractors.audio.encoder import SoundEncoder

USUAL_CHUNK_S = 30.0
_OF_STEPS = {"chunk_s", "context_s"}
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
    # seconds of a window that becomes one row; without it a row for each step, and of scores and of models that see a
    # window of one length that window
    window_s: float | None = Field(default=None, ge=0.01, le=600, allow_inf_nan=False)
    # seconds from the start of a window to the next one's; without it windows follow each other
    stride_s: float | None = Field(default=None, ge=0.01, le=3600, allow_inf_nan=False)

    @model_validator(mode="after")
    def _hears(self) -> Self:
        if self.window_s is None and self.stride_s is not None:
            raise ValueError("stride_s needs window_s, the seconds of a window")
        if self.window_s is not None or self.gives_scores:
            for name in sorted(_OF_STEPS & self.model_fields_set):
                raise ValueError(f"{name} is of a row for each step: with windows set window_s and stride_s")
        if self.origin not in (Origin.HF, Origin.PATH):
            raise ValueError(f"{self.origin}: has no models of sound: take hf:OWNER/NAME or path:FOLDER")
        return self

    def value_settings(self) -> dict[str, Any]:
        """Those of windows only where they are set: they are newer than stored features."""
        newer = {name for name in ("window_s", "stride_s") if getattr(self, name) is None}
        return {name: value for name, value in super().value_settings().items() if name not in newer}


class AudioEmbedding(Embedding[AudioSettings], SoundExtractor[AudioSettings]):
    """A model of sound, of one section ``[[embed]]``."""

    Settings = AudioSettings
    version = 1
    libraries = ("transformers", "torch", "av")

    @property
    def cost(self) -> Cost:
        return Cost(0.2, 8.0)

    @property
    def windowed(self) -> bool:
        """Whether a window of seconds is a row, not each step of the model."""
        settings = self.settings
        is_of_windows = self.model.config.get("model_type") in OF_WINDOWS
        return settings.gives_scores or settings.window_s is not None or is_of_windows

    def value_settings(self) -> Mapping[str, Any]:
        """Those of the section, with the seconds of windows that are meant where it does not say them."""
        section = super().value_settings()
        if not self.windowed:
            return section
        window_s, stride_s = self._windows(self._window_shape())
        kept = {name: value for name, value in section.items() if name not in _OF_STEPS}
        return kept | {"window_s": window_s, "stride_s": stride_s}

    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """Like openSMILE's: rows at the model's own rate, and their means over frames beside them; or windows."""
        if self.windowed:
            return self._spec_of_windows(model)
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

    def _spec_of_windows(self, model: LocalModel) -> FeatureSpec:
        shape, settings = self._window_shape(), self.settings
        self._check_windowed(model)
        layers: tuple[int, ...] = (-1,)
        if settings.gives_hidden and shape.depth is not None:
            layers = layer_numbers(settings, shape.depth)
        elif settings.gives_hidden and settings.layers != (-1,):
            raise ExtractionError(f"{self._where}: layer = {settings.layer}: only the model's own row, -1, can be read")
        columns, groups, units = self.columns(shape.width, (-1,) if settings.pool is AudioPool.MEAN else layers)
        window_s, _ = self._windows(shape)
        about = describe_output(settings, f"layer {', '.join(map(str, settings.layers))}")

        return FeatureSpec(
            self.name,
            f"sound in windows of {window_s:g} s by {model.origin}:{model.name}, {about}",
            {
                "values": ArraySpec(
                    Axis.WINDOW,
                    "float32",
                    f"the model's numbers of the window: {about}",
                    (len(columns),),
                    ("column",),
                    columns=columns,
                    units=units,
                ),
                "time": window_time("the middle of the window"),
                "start": window_time("when the window begins"),
                "end": window_time("when the window ends; earlier where the whole sound is shorter"),
            },
            groups,
        )

    def _check_windowed(self, model: LocalModel) -> None:
        """Refuse settings that windows do not have, and scores whose meaning nobody says."""
        for name in sorted(_OF_STEPS & self.settings.model_fields_set):
            raise ExtractionError(f"{self._where}: {name} is of a row for each step, and this model has one a window")
        of_windows, problem = model.config.get("model_type") in OF_WINDOWS, model.config.get("problem_type")
        if self.settings.gives_scores and of_windows and problem is None and self.settings.activation is None:
            raise ExtractionError(
                f"{self._where}: its config.json has no problem_type: set activation = 'sigmoid' (several sounds at "
                "once, as of AudioSet) or 'softmax' (one of all)"
            )

    def _window_shape(self) -> WindowShape:
        return WindowShape.of(self.model.folder, self.model.config, self._where, hidden=self.settings.gives_hidden)

    def _windows(self, shape: WindowShape) -> tuple[float, float]:
        """The seconds of a window, and from the start of one to the next."""
        window_s = self.settings.window_s or shape.longest_s
        if window_s is None:
            raise ExtractionError(
                f"{self._where}: window_s is missing: the model takes windows of any length, so say how many seconds"
            )
        if shape.longest_s is not None and window_s > shape.longest_s:
            raise ExtractionError(f"{self._where}: window_s = {window_s:g}, but the model sees {shape.longest_s:g} s")
        return window_s, self.settings.stride_s or window_s

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
        """Write the rows, their times, and their means over frames; or those of windows."""
        if self.windowed:
            self._write_windows(source, clock, out)
            return
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

    def _write_windows(self, source: Source, clock: FrameClock | None, out: FeatureWriter) -> None:
        from tasks.extractors.audio.window_encoder import WindowEncoder

        shape = self._window_shape()
        window_s, stride_s = self._windows(shape)
        sound = Sound.of(source, shape.rate, streams=self.common.recording.streams)
        self.note_model(out)
        out.attributes |= {"window_s": window_s, "stride_s": stride_s}
        encoder = WindowEncoder(self.model, shape, self.settings, self.head)
        cut = SecondsOfSound(round(window_s * shape.rate), stride_s * shape.rate)
        values, start, lengths = out.array("values"), [], []
        windows = cut.of(sound.samples())
        while batch := list(islice(windows, encoder.windows_at_once(window_s))):
            rows = encoder.embed([samples for _, samples in batch])
            start += [sound.start_s + first / shape.rate for first, _ in batch]
            lengths += [len(samples) / shape.rate for _, samples in batch]
            self._check(rows, np.array(start[-len(batch) :]))
            values.append(rows)
        sound.note_extent(clock, out)
        out.quality["left_out_s"] = cut.left_out / shape.rate
        begins, seconds = np.array(start), np.array(lengths)
        out.write("start", begins)
        out.write("time", begins + seconds / 2)
        out.write("end", begins + seconds)

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
