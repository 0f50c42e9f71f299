"""Times: whole microseconds (ticks), the row nearest to a moment, a recording's rate, and the clocks of devices.

Times are compared as whole microseconds, so that a binary fraction never decides on which side of a limit a row is. A
row of sound that begins with a frame belongs to that frame, but in float64 row 35 begins at ``35 * 0.01``, slightly
more than the 0.35 s of its frame; sums of an offset and a step are worse, and move some per cent of the rows.

Clips, tables and exports put rows on a grid of one rate by one rule: a row is near enough to a point if it is at most
half a step of the coarser of both away, plus a millisecond, to which containers round. Of rows that are equally near,
the first is taken. Of words that are spoken at the same time, a point has the one that began last.

A device's clock is piecewise linear in the session's seconds. It is given by moments that both clocks have: one moment
gives an offset, two give a drift as well, and more give several pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

PER_SECOND = 1_000_000
_FURTHEST = 4.0e18  # int64 ends at 9.2e18; a time that is no time (epoch microseconds, say) must not wrap round


def ticks(seconds: ArrayLike) -> np.ndarray:
    """Seconds, to the nearest microsecond: int64 of the same shape."""
    return np.clip(np.rint(np.asarray(seconds, np.float64) * PER_SECOND), -_FURTHEST, _FURTHEST).astype(np.int64)


# --- rows nearest to the points of a grid ---

ROUNDING = PER_SECOND // 1000
"""Ticks by which two times may differ because a container counts milliseconds, as Matroska does."""


def grid_points(count: int, rate: float) -> np.ndarray:
    """(count,) ticks from the beginning of a grid to each of its points, ``rate`` a second."""
    return np.rint(np.arange(count) * (PER_SECOND / rate)).astype(np.int64)


def usual_step(time: np.ndarray, where: str) -> float:
    """The median of the steps from one row to the next, ticks; 0 for a single row.

    Args:
        time: (n,) ticks.
        where: the array of these times, for the message.

    Raises:
        ValueError: a row is earlier than the one before it.
    """
    steps = np.diff(time)
    if (steps < 0).any():
        row = int(np.argmax(steps < 0)) + 1
        raise ValueError(f"{where}/time: row {row} is earlier than the one before it: extract it again")
    return float(np.median(steps)) if len(steps) else 0.0


def tolerance(step: float, rows_step: float) -> int:
    """Ticks by which a row may differ from a point, given the usual steps of points and of rows."""
    return int(max(step, rows_step) / 2) + ROUNDING


def nearest_rows(time: np.ndarray, points: np.ndarray, tolerance: int) -> tuple[np.ndarray, np.ndarray]:
    """The row nearest to each point, and whether it is near enough.

    Args:
        time: (n,) of the rows, in order, at least one; ticks.
        points: of any shape, ticks.
        tolerance: the largest difference of a row that is near enough.

    Returns:
        int64 and bool of the points' shape.
    """
    after = np.searchsorted(time, points)
    before = np.searchsorted(time, time[np.maximum(after - 1, 0)])  # of rows with one time the first
    after = np.minimum(after, len(time) - 1)
    rows = np.where(np.abs(points - time[before]) <= np.abs(time[after] - points), before, after)
    return rows, np.abs(points - time[rows]) <= tolerance


def spoken_rows(start: np.ndarray, end: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(k,) int32: the word or utterance that is spoken at each point, -1 for none.

    Args:
        start, end: (n,) when each begins and ends, ticks.
        points: (k,) in order, ticks.
    """
    rows = np.full(len(points), -1, np.int32)
    if not len(points):
        return rows
    overlapping = np.flatnonzero((start <= points[-1]) & (end > points[0]))
    for row in overlapping[np.argsort(start[overlapping], kind="stable")]:
        first, stop = np.searchsorted(points, (start[row], end[row]))
        rows[first:stop] = row
    return rows


# --- the times of a recording's frames ---

SOUND_FITS_S = 0.5  # sound that begins and ends this close to the picture fits it; coders pad by a few hundredths

_LAG = 30  # frames: over so many the rounding of two times is a few ten-thousandths of the rate
_MOST_LOST = 10  # steps: a longer gap is a pause, of which nobody knows how many frames it cost
_FASTEST = 240.0  # frames per second: cameras give no more, times of frames that arrive in bursts do


