"""The base of every extractor's section of the configuration, and the settings that several sections share.

Planning reads these, so nothing here imports a library of models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from tasks.media.container import StreamChoice
from tasks.strict_settings import StrictSettings, anchor_paths


class ExtractorSettings(StrictSettings):
    """Base of every extractor's section of the configuration; an unknown key is an error.

    The rest of the program may call these methods on any section.
    """

    @property
    def needs(self) -> Mapping[str, float]:
        """Dask resources of one extraction: ``{"CPU": 1}``, or ``{"GPU": 1}`` where it runs on one."""
        return {"CPU": 1}

    def resolved(self) -> Self:
        """The same with machine-dependent values filled in. Planning does this once, so that all workers do alike."""
        return self

    def for_measuring(self) -> Self:
        """The same for measuring what extraction costs: a missing model may be replaced by one that costs as much."""
        return self

    def with_cpus(self, cpus: int) -> Self:
        """The same for ``cpus`` processors, if it can use them and the user did not set how many."""
        return self

    @classmethod
    def anchored(cls, section: dict[str, Any], folder: Path) -> dict[str, Any]:
        """The section, as a file has it, with relative paths made absolute by the file's folder."""
        return anchor_paths(cls, section, folder)


class Hdr(StrEnum):
    """The pictures of a video in HDR or wide gamut."""

    MAPPED = "mapped"  # to BT.709, as a player shows them on an ordinary screen
    CODED = "coded"  # the coded values, as if they were of BT.709: flat and pale


class RecordingSettings(ExtractorSettings):
    """``[recording]``: how a video is read, and how strictly."""

    allow_truncated: bool = False  # use what decodes of a video whose header promises more; a caveat of every feature
    hdr: Hdr = Hdr.MAPPED  # a caveat of every feature of pictures, either way
    # which picture and which sound of a recording that has several are read, counted from 0; a recording with one has
    # no choice
    video_stream: int = Field(default=0, ge=0)
    sound_stream: int = Field(default=0, ge=0)
    # the one folder outside the study that its tables may point into; decides no value, and is written nowhere
    root: Path | None = Field(default=None, exclude=True, repr=False)

    @property
    def streams(self) -> StreamChoice:
        """The picture and the sound that are read."""
        return StreamChoice(self.video_stream, self.sound_stream)

    def value_settings(self, *, of_pictures: bool) -> dict[str, Any]:
        """The settings that decide a feature's values.

        A setting that is newer than stored features is left out where it has its default, so that they stay current.
        """
        newer = {"hdr": str(self.hdr)} if of_pictures and self.hdr is not Hdr.MAPPED else {}
        return {"allow_truncated": self.allow_truncated, **newer, **self.video_settings()}

    def video_settings(self) -> dict[str, Any]:
        """The setting that decides which picture's first frame is second 0, if it is not the default."""
        return {"video_stream": self.video_stream} if self.video_stream else {}

    def sound_settings(self) -> dict[str, Any]:
        """The settings that decide the values of a feature of sound, without those that have their defaults."""
        return {"sound_stream": self.sound_stream} if self.sound_stream else {}


class TranscriptSettings(ExtractorSettings):
    """``[transcript]``: how strictly a transcript is read."""

    # leave out what cannot be read of a transcript (a cue with invalid times, a word beyond its utterance, an end
    # without a start) instead of failing; a caveat of the values
    allow_malformed_cues: bool = False
    # whether "Name: " at the beginning of a caption names its speaker and is no text; None decides from the whole file,
    # and what stays uncertain is a caveat
    speaker_prefixes: bool | None = None
    # a word below this confidence counts as one of low confidence, whose share is stored, and above 5 % a caveat
    low_confidence: float = Field(default=0.5, ge=0, le=1)


@dataclass(frozen=True)
class CommonSettings:
    """The sections that several extractors share."""

    recording: RecordingSettings = field(default_factory=RecordingSettings)
    transcript: TranscriptSettings = field(default_factory=TranscriptSettings)


# --- networks --------------------------------------------------------------------------------------------------------


class EngineName(StrEnum):
    """What computes the network."""

    AUTO = "auto"  # torch for a GPU, else OpenVINO where it is installed, else torch
    OPENVINO = "openvino"  # processors only
    TORCH = "torch"


class Device(StrEnum):
    """Where the network computes."""

    CPU = "cpu"
    CUDA = "cuda"


class Precision(StrEnum):
    """The number format in which the network computes; its weights' file is float32."""

    FLOAT32 = "float32"
    TF32 = "tf32"  # float32 with products of 10-bit mantissas; NVIDIA GPUs only
    BFLOAT16 = "bfloat16"  # fast with AMX, and coarse: docs/performance.md
    FLOAT16 = "float16"


# A session's share of a GPU where nothing says how many share it: as many as the machine bears (flows/clusters).
LEAST_GPU_SHARE = 1 / 1024


class ComputeSettings(ExtractorSettings):
    """The settings of every feature that a network computes."""

    device: Device = Device.CPU  # a processor, or a GPU, which a worker must then declare
    # how many processes share one GPU, each with one session; without it as many as processors and memory allow
    sessions_per_gpu: int | None = Field(default=None, ge=1, le=1000)
    precision: Precision = Precision.FLOAT32
    # how many inputs go through the network together; without it a processor gets a small fixed number, and a GPU as
    # many as half of its free memory holds
    batch_size: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check_precision(self) -> Self:
        if self.precision is Precision.TF32 and self.device is not Device.CUDA:
            raise ValueError("precision = 'tf32' is a GPU's: set device = 'cuda'")
        return self

    @property
    def needs(self) -> Mapping[str, float]:
        if self.device is Device.CPU:
            return {"CPU": 1}
        return {"GPU": 1 / self.sessions_per_gpu if self.sessions_per_gpu else LEAST_GPU_SHARE}


class NetworkSettings(ComputeSettings):
    """The settings of every feature that a network makes of pictures."""

    engine: EngineName = EngineName.AUTO
    # processors for one session, OpenVINO only; without it 1, or more if there are fewer sessions to extract than
    # processors
    cpus: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.engine is EngineName.OPENVINO and self.device is not Device.CPU:
            raise ValueError("engine = 'openvino' computes on processors: set device = 'cpu', or engine = 'torch'")
        return self

    @property
    def needs(self) -> Mapping[str, float]:
        return super().needs if self.device is Device.CUDA else {"CPU": self.cpus or 1}

    def resolved(self) -> Self:
        """The same with ``auto`` replaced by an engine.

        Planning chooses it once for all workers, since the engine is part of the fingerprint. It checks what is
        installed, and imports nothing of it.
        """
        if self.engine is not EngineName.AUTO:
            return self
        openvino = self.device is Device.CPU and find_spec("openvino")
        return self.model_copy(update={"engine": EngineName.OPENVINO if openvino else EngineName.TORCH})

    def with_cpus(self, cpus: int) -> Self:
        """With this many processors for one session, if OpenVINO computes and ``cpus`` is not set."""
        if self.cpus or self.engine is not EngineName.OPENVINO:
            return self
        return self.model_copy(update={"cpus": cpus})
