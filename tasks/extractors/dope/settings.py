"""The settings of DOPE. What stays None is taken from the model file."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from tasks.extractors.base import ExtractorSettings
from tasks.extractors.dope.options import NetworkOptions
from tasks.extractors.settings import EngineName, Precision

FLOAT32_BATCH_NORM_EPS = 0.0
HALF_BATCH_NORM_EPS = 1e-5
FRAMES_AT_ONCE_ON_PROCESSOR = 1
FRAMES_AT_ONCE_ON_GPU = 8
BOXES_AT_ONCE_IN_TORCH = 256
BOXES_AT_ONCE_IN_OPENVINO = 64


class PostProcessing(StrEnum):
    """How the network's overlapping poses become detections."""

    PPI = "ppi"
    NMS = "nms"


class People(StrEnum):
    """Whose poses are kept."""

    ONE = "one"  # the participant's
    ALL = "all"  # also everybody's, as flat arrays with offsets


class Device(StrEnum):
    """Where the network runs."""

    AUTO = "auto"  # a GPU where there is one
    CPU = "cpu"
    CUDA = "cuda"


class RoiBorder(StrEnum):
    """The features of a box beyond the feature map (docs/dope.md)."""

    ZERO = "zero"  # zeros, as in torchvision's compiled RoIAlign, with which the published numbers were made
    REPEAT = "repeat"  # the cell at the border again, as in torchvision's Python RoIAlign


class DopeSettings(ExtractorSettings):
    """The section ``[dope]`` of the configuration, and the settings of a ``DopeDetector``."""

    # the authors' model file (docs/dope.md); default: DOPE_v1_0_0.pth.tgz where 'models list' looks
    model: Path | None = None
    # detect in every n-th frame only; the others are NaN, and ``sampled`` is 0
    every_n_frames: int = Field(default=1, ge=1)
    people: People = People.ONE  # ``one`` for the participant, ``all`` for everybody as well
    # who the participant is where several bodies are seen (docs/dope.md)
    rival_score: float = Field(default=0.5, ge=0, le=1)
    # pose proposals integration (``ppi``) or non-maximum suppression (``nms``)
    post_processing: PostProcessing = PostProcessing.PPI
    nms_min_score: float = Field(default=0.3, ge=0, le=1)  # smallest score of a pose, for ``nms`` only
    # min_size, max_size: pixels, resizing of the frames; see :class:`~tasks.extractors.dope.options.NetworkOptions`
    min_size: int | None = Field(default=None, ge=1)
    max_size: int | None = Field(default=None, ge=1)
    # rpn_pre_nms_top_n, rpn_post_nms_top_n: boxes before and after suppression. The authors' command line always sets
    # 1000 for the second
    rpn_pre_nms_top_n: int | None = Field(default=None, ge=1)
    rpn_post_nms_top_n: int | None = Field(default=None, ge=1)
    # None is the value that the models were published with: 0 for float32 and 1e-5 for half-precision ones. The
    # authors' code under a torchvision of 2021 or later has 1e-5 for both
    batch_norm_eps: float | None = Field(default=None, ge=0)
    # the features of a box beyond the feature map: zeros (``zero``), or the cell at the border again (``repeat``)
    roi_border: RoiBorder = RoiBorder.ZERO
    device: Device = Device.AUTO  # where the network runs
    # the library of its layers; ``auto``: torch on a GPU, else OpenVINO where it is installed, else torch
    engine: EngineName = EngineName.AUTO
    # in what the layers compute. None is float32, and float16 on a GPU for a model that was published for half
    # precision. ``bfloat16`` is OpenVINO's, on processors that have it: fast and coarse (docs/dope.md). ``tf32`` is a
    # GPU's
    precision: Literal[Precision.FLOAT32, Precision.BFLOAT16, Precision.TF32] | None = None
    # frames that go through the network at once; limits the memory. None is 1 on a processor, where more gain nothing,
    # and 8 on a GPU
    frames_per_pass: int | None = Field(default=None, ge=1)
    # boxes whose poses are computed at once; limits the memory (0.6 MB each in float32, 1 MB with OpenVINO). None is
    # 256, and 64 with OpenVINO, where more gain 2 % at most
    boxes_per_pass: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.engine is EngineName.OPENVINO and self.device is Device.CUDA:
            raise ValueError("engine = 'openvino' computes on processors: set device = 'cpu', or engine = 'torch'")
        if self.precision is Precision.BFLOAT16 and (self.engine is EngineName.TORCH or self.device is Device.CUDA):
            raise ValueError(
                "precision = 'bfloat16' is OpenVINO's, on processors: set engine = 'openvino', device = 'cpu'"
            )
        if self.precision is Precision.TF32 and self.device is not Device.CUDA:
            raise ValueError("precision = 'tf32' is a GPU's: set device = 'cuda', or precision = 'float32'")
        return self

    def resolved(self) -> Self:
        """These settings without ``auto``: planning decides the engine once, since it is part of the fingerprint.

        Planning does not know the workers' devices, so it assumes processors unless ``device`` is ``cuda``.
        """
        engine = self.engine
        if engine is EngineName.AUTO:
            engine = EngineName.TORCH if self.device is Device.CUDA else self._on_processors()
        precision = Precision.FLOAT32 if engine is EngineName.OPENVINO and not self.precision else self.precision
        return self.model_copy(update={"engine": engine, "precision": precision})

    def _on_processors(self) -> EngineName:
        # bfloat16 needs OpenVINO; where it is not installed, the detector says so.
        is_openvino = self.precision is Precision.BFLOAT16 or find_spec("openvino")
        return EngineName.OPENVINO if is_openvino else EngineName.TORCH

    @property
    def engine_here(self) -> EngineName:
        """``engine``, or the best for this machine: torch for a GPU, else as in :meth:`resolved`."""
        if self.engine is not EngineName.AUTO:
            return self.engine
        return EngineName.TORCH if self.torch_device == "cuda" else self._on_processors()

    @property
    def torch_device(self) -> str:
        """``"cpu"`` or ``"cuda"``: ``device`` on this machine."""
        if self.engine is EngineName.OPENVINO or self.precision is Precision.BFLOAT16:
            return "cpu"
        if self.device is Device.AUTO:
            import torch

            return "cuda" if torch.cuda.is_available() else "cpu"
        return str(self.device)

    @property
    def frames_at_once(self) -> int:
        """``frames_per_pass``, or the device's default."""
        if self.frames_per_pass is not None:
            return self.frames_per_pass
        return FRAMES_AT_ONCE_ON_PROCESSOR if self.torch_device == "cpu" else FRAMES_AT_ONCE_ON_GPU

    @property
    def boxes_at_once(self) -> int:
        """``boxes_per_pass``, or the engine's default."""
        if self.boxes_per_pass is not None:
            return self.boxes_per_pass
        return BOXES_AT_ONCE_IN_OPENVINO if self.engine_here is EngineName.OPENVINO else BOXES_AT_ONCE_IN_TORCH

    def applied_to(self, stored: NetworkOptions) -> NetworkOptions:
        """The options of the model file, replaced where these settings have a value.

        Raises:
            ValueError: the combination breaks a rule, e.g. ``max_size`` below ``min_size``.
        """
        names = ("min_size", "max_size", "rpn_pre_nms_top_n", "rpn_post_nms_top_n")
        chosen = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(stored, **chosen)

    def eps(self, half: bool) -> float:
        """The epsilon of batch normalisation for a model published in half precision or not."""
        if self.batch_norm_eps is not None:
            return self.batch_norm_eps
        return HALF_BATCH_NORM_EPS if half else FLOAT32_BATCH_NORM_EPS
