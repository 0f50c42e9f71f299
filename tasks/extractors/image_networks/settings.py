"""Where and in what a network computes, and what ``auto`` comes to; light, since planning reads it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import Self

from pydantic import Field, model_validator

from tasks.extractors.settings import ExtractorSettings


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
    """In what the network computes; its weights' file is float32, and float16 is stored."""

    FLOAT32 = "float32"
    TF32 = "tf32"  # float32 with products of 10-bit mantissas; NVIDIA GPUs only
    BFLOAT16 = "bfloat16"  # fast with AMX, and coarse: docs/performance.md
    FLOAT16 = "float16"


class NetworkSettings(ExtractorSettings):
    """What can be set of every feature that a network makes of pictures.

    Attributes:
        device: a processor, or a GPU, which a worker must then declare.
        sessions_per_gpu: how many sessions feed one GPU at once, so that it computes while others decode.
        engine: see :class:`EngineName`.
        precision: see :class:`Precision`.
        batch_size: images that go through the network together; without it 8 on a processor, and on a GPU what half of
            its free memory holds.
        cpus: processors for one session, OpenVINO only; without it 1, or more where there are fewer sessions to
            extract than processors.
    """

    device: Device = Device.CPU
    sessions_per_gpu: int = Field(default=1, ge=1)
    engine: EngineName = EngineName.AUTO
    precision: Precision = Precision.FLOAT32
    batch_size: int | None = Field(default=None, ge=1)
    cpus: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _precision_exists(self) -> Self:
        if self.precision is Precision.TF32 and self.device is not Device.CUDA:
            raise ValueError("precision = 'tf32' is a GPU's: set device = 'cuda'")
        if self.engine is EngineName.OPENVINO and self.device is not Device.CPU:
            raise ValueError("engine = 'openvino' computes on processors: set device = 'cpu', or engine = 'torch'")
        return self

    @property
    def needs(self) -> Mapping[str, float]:
        """Dask resources of one extraction."""
        return {"GPU": 1 / self.sessions_per_gpu} if self.device is Device.CUDA else {"CPU": self.cpus or 1}

    def resolved(self) -> Self:
        """The same with ``auto`` settled.

        Planning settles it once for all workers, since the engine is part of the fingerprint. It looks at what is
        installed and imports nothing of it.
        """
        if self.engine is not EngineName.AUTO:
            return self
        openvino = self.device is Device.CPU and find_spec("openvino")
        return self.model_copy(update={"engine": EngineName.OPENVINO if openvino else EngineName.TORCH})

    def with_cpus(self, cpus: int) -> Self:
        """With this many processors for one session, where OpenVINO computes and ``cpus`` is not set."""
        if self.cpus or self.engine is not EngineName.OPENVINO:
            return self
        return self.model_copy(update={"cpus": cpus})
