"""The sliding windows inside the phases of a study, and what its recordings say of each.

A clip is a range of rows, never a copy. ``k`` frames with a stride of ``s`` frames give
``floor((F - k) / s) + 1`` windows in a phase of ``F`` frames. In seconds, a window begins with the first frame at or
after each whole stride from the phase's start, and has as many frames as the session's rate makes of its seconds; of a
recording whose rate varies it has the frames of its seconds, however many these are. A session without a video has
windows of just the seconds; their ``start_frame`` and ``stop_frame`` count steps of ``1 / fps`` seconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from storyframes.clips.window_spec import WINDOW_COLUMNS, WindowSpec
from storyframes.features import AUDIO_HOP_S
from storyframes.times import last_frame_end_s, ticks, usual_rate

VARIABLE = 0.05
"""A recording whose frames are fewer than its camera's rate says by more than this share has a variable rate."""
SESSION_PHASE = "session"
"""The phase that covers a whole session of a study without phases."""
_NUDGE = 1e-6  # 2.0 s x 15 frames/s is frame 30 in spite of rounding


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


@dataclass(frozen=True, eq=False)
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


class SessionFrames:
    """The frames of a session in its seconds: at their times, or ``fps`` of them a second.

    Args:
        time: (T,) seconds at which they are shown; None where that is not known.
        fps: frames per second where it is not known; else the duration of a single frame.
    """

    def __init__(self, time: np.ndarray | None, fps: float) -> None:
        self.time = time
        self.fps = fps
        if time is not None:
            self._ticks = ticks(time)
            self._edges = np.append(time, last_frame_end_s(time, 1 / fps))

    def at_or_after(self, seconds: ArrayLike) -> np.ndarray:
        """The first frame at or after each moment, of the same shape."""
        if self.time is not None:
            return np.searchsorted(self._ticks, ticks(seconds), side="left")
        return np.ceil(np.asarray(seconds) * self.fps - _NUDGE).astype(int)

    def between(self, spans: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
        """The frames [first, stop) of each span whose time t has ``start_s <= t < end_s``."""
        return [(first, stop) for first, stop in self.at_or_after(spans).tolist()]

    def times(self, frames: np.ndarray) -> np.ndarray:
        """When each of these frames begins, seconds; the frame after the last begins where the last one ends."""
        if self.time is None:
            return frames / self.fps
        return self._edges[frames] if len(self.time) else np.empty(0)

    def longest_gaps(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """The longest time from one frame of each window to the next; NaN where times are not known."""
        if self.time is None or not len(starts):
            return _missing(len(starts))
        gaps = np.append(np.diff(self._edges), 0.0)
        return np.maximum.reduceat(gaps, np.column_stack([starts, stops]).ravel())[::2]


def windows_of(phases: Iterable[tuple[PhaseRow, SessionSignals]], spec: WindowSpec) -> pd.DataFrame:
    """The windows of phases: one row each, in the phases' order, with :data:`WINDOW_COLUMNS`.

    Args:
        phases: each with the signals of its session; phases that ``spec`` does not name give no windows. Phases that
            follow each other and have one object of signals are looked at together.

    Returns:
        Columns that need signals that a session does not have are NA.
    """
    chosen = (pair for pair in phases if spec.phases is None or pair[0].phase in spec.phases)
    windows = [
        _session_windows([phase for phase, _ in pairs], spec, signals)
        for signals, pairs in itertools.groupby(chosen, key=itemgetter(1))
    ]
    return _one_frame(windows or [_no_windows()]).astype(dict(WINDOW_COLUMNS))


def _one_frame(sessions: Sequence[Mapping[str, np.ndarray]]) -> pd.DataFrame:
    """The windows of all sessions as one data frame. One for each session would cost more than its windows."""
    columns: dict[str, Any] = {}
    for name in sessions[0]:
        values = np.concatenate([windows[name] for windows in sessions])
        if name in ("session_id", "phase"):
            columns[name] = pd.Series(values, dtype="str")
        elif WINDOW_COLUMNS[name][0].isupper():  # may be missing
            columns[name] = pd.arrays.FloatingArray(values.astype(np.float64), np.isnan(values))
        else:
            columns[name] = values
    return pd.DataFrame(columns)


def _no_windows() -> dict[str, np.ndarray]:
    return _session_windows([PhaseSpan("", "", 0.0, 0.0)], WindowSpec(), SessionSignals())


def _session_windows(phases: Sequence[PhaseRow], spec: WindowSpec, signal: SessionSignals) -> dict[str, np.ndarray]:
    """The windows of phases of one session, by column; what a column needs is made once for all phases."""
    rate = signal.rate(spec.fps)
    frames = SessionFrames(signal.time, signal.header_fps or spec.fps)
    window = spec.frames(rate)
    spans = frames.between([(phase.start_s, phase.end_s) for phase in phases])
    if spec.window_s is not None and signal.end_s is not None:
        cut = [_without_frames(phase, spec, signal.end_s) for phase in phases]
    elif spec.window_s is not None and signal.time is not None and has_variable_rate(signal.time, rate):
        cut = [_of_their_seconds(phase, spec, frames, *span) for phase, span in zip(phases, spans, strict=True)]
    else:
        cut = [_of_equal_frames(phase, spec, frames, window, *span) for phase, span in zip(phases, spans, strict=True)]
    starts, stops, start_s, stop_s = (np.concatenate(parts) for parts in zip(*cut, strict=True))
    counts = [len(of_phase[0]) for of_phase in cut]
    start, stop = ticks(start_s), ticks(stop_s)
    sound = None if signal.audio_time is None else ticks(signal.audio_time)
    words = None if signal.word_start is None else np.sort(ticks(signal.word_start))
    audio_start, audio_stop = _positions(sound, start), _positions(sound, stop)
    return {
        "session_id": np.repeat(np.array([phase.session_id for phase in phases], object), counts),
        "phase": np.repeat(np.array([phase.phase for phase in phases], object), counts),
        "start_frame": starts,
        "stop_frame": stops,
        "start_s": start_s,
        "stop_s": stop_s,
        "audio_start": audio_start,
        "audio_stop": audio_stop,
        "sound_covered": np.minimum((audio_stop - audio_start) * AUDIO_HOP_S / (stop_s - start_s), 1),
        "face_tracked": _window_mean(signal.tracked, starts, stops),
        "face_confidence": _window_mean(signal.confidence, starts, stops),
        "words": _positions(words, stop) - _positions(words, start),
        "frames_expected": _missing(len(starts)) if signal.time is None else np.rint((stop_s - start_s) * rate),
        "longest_gap_s": frames.longest_gaps(starts, stops),
    }


_Cut = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""First frames, frames after the last, and from when to when each window of a phase is, in seconds."""


def _of_equal_frames(
    phase: PhaseRow, spec: WindowSpec, frames: SessionFrames, window: int, first: int, stop: int
) -> _Cut:
    """Windows that all have ``window`` frames, of the frames [first, stop)."""
    if spec.stride is not None:
        starts = first + spec.stride * np.arange(count_windows(stop - first, window, spec.stride))
    else:
        starts = _starts_in_seconds(phase.start_s, spec.stride_s or 1.0, (first, stop - window), frames)
    return starts, starts + window, frames.times(starts), frames.times(starts + window)


def _starts_in_seconds(begin_s: float, stride_s: float, within: tuple[int, int], frames: SessionFrames) -> np.ndarray:
    """The first frames at or after every stride from ``begin_s``, of those ``within`` the first and the last."""
    first, last = within
    if last < first or last < 0:
        return np.empty(0, int)
    first_s, last_s = frames.times(np.array([first, last]))
    begin_s = begin_s if math.isfinite(begin_s) else first_s
    starts = frames.at_or_after(begin_s + stride_s * np.arange(math.floor((last_s - begin_s) / stride_s + _NUDGE) + 1))
    starts = np.unique(starts)  # several strides into one gap begin with the same frame
    return starts[(starts >= first) & (starts <= last)]


def has_variable_rate(time: np.ndarray, rate: float) -> bool:
    """Whether a recording has so few frames for its camera's rate that windows of so many frames would last too long.

    Args:
        time: (T,) seconds of its frames.
        rate: of its camera, see :func:`storyframes.times.usual_rate`.
    """
    return len(time) > 1 and abs((len(time) - 1) / (time[-1] - time[0]) / rate - 1) > VARIABLE


def _of_their_seconds(phase: PhaseRow, spec: WindowSpec, frames: SessionFrames, first: int, stop: int) -> _Cut:
    """Windows that have the frames of just their seconds, of the frames [first, stop)."""
    window_s = spec.window_s or 0.0
    end_s = min(phase.end_s, float(frames.times(np.array([stop]))[0]))
    starts = _starts_in_seconds(phase.start_s, spec.stride_s or 1.0, (first, stop - 1), frames)
    starts = starts[ticks(frames.times(starts) + window_s) <= ticks(end_s)]
    start_s = frames.times(starts)
    return starts, frames.at_or_after(start_s + window_s), start_s, start_s + window_s


def _without_frames(phase: PhaseRow, spec: WindowSpec, end_s: float) -> _Cut:
    """Windows of a session without a video, whose frames are steps of ``1 / fps`` seconds."""
    window_s, stride_s, begin_s = spec.window_s or 0.0, spec.stride_s or 1.0, max(phase.start_s, 0.0)
    last_s = min(phase.end_s, end_s) - window_s
    count = 0 if math.isinf(last_s) else math.floor((last_s - begin_s) / stride_s + _NUDGE) + 1
    start_s = begin_s + stride_s * np.arange(max(count, 0))
    starts, first = np.unique(np.floor(start_s * spec.fps + _NUDGE).astype(int), return_index=True)
    return starts, starts + spec.frames(spec.fps), start_s[first], start_s[first] + window_s


def _missing(count: int) -> np.ndarray:
    return np.full(count, np.nan)


def _positions(times: np.ndarray | None, at: np.ndarray) -> np.ndarray:
    """How many of these times, ticks in order, are before each moment; NaN where there are none to count."""
    return _missing(len(at)) if times is None else np.searchsorted(times, at, side="left")


def _window_mean(values: np.ndarray | None, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """The mean of each window's values that are not NaN; NaN where all are."""
    if values is None:
        return _missing(len(starts))
    has_value = ~np.isnan(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(has_value, values, 0.0), dtype=np.float64)])
    count = np.concatenate([[0], np.cumsum(has_value)])
    counts = count[stops] - count[starts]
    return np.where(counts > 0, (total[stops] - total[starts]) / np.maximum(counts, 1), np.nan)
