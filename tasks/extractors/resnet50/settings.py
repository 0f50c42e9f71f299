"""What can be set of resnet50, and what ``auto`` comes to; light, since planning reads it."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from pydantic import Field, model_validator

from tasks.extractors.base import ExtractorSettings
from tasks.models import weights

UNTRAINED_SEED = 0


class ResNet50Weights(StrEnum):
    """torchvision's published weights; their embeddings differ."""

    V1 = "IMAGENET1K_V1"
    V2 = "IMAGENET1K_V2"


PUBLISHED = {
    ResNet50Weights.V1: weights.MODELS["resnet50-v1"],
    ResNet50Weights.V2: weights.MODELS["resnet50-v2"],
}


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
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class ResNet50Settings(ExtractorSettings):
    """``[resnet50]``

    Attributes:
        weights: IMAGENET1K_V1, what ``pretrained=True`` meant when the reference features were made, or _V2.
        path: the weights' file; without it torch's cache is searched, then the file is downloaded.
        device: a processor, or a GPU, which a worker must then declare.
        sessions_per_gpu: how many sessions feed one GPU at once, so that it computes while others decode.
        engine: see :class:`EngineName`.
        precision: see :class:`Precision`.
        batch_size: images that go through the network together; without it 8 on a processor, and on a GPU what half of
            its free memory holds.
        cpus: processors for one session, OpenVINO only; without it 1, or more where there are fewer sessions to
            extract than processors.
        allow_untrained: where there are no weights, use seeded random ones, a caveat of the values (for a demo).
    """

    weights: ResNet50Weights = ResNet50Weights.V1
    path: Path | None = None
    device: Device = Device.CPU
    sessions_per_gpu: int = Field(default=1, ge=1)
    engine: EngineName = EngineName.AUTO
    precision: Precision = Precision.FLOAT32
    batch_size: int | None = Field(default=None, ge=1)
    cpus: int | None = Field(default=None, ge=1)
    allow_untrained: bool = False

    @model_validator(mode="after")
    def _precision_exists(self) -> ResNet50Settings:
        if self.precision is Precision.TF32 and self.device is not Device.CUDA:
            raise ValueError("precision = 'tf32' is a GPU's: set device = 'cuda'")
        if self.engine is EngineName.OPENVINO and self.device is not Device.CPU:
            raise ValueError("engine = 'openvino' computes on processors: set device = 'cpu', or engine = 'torch'")
        return self

    def resolved(self) -> ResNet50Settings:
        """The same with ``auto`` settled.

        Planning settles it once for all workers, since the engine is part of the fingerprint. It looks at what is
        installed and imports nothing of it.
        """
        if self.engine is not EngineName.AUTO:
            return self
        openvino = self.device is Device.CPU and find_spec("openvino")
        return self.model_copy(update={"engine": EngineName.OPENVINO if openvino else EngineName.TORCH})

    def for_measuring(self) -> ResNet50Settings:
        """With random weights where there are none: they cost the same."""
        return self.model_copy(update={"allow_untrained": True})

    def with_cpus(self, cpus: int) -> ResNet50Settings:
        """With this many processors for one session, where OpenVINO computes and ``cpus`` is not set."""
        if self.cpus or self.engine is not EngineName.OPENVINO:
            return self
        return self.model_copy(update={"cpus": cpus})