def usual_step_s(time: np.ndarray, otherwise: float = 0.0) -> float:
    """The median of the seconds from a frame to the next; ``otherwise`` for fewer than two frames."""
    return float(np.median(np.diff(time))) if len(time) > 1 else otherwise


def usual_rate(time: np.ndarray, otherwise: float) -> float:
    """Frames per second of the camera: lost frames and pauses do not lower it, rounding does not shift it.

    It is the median over runs of 30 frames. A gap of two to ten single steps (:func:`_single_step`) counts as so many
    steps; longer gaps, and those of no whole number of steps, are left out. Frames that arrive in bursts or at random
    have no such step; then it is the median over any 30 frames. A camera that loses every second frame appears to have
    half its rate, because its times are the same.

    Args:
        time: (T,) seconds at which the frames are shown, in order.
        otherwise: the rate of fewer than two frames.
    """
    steps = np.diff(time)
    if not (steps > 0).any():
        return otherwise
    counts, is_pause = _count_steps(steps)
    number = np.append(0, np.cumsum(counts))
    run = np.append(0, np.cumsum(is_pause))
    lag = min(_LAG, int(np.bincount(run).max()) - 1)
    together = run[lag:] == run[:-lag]
    frames, seconds = (number[lag:] - number[:-lag])[together], (time[lag:] - time[:-lag])[together]
    rates = frames[seconds > 0] / seconds[seconds > 0]
    return float(np.median(rates)) if len(rates) else otherwise


