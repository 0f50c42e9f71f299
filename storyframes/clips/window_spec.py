"""How clips are cut: the section ``[clips]`` of a configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

from storyframes.spec import MAIN

DEFAULT_WINDOW, DEFAULT_STRIDE, DEFAULT_STRIDE_S = 120, 15, 1.0

SAME_RATE = 0.01
"""Rates that differ by less than this share of the lower one count as equal: a camera's own jitter is that large."""

WINDOW_COLUMNS: Mapping[str, str] = {
    "session_id": "str",
    "phase": "str",
    "start_frame": "int32",
    "stop_frame": "int32",
    "start_s": "float64",
    "stop_s": "float64",
    "audio_start": "Int32",
    "audio_stop": "Int32",
    "sound_covered": "Float32",
    "face_tracked": "Float32",
    "face_confidence": "Float32",
    "words": "Int32",
    "frames_expected": "Int32",
    "longest_gap_s": "Float64",
}
"""The columns of a window before anything labels it, and their types."""

_SHARES_OFF = 0.0011  # thirds are written as 0.333

_COMMON_RATES = (5.0, 10.0, 12.5, 15.0, 20.0, 24000 / 1001, 24.0, 25.0, 30000 / 1001, 30.0, 50.0, 60000 / 1001, 60.0)


def nominal_rate(rate: float) -> float:
    """The common frame rate nearest to a measured one, so that sessions of one camera type have clips of one length."""
    nearest = min(_COMMON_RATES, key=lambda common: abs(common - rate))
    return nearest if abs(nearest - rate) <= SAME_RATE * nearest else rate


@dataclass(frozen=True)
class WindowSpec:
    """How clips are cut.

    Attributes:
        window: frames of a clip (120: 8 s at 15 fps); None where clips are counted in seconds.
        stride: frames from one clip's start to the next one's (15: 1 s at 15 fps); None likewise.
        window_s: instead of ``window``, seconds of a clip, which has as many frames of its session's own rate.
        stride_s: with ``window_s``, seconds from one clip's start to the next one's; 1 by default.
        fps: frames per second of a session whose frame times and recording header are both unknown.
        phases: the phases that give clips; None takes all.
        track: whose frames are cut into clips, by default the session's own camera's.
        unlabelled: "keep" or "drop" windows without labels; None keeps them if the study has no ratings.
        split_shares: shares of the participants in train, val and test; their sum is 1.
        split_seed: seeds the assignment of participants to splits.

    Raises:
        ValueError: values break rules; the message names all of them.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}  # pydantic reads [clips] into this class

    window: int | None = None
    stride: int | None = None
    window_s: float | None = None
    stride_s: float | None = None
    fps: float = 15.0
    phases: tuple[str, ...] | None = None
    track: str = MAIN
    unlabelled: str | None = None
    split_shares: tuple[float, float, float] = (0.7, 0.2, 0.1)
    split_seed: int = 0

    def __post_init__(self) -> None:
        if self.window_s is None and self.stride_s is None:
            self._fill("window", DEFAULT_WINDOW)
            self._fill("stride", DEFAULT_STRIDE)
        else:
            self._fill("stride_s", DEFAULT_STRIDE_S)
        if faults := list(self._faults()):
            raise ValueError("; ".join(faults))

    def _fill(self, name: str, value: float) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    @property
    def in_seconds(self) -> bool:
        """Whether windows are counted in seconds."""
        return self.window_s is not None

    def frames(self, rate: float) -> int:
        """Frames of a clip of a session that has ``rate`` frames a second."""
        return self.window or max(1, round((self.window_s or 0) * nominal_rate(rate)))

    def __str__(self) -> str:
        of = "" if self.track == MAIN else f", of the frames of {self.track}"
        if self.in_seconds:
            return f"{self.window_s:g} s, stride {self.stride_s:g} s{of}"
        return f"{self.window} frames, stride {self.stride}{of}"

    def _faults(self) -> Iterator[str]:
        given = [name for name in ("window", "stride") if getattr(self, name) is not None]
        seconds = [name for name in ("window_s", "stride_s") if getattr(self, name) is not None]
        if seconds and given:
            yield f"{given[0]} counts frames and {seconds[0]} seconds: give window and stride, or window_s and stride_s"
        elif seconds and self.window_s is None:
            yield f"stride_s = {self.stride_s!r} is given without window_s"
        for name in given:
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                yield f"{name} = {value!r}: a whole number of frames, at least 1"
        for name in seconds:
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
                yield f"{name} = {value!r}: more than 0 seconds"
        if self.unlabelled not in (None, "keep", "drop"):
            yield f'unlabelled = {self.unlabelled!r}: "keep" or "drop"'
        if not 0 < self.fps < math.inf:
            yield f"fps = {self.fps!r}: more than 0 frames per second"
        if isinstance(self.phases, str):
            yield f"phases = {self.phases!r}: a list of phases, also of one"
        if len(self.split_shares) != 3 or not all(0 <= share < math.inf for share in self.split_shares):
            yield f"split_shares = {list(self.split_shares)}: three shares, of train, val and test, none negative"
        elif sum(self.split_shares) <= 0:
            yield f"split_shares = {list(self.split_shares)}: not all of them zero"
        elif abs(sum(self.split_shares) - 1) > _SHARES_OFF:
            yield (
                f"split_shares = {list(self.split_shares)}: they add up to {sum(self.split_shares):g}, and have to add "
                "up to 1"
            )
