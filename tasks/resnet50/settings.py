"""What can be set of resnet50, and what ``auto`` comes to; light, since planning reads it."""

from __future__ import annotations

import os
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from pydantic import Field, model_validator

from tasks import weights
from tasks.extractor import ExtractorSettings, distribution_version

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

    AUTO = "auto"  # torch where there is a GPU, else OpenVINO where it is installed, else torch
    OPENVINO = "openvino"  # a processor
    TORCH = "torch"  # a GPU, or a processor where there is none


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
        engine: see :class:`EngineName`.
        precision: see :class:`Precision`.
        batch_size: images that go through the network together; without it 8 on a processor, and on a GPU what half of
            its free memory holds.
        cpus: processors for one session, OpenVINO only; without it 1, or more where there are fewer sessions to
            extract than processors.
        allow_untrained: where there are no weights, use seeded random ones and stamp the values so (for a demo).
    """

    weights: ResNet50Weights = ResNet50Weights.V1
    path: Path | None = None
    engine: EngineName = EngineName.AUTO
    precision: Precision = Precision.FLOAT32
    batch_size: int | None = Field(default=None, ge=1)
    cpus: int | None = Field(default=None, ge=1)
    allow_untrained: bool = False

    @model_validator(mode="after")
    def _precision_exists(self) -> ResNet50Settings:
        if self.precision is Precision.TF32 and self.engine is EngineName.OPENVINO:
            raise ValueError("precision = 'tf32' is a GPU's; engine = 'openvino' has float32, bfloat16 and float16")
        return self

    def resolved(self) -> ResNet50Settings:
        """The same with ``auto`` settled for this machine.

        Planning settles it once for all workers, since the engine is part of the fingerprint. It looks at what is
        installed and imports nothing of it.
        """
        if self.engine is not EngineName.AUTO:
            return self
        gpu = self.precision is Precision.TF32 or _has_gpu()
        engine = EngineName.TORCH if gpu or not find_spec("openvino") else EngineName.OPENVINO
        return self.model_copy(update={"engine": engine})


def _has_gpu() -> bool:
    """Whether there is an NVIDIA GPU and a torch that can use it."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return not hidden and Path("/dev/nvidiactl").exists() and not distribution_version("torch").endswith("+cpu")
