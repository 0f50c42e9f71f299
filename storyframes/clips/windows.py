"""The sliding windows inside the phases of a study, and what its recordings say of each.

A clip is a range of rows, never a copy. ``k`` frames with a stride of ``s`` frames give
``floor((F - k) / s) + 1`` windows in a phase of ``F`` frames. In seconds, a window begins with the first frame at or
after each whole stride from the phase's start, and has as many frames as the session's rate makes of its seconds; of a
recording whose rate varies it has the frames of its seconds, however many these are. A session without a video has
windows of just the seconds; their ``start_frame`` and ``stop_frame`` count steps of ``1 / fps`` seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from storyframes.clips.window_spec import WINDOW_COLUMNS, WindowSpec
from storyframes.features import AUDIO_HOP_S
from storyframes.times import last_frame_end_s, ticks, usual_rate

VARIABLE = 0.05
"""A recording whose frames are fewer than its camera's rate says by more than this share has a variable rate."""
SESSION_PHASE = "session"
"""The phase that covers a whole session of a study without phases."""


class PhaseRow(Protocol):
    """A phase of a session, in seconds: ``start_s <= t < end_s``; infinite where a phase is the whole session."""

    @property
    def session_id(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def start_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...


class PhaseSpan(NamedTuple):
    """A phase that is no row of a table."""

    session_id: str
    phase: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class SessionSignals:
    """The signals of a session in the store from which columns of the clip index are made; None where it has none.

    Attributes:
        time: (T,) seconds, the frames' true times.
        tracked: (T,) 1 where a face was tracked, 0 where none was, NaN where none was looked for.
        confidence: (T,) of the tracker, 0..1.
        audio_time: (A,) seconds, of the openSMILE rows.
        word_start: (W,) seconds.
        features: the features that the session has.
        header_fps: frames per second by the recording's header, used without ``time``.
        end_s: of a session without a video, when its sound or transcript ends; infinite where that is not known.
    """

    time: np.ndarray | None = None
    tracked: np.ndarray | None = None
    confidence: np.ndarray | None = None
    audio_time: np.ndarray | None = None
    word_start: np.ndarray | None = None
    features: frozenset[str] = field(default_factory=frozenset)
    header_fps: float | None = None
    end_s: float | None = None

    def rate(self, assumed: float) -> float:
        """Frames per second: by the frames' times, else by the header, else ``assumed``."""
        measured = self._measured_rate
        return (self.header_fps or assumed) if math.isnan(measured) else measured

    @cached_property
    def _measured_rate(self) -> float:
        """By the frames' times, once for all phases of a session; NaN where these say nothing."""
        return math.nan if self.time is None else usual_rate(self.time, math.nan)


def count_windows(frames: int, window: int, stride: int) -> int:
    """How many windows of ``window`` frames a phase of ``frames`` frames holds, ``stride`` frames apart."""
    return 0 if frames < window else (frames - window) // stride + 1


def phase_frames(start_s: float, end_s: float, time: np.ndarray | None, fps: float) -> tuple[int, int]:
    """The frames [first, stop) whose time t has ``start_s <= t < end_s``."""
    if time is not None:
        first, stop = np.searchsorted(ticks(time), ticks((start_s, end_s)), side="left")
        return int(first), int(stop)
    nudge = 1e-6  # 2.0 s x 15 frames/s is frame 30 in spite of rounding
    return math.ceil(start_s * fps - nudge), math.ceil(end_s * fps - nudge)


def windows_of(phases: Iterable[tuple[PhaseRow, SessionSignals]], spec: WindowSpec) -> pd.DataFrame:
    """The windows of phases: one row each, in the phases' order, with :data:`WINDOW_COLUMNS`.

    Args:
        phases: each with the signals of its session; phases that ``spec`` does not name give no windows.

    Returns:
        Columns that need signals that a session does not have are NA.
    """
    windows = [
        _phase_windows(phase, spec, signal)
        for phase, signal in phases
        if spec.phases is None or phase.phase in spec.phases
    ]
    return _one_frame(windows or [_no_windows()]).astype(dict(WINDOW_COLUMNS))


def _one_frame(phases: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The windows of all phases as one data frame. One for each phase would cost more than its windows."""
    counts = [len(phase["start_frame"]) for phase in phases]
    columns: dict[str, Any] = {}
    for name in phases[0]:
        parts = [phase[name] for phase in phases]
        if name in ("session_id", "phase"):
            columns[name] = pd.Series(np.repeat(np.array(parts, object), counts), dtype="str")
        else:
            values = np.concatenate(parts)
            may_be_missing = WINDOW_COLUMNS[name][0].isupper()
            columns[name] = (
                pd.arrays.FloatingArray(values.astype(np.float64), np.isnan(values)) if may_be_missing else values
            )
    return pd.DataFrame(columns)


def _no_windows() -> dict[str, Any]:
    return _phase_windows(PhaseSpan("", "", 0.0, 0.0), WindowSpec(), SessionSignals())


def _phase_windows(phase: PhaseRow, spec: WindowSpec, signal: SessionSignals) -> dict[str, Any]:
    rate = signal.rate(spec.fps)
    fps = signal.header_fps or spec.fps
    first, stop = phase_frames(phase.start_s, phase.end_s, signal.time, fps)
    window = spec.frames(rate)
    if spec.stride is not None:
        starts = first + spec.stride * np.arange(count_windows(stop - first, window, spec.stride))
    else:
        starts = _starts_in_seconds(phase.start_s, spec.stride_s or 1.0, (first, stop - window), signal.time, fps)
    stops = starts + window
    start_s, stop_s = _times(starts, signal.time, fps), _times(stops, signal.time, fps)
    if spec.window_s is not None and signal.time is not None and has_variable_rate(signal.time, rate):
        starts, stops, start_s, stop_s = _of_their_seconds(phase, spec, signal.time, first, stop)
    if spec.window_s is not None and signal.end_s is not None:
        starts, stops, start_s, stop_s = _without_frames(phase, spec, signal.end_s)
    audio_start, audio_stop = _positions(signal.audio_time, start_s), _positions(signal.audio_time, stop_s)
    return {
        "session_id": phase.session_id,
        "phase": phase.phase,
        "start_frame": starts,
        "stop_frame": stops,
        "start_s": start_s,
        "stop_s": stop_s,
        "audio_start": audio_start,
        "audio_stop": audio_stop,
        "sound_covered": np.minimum((audio_stop - audio_start) * AUDIO_HOP_S / (stop_s - start_s), 1),
        "face_tracked": _window_mean(signal.tracked, starts, stops),
        "face_confidence": _window_mean(signal.confidence, starts, stops),
        "words": _count_between(signal.word_start, start_s, stop_s),
        "frames_expected": _missing(len(starts)) if signal.time is None else np.rint((stop_s - start_s) * rate),
        "longest_gap_s": _longest_gaps(signal.time, starts, stops, 1 / rate),
    }


def _starts_in_seconds(
    begin_s: float, stride_s: float, within: tuple[int, int], time: np.ndarray | None, fps: float
) -> np.ndarray:
    """The first frames at or after every stride from ``begin_s``, of those ``within`` the first and the last."""
    first, last = within
    if last < first or last < 0:
        return np.empty(0, int)
    first_s, last_s = _times(np.array([first, last]), time, fps)
    begin_s = begin_s if math.isfinite(begin_s) else first_s
    at = begin_s + stride_s * np.arange(math.floor((last_s - begin_s) / stride_s + 1e-6) + 1)
    if time is None:
        starts = np.ceil(at * fps - 1e-6).astype(int)
    else:
        starts = np.searchsorted(ticks(time), ticks(at), side="left")
    starts = np.unique(starts)  # several strides into one gap begin with the same frame
    return starts[(starts >= first) & (starts <= last)]


def has_variable_rate(time: np.ndarray, rate: float) -> bool:
    """Whether a recording has so few frames for its camera's rate that windows of so many frames would last too long.

    Args:
        time: (T,) seconds of its frames.
        rate: of its camera, see :func:`storyframes.times.usual_rate`.
    """
    return len(time) > 1 and abs((len(time) - 1) / (time[-1] - time[0]) / rate - 1) > VARIABLE


def _of_their_seconds(
    phase: PhaseRow, spec: WindowSpec, time: np.ndarray, first: int, stop: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """First frames, frames after the last, and seconds of windows that have the frames of just their seconds."""
    window_s = spec.window_s or 0.0
    end_s = min(phase.end_s, float(_times(np.array([stop]), time, 1.0)[0]))
    starts = _starts_in_seconds(phase.start_s, spec.stride_s or 1.0, (first, stop - 1), time, 1.0)
    starts = starts[ticks(time[starts] + window_s) <= ticks(end_s)]
    start_s = time[starts]
    stops = np.searchsorted(ticks(time), ticks(start_s + window_s), side="left")
    return starts, stops, start_s, start_s + window_s


def _without_frames(
    phase: PhaseRow, spec: WindowSpec, end_s: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The same of a session without a video, whose frames are steps of ``1 / fps`` seconds."""
    window_s, stride_s, begin_s = spec.window_s or 0.0, spec.stride_s or 1.0, max(phase.start_s, 0.0)
    last_s = min(phase.end_s, end_s) - window_s
    count = 0 if math.isinf(last_s) else math.floor((last_s - begin_s) / stride_s + 1e-6) + 1
    start_s = begin_s + stride_s * np.arange(max(count, 0))
    starts, first = np.unique(np.floor(start_s * spec.fps + 1e-6).astype(int), return_index=True)
    return starts, starts + spec.frames(spec.fps), start_s[first], start_s[first] + window_s


def _times(frames: np.ndarray, time: np.ndarray | None, fps: float) -> np.ndarray:
    """Start time of each frame; the frame after the last starts where the last one ends."""
    if time is None:
        return frames / fps
    if len(time) == 0:
        return np.empty(0)
    return np.append(time, last_frame_end_s(time, 1 / fps))[frames]


def _longest_gaps(time: np.ndarray | None, starts: np.ndarray, stops: np.ndarray, step_s: float) -> np.ndarray:
    """The longest time from one frame of each window to the next."""
    if time is None or not len(starts):
        return _missing(len(starts))
    gaps = np.append(np.diff(np.append(time, last_frame_end_s(time, step_s))), 0.0)
    return np.maximum.reduceat(gaps, np.column_stack([starts, stops]).ravel())[::2]


def _missing(count: int) -> np.ndarray:
    return np.full(count, np.nan)


def _positions(times: np.ndarray | None, at: np.ndarray) -> np.ndarray:
    return _missing(len(at)) if times is None else np.searchsorted(ticks(times), ticks(at), side="left")


def _count_between(times: np.ndarray | None, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    if times is None:
        return _missing(len(start))
    ordered = np.sort(ticks(times))
    return np.searchsorted(ordered, ticks(stop), side="left") - np.searchsorted(ordered, ticks(start), side="left")


def _window_mean(values: np.ndarray | None, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """The mean of each window's values that are not NaN; NaN where all are."""
    if values is None:
        return _missing(len(starts))
    has_value = ~np.isnan(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(has_value, values, 0.0), dtype=np.float64)])
    count = np.concatenate([[0], np.cumsum(has_value)])
    counts = count[stops] - count[starts]
    return np.where(counts > 0, (total[stops] - total[starts]) / np.maximum(counts, 1), np.nan)
