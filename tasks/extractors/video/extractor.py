"""A model of videos as a feature: one row for each window of a session's video."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import Cost, ExtractionError, Source
from tasks.extractors.embed.extractor import Embedding, describe_output, layer_numbers, window_time
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import EmbedSettings, Kind, Origin
from tasks.extractors.embed.sources import published_weights
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.frames import FrameClock
from tasks.extractors.video.shape import TORCHVISION, ClipShape, clip_shape
from tasks.extractors.video.windows import MASK, Windows, WindowWriter

_UNTRAINED = "untrained, seed 0"
_SAMPLE_S = 0.5  # planning measures no less


class VideoSettings(EmbedSettings):
    """A model of videos."""

    kind: Literal[Kind.VIDEO]
    # seconds of a window; without it those of the model's frames at the rate that it was made for
    window_s: float | None = Field(default=None, ge=0.001, le=600, allow_inf_nan=False)
    # seconds from the start of a window to the next one's; without it windows follow each other
    stride_s: float | None = Field(default=None, ge=0.001, le=3600, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_of_videos(self) -> Self:
        if self.origin is Origin.TIMM:
            raise ValueError("timm: has no models of videos: take hf:OWNER/NAME, path:FOLDER or torchvision:NAME")
        if self.origin is Origin.TORCHVISION:
            if self.model_name not in TORCHVISION:
                raise ValueError(
                    f"source = {self.source!r}: torchvision's models of videos are {', '.join(TORCHVISION)}"
                )
        elif self.allow_untrained and not self.gives_scores:
            raise ValueError("allow_untrained is of torchvision's models: a folder or a repository has weights")
        return self

    def for_measuring(self) -> Self:
        """With random weights where torchvision's are not here, and short windows: they cost as much."""
        changed: dict[str, Any] = {"allow_untrained": self.origin is Origin.TORCHVISION}
        if self.window_s is not None:
            changed |= {"window_s": min(self.window_s, _SAMPLE_S), "stride_s": self.stride_s or self.window_s}
        return self.model_copy(update=changed)


class VideoEmbedding(Embedding[VideoSettings], FrameExtractor[VideoSettings]):
    """A model of videos, of windows of frames; it shares the pass over the frames with models of pictures."""

    Settings = VideoSettings
    version = 1
    libraries = ("torch", "torchvision", "transformers", "opencv-python-headless", "av")

    @property
    def cost(self) -> Cost:
        return Cost(4.0 / (self.settings.stride_s or self.settings.window_s or 1.0), 5.0)

    @property
    def model(self) -> LocalModel:
        """The model's files; of torchvision none, where its weights are not here and need not be."""
        settings, revision = self.settings, self.settings.revision or ""
        if self._may_lack_weights and not published_weights(settings.model_name, revision).path.is_file():
            return LocalModel(settings.origin, settings.model_name, None, (), {}, {"weights": _UNTRAINED}, revision)
        return super().model

    @property
    def _may_lack_weights(self) -> bool:
        return self.settings.allow_untrained and self.settings.origin is Origin.TORCHVISION

    def models(self) -> Mapping[str, str]:
        return super().models() or self.model.digests

    def value_settings(self) -> Mapping[str, Any]:
        """Those of the section, with the seconds that are meant where it does not say them."""
        window_s, stride_s = self._seconds(clip_shape(self.model, self.settings.label))
        return {**super().value_settings(), "window_s": window_s, "stride_s": stride_s}

    def make_spec(self, model: LocalModel) -> FeatureSpec:
        """``values`` with a row for each window, their mask, and when each begins, is centred and ends."""
        settings, shape = self.settings, clip_shape(model, self.settings.label)
        self._seconds(shape)
        layers = self._layers(shape)
        columns, groups, units = self.columns(shape.width, layers)

        output = describe_output(settings, f"layer {', '.join(map(str, settings.layers))}")
        about, size = f"the model's numbers of the window: {output}; NaN where valid is 0", (len(columns),)
        arrays = {
            "values": ArraySpec(Axis.WINDOW, "float32", about, size, ("column",), columns=columns, units=units),
            "time": window_time("the middle of the window"),
            "start": window_time("when the window begins"),
            "end": window_time("when the window ends"),
            MASK: ArraySpec(
                Axis.WINDOW, "uint8", "1 where there is a frame for each moment of the window, 0 elsewhere", fill=0
            ),
        }
        about = f"windows of {shape.frames} frames by {model.origin}:{model.name}"
        return FeatureSpec(self.name, about, arrays, groups, mask=MASK)

    def open(self, source: Source, out: FeatureWriter) -> WindowWriter:
        """Begin the windows: load the model, write their times.

        Raises:
            ExtractionError: the video is shorter than one window, or the model cannot be loaded.
        """
        from tasks.extractors.video.encoder import ClipEncoder

        settings, shape = self.settings, clip_shape(self.model, self.settings.label)
        window_s, stride_s = self._seconds(shape)
        windows = Windows(FrameClock.read(source, out), window_s, stride_s, shape.frames)
        if not len(windows.start_s):
            raise ExtractionError(
                f"{settings.section}: the video is {windows.clock.end_s:.3f} s long, shorter than one window of "
                f"{window_s:g} s: set a smaller window_s"
            )
        encoder = ClipEncoder(self.model, shape, self._layers(shape), settings, self.head)
        self.note_model(out)
        out.attributes |= {"window_s": window_s, "stride_s": stride_s, "frames_of_window": shape.frames}
        out.attributes |= {"rate": shape.frames / window_s, "rate_of_model": shape.rate}
        out.quality["left_out_s"] = windows.left_out_s
        if not self.model.weights:
            out.caveat(Caveat.UNTRAINED)
        out.write("start", windows.start_s)
        out.write("time", windows.start_s + window_s / 2)
        out.write("end", windows.start_s + window_s)
        return WindowWriter(windows, encoder, out, settings.section)

    def _seconds(self, shape: ClipShape) -> tuple[float, float]:
        """The length of a window, and how far windows are apart."""
        window_s = self.settings.window_s
        if window_s is None:
            if shape.rate is None:
                raise ExtractionError(
                    f"{self.settings.section}: window_s is missing: {self.settings.source} takes {shape.frames} "
                    "frames, and its configuration does not say how many a second"
                )
            window_s = shape.frames / shape.rate
        return window_s, self.settings.stride_s or window_s

    def _layers(self, shape: ClipShape) -> tuple[int, ...]:
        """The section's layers, counted from 0."""
        if shape.depth is not None:
            return layer_numbers(self.settings, shape.depth)
        if self.settings.layers != (-1,):
            raise ExtractionError(
                f"{self.settings.section}: layer = {self.settings.layer}: of {self.settings.source} only the model's "
                "own row of a clip can be read, -1"
            )
        return (-1,)
