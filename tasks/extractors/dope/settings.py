"""What the caller of DOPE configures. What stays None is taken from the checkpoint file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from tasks.extractors.dope.options import NetworkOptions

FLOAT32_BATCH_NORM_EPS = 0.0
HALF_BATCH_NORM_EPS = 1e-5
FRAMES_AT_ONCE_ON_PROCESSOR = 1
FRAMES_AT_ONCE_ON_GPU = 8


class PostProcessing(StrEnum):
    """How the network's many overlapping poses become detections."""

    PPI = "ppi"
    NMS = "nms"


@dataclass(frozen=True)
class DopeSettings:
    """How to run DOPE.

    Attributes:
        device: a torch device, e.g. ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. A model published for half precision runs
            in float16 on a GPU and in float32 on the processor.
        post_processing: pose proposals integration or non-maximum suppression.
        nms_min_score: smallest score of a pose, for ``PostProcessing.NMS`` only.
        min_size: pixels, overrides the checkpoint; see :class:`~tasks.extractors.dope.options.NetworkOptions`.
        max_size: pixels, overrides the checkpoint.
        rpn_pre_nms_top_n: overrides the checkpoint.
        rpn_post_nms_top_n: overrides the checkpoint. The authors' command line sets 1000 whatever the file says.
        batch_norm_eps: None means what the models were published with: 0 for float32 and 1e-5 for half-precision
            ones. The authors' code under a torchvision of 2021 or later has 1e-5 for both.
        frames_per_pass: frames that go through the network at once; bounds the memory. None means 1 on the processor,
            where more were measured to gain nothing, and 8 on a GPU.
        boxes_per_pass: boxes whose poses are computed at once; bounds the memory (0.6 MB each in float32).
    """

    device: str = "cpu"
    post_processing: PostProcessing = PostProcessing.PPI
    nms_min_score: float = 0.3
    min_size: int | None = None
    max_size: int | None = None
    rpn_pre_nms_top_n: int | None = None
    rpn_post_nms_top_n: int | None = None
    batch_norm_eps: float | None = None
    frames_per_pass: int | None = None
    boxes_per_pass: int = 256

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "post_processing", PostProcessing(self.post_processing)
        )  # "nms" is NMS, "nmx" an error
        if self.batch_norm_eps is not None and not self.batch_norm_eps >= 0:
            raise ValueError(f"batch_norm_eps = {self.batch_norm_eps}; it must be 0 or more")
        for name in ("frames_per_pass", "boxes_per_pass"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} = {value}; it must be at least 1")

    @property
    def frames_at_once(self) -> int:
        """``frames_per_pass``, or what suits the device."""
        if self.frames_per_pass is not None:
            return self.frames_per_pass
        return FRAMES_AT_ONCE_ON_PROCESSOR if self.device == "cpu" else FRAMES_AT_ONCE_ON_GPU

    def applied_to(self, stored: NetworkOptions) -> NetworkOptions:
        """The options of the checkpoint file with what is set here in their place.

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