def _count_steps(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of single steps in each step between two frames, and which steps are pauses of unknown length."""
    one_each, no_pauses = np.ones(len(steps)), np.zeros(len(steps), bool)
    single = _single_step(steps)
    if single * _FASTEST < 1:
        return one_each, no_pauses
    for _ in range(3):  # short gaps say more exactly how long a single step is
        length = steps / single
        # A late frame is no gap: the step before it or after it is shorter by as much.
        beside = np.concatenate([[np.inf], length[1:] + length[:-1], [np.inf]])
        is_gap = (length > 1.6) & (np.minimum(beside[1:], beside[:-1]) > 2.5)
        counts = np.where(is_gap, np.rint(length), 1)
        is_short = counts < 5
        single = float(steps[is_short].sum() / counts[is_short].sum())
    off = np.abs(length - counts)
    is_pause = is_gap & ((off > 0.4) | (counts > _MOST_LOST))
    short = is_gap & (length < 4.5)
    are_no_multiples = short.sum() > max(7, 0.05 * len(steps)) and off[short].mean() > 0.19  # by chance 0.25
    are_bursts = is_pause.sum() > 2 and is_pause.mean() > 0.1 and 2 * steps[is_pause].sum() > steps.sum()
    if are_no_multiples or are_bursts or counts[~is_pause].mean() > 2.5:
        return one_each, no_pauses
    return counts, is_pause


def _single_step(steps: np.ndarray) -> float:
    """The shortest usual step: a third of all steps or more are within 45 % of it."""
    single = float(np.quantile(steps, 1 / 3, method="lower"))
    return float(steps[np.abs(steps - single) <= 0.45 * single].mean())


def last_frame_end_s(time: np.ndarray, otherwise: float = 0.0) -> float:
    """When the last frame ends, seconds: the usual step after it begins.

    Args:
        time: (T,) seconds at which the frames are shown. Without frames the result is 0.
        otherwise: the duration of a single frame.
    """
    return float(time[-1]) + usual_step_s(time, otherwise) if len(time) else 0.0


# --- the clocks of devices ---

# Crystals are off by some tens of millionths; a thousand is another recording, or a slip of the pen.
ABSURD_PPM = 1000.0


@dataclass(frozen=True)
class Clock:
    """One device's clock.

    Attributes:
        clock_s: (n,) moments in seconds of the device, increasing.
        session_s: (n,) the same moments in seconds of the session, increasing.

    Example:
        >>> Clock("lapel", clock_s=(0.0, 100.0), session_s=(2.0, 102.01)).to_session([50.0]).tolist()
        [52.005]
    """

    SESSION: ClassVar[Clock]  # of files without one of their own

    name: str
    clock_s: tuple[float, ...] = (0.0,)
    session_s: tuple[float, ...] = (0.0,)

    @property
    def stored(self) -> list[list[float]]:
        """Its moments in the form of a clip index."""
        return [list(self.clock_s), list(self.session_s)]

    def to_session(self, clock_s: ArrayLike) -> NDArray[np.float64]:
        """Seconds of the session for seconds of the device, of any shape; the outer pieces continue beyond the ends."""
        return _along(clock_s, self.clock_s, self.session_s)

    def to_device(self, session_s: ArrayLike) -> NDArray[np.float64]:
        """Seconds of the device for seconds of the session, of any shape; the outer pieces continue beyond the ends."""
        return _along(session_s, self.session_s, self.clock_s)

    @property
    def drifts_ppm(self) -> tuple[float, ...]:
        """(n - 1,) the drift of each piece in millionths, positive where the device runs fast."""
        device, session = np.diff(self.clock_s), np.diff(self.session_s)
        return tuple(((device / session - 1) * 1e6).tolist())

    @property
    def is_the_sessions(self) -> bool:
        """Whether its seconds are the session's."""
        return self.clock_s == self.session_s


SESSION_CLOCK = Clock.SESSION = Clock("session")
"""The clock of files without one of their own: its seconds are the session's."""


@dataclass(frozen=True)
class TrackClock:
    """The clock of one track's device in each session.

    Attributes:
        clocks: by session; None for the sessions' own track, whose seconds are the sessions'.
    """

    clocks: Mapping[str, Clock] | None = None

    def is_known(self, session_id: str) -> bool:
        """Whether the device's clock in this session is known."""
        return self.clocks is None or session_id in self.clocks

    def is_the_sessions(self, session_id: str) -> bool:
        """Whether the device's seconds are the session's."""
        return self.clocks is None or self.clocks[session_id].is_the_sessions

    def to_device(self, session_id: str, session_s: ArrayLike) -> NDArray[np.float64]:
        """Seconds of the device for seconds of the session, of any shape."""
        if self.clocks is None or self.is_the_sessions(session_id):
            return np.asarray(session_s, np.float64)
        return self.clocks[session_id].to_device(session_s)

    def to_session(self, session_id: str, clock_s: ArrayLike) -> NDArray[np.float64]:
        """Seconds of the session for seconds of the device, of any shape."""
        if self.clocks is None or self.is_the_sessions(session_id):
            return np.asarray(clock_s, np.float64)
        return self.clocks[session_id].to_session(clock_s)

    def device_ticks(self, session_id: str, session_s: ArrayLike) -> NDArray[np.int64]:
        """:meth:`to_device` in whole microseconds."""
        return ticks(self.to_device(session_id, session_s))


SESSIONS_OWN = TrackClock()
"""The clock of the sessions' own files."""

StoredClocks = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
"""By session and track, the moments of a clock in seconds of the device and of the session, as in a clip index."""


def track_clock(stored: StoredClocks, track: str) -> TrackClock:
    """A track's clock in every session of a clip index that has the track."""
    of_track = {session: tracks[track] for session, tracks in stored.items() if track in tracks}
    return TrackClock({session: Clock(track, tuple(here), tuple(there)) for session, (here, there) in of_track.items()})


def _along(at: ArrayLike, moments: tuple[float, ...], values: tuple[float, ...]) -> NDArray[np.float64]:
    """The piecewise linear function through these points, at ``at``; its outer pieces continue beyond the ends."""
    asked = np.asarray(at, np.float64)
    if len(moments) == 1:
        return asked - moments[0] + values[0]
    if len(moments) == 2:
        return values[0] + (asked - moments[0]) * ((values[1] - values[0]) / (moments[1] - moments[0]))
    x, y = np.asarray(moments, np.float64), np.asarray(values, np.float64)
    piece = np.clip(np.searchsorted(x, asked, side="right") - 1, 0, len(x) - 2)
    slope = (y[piece + 1] - y[piece]) / (x[piece + 1] - x[piece])
    result = y[piece] + (asked - x[piece]) * slope
    # Rounding must not lift the end of a piece above the beginning of the next one.
    return np.where(piece < len(x) - 2, np.minimum(result, y[piece + 1]), result)
