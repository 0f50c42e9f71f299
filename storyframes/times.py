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

import numpy as np
from numpy.typing import ArrayLike, NDArray

PER_SECOND = 1_000_000
_FURTHEST = 4.0e18  # int64 ends at 9.2e18; a time that is no time (epoch microseconds, say) must not wrap round


def ticks(seconds: ArrayLike) -> np.ndarray:
    """Seconds, to the nearest microsecond: int64 of the same shape."""
    return np.clip(np.rint(np.asarray(seconds, np.float64) * PER_SECOND), -_FURTHEST, _FURTHEST).astype(np.int64)


# --- rows nearest to the points of a grid ---

ROUNDING = PER_SECOND // 1000
"""Ticks by which two times may be off because a container counts milliseconds, as Matroska does."""


def grid_points(count: int, rate: float) -> np.ndarray:
    """(count,) ticks from the beginning of a grid to each of its points, ``rate`` a second."""
    return np.rint(np.arange(count) * (PER_SECOND / rate)).astype(np.int64)


def usual_step(time: np.ndarray, where: str) -> float:
    """From one row to the next, as it usually is: ticks; 0 of a single row.

    Args:
        time: (n,) ticks.
        where: whose these are, for the message.

    Raises:
        ValueError: they do not rise.
    """
    steps = np.diff(time)
    if (steps < 0).any():
        row = int(np.argmax(steps < 0)) + 1
        raise ValueError(f"{where}/time: row {row} is earlier than the one before it: extract it again")
    return float(np.median(steps)) if len(steps) else 0.0


def tolerance(step: float, rows_step: float) -> int:
    """Ticks by which a row may be off a point, where points and rows usually are so many ticks apart."""
    return int(max(step, rows_step) / 2) + ROUNDING


def nearest_rows(time: np.ndarray, points: np.ndarray, tolerance: int) -> tuple[np.ndarray, np.ndarray]:
    """The row nearest to each point, and whether it is near enough.

    Args:
        time: (n,) of the rows, in order, at least one; ticks.
        points: of any shape, ticks.
        tolerance: how far off a row may be.

    Returns:
        int64 and bool of the points' shape.
    """
    after = np.searchsorted(time, points)
    before = np.searchsorted(time, time[np.maximum(after - 1, 0)])  # of rows with one time the first
    after = np.minimum(after, len(time) - 1)
    rows = np.where(np.abs(points - time[before]) <= np.abs(time[after] - points), before, after)
    return rows, np.abs(points - time[rows]) <= tolerance


def spoken_rows(start: np.ndarray, end: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(k,) int32: of each point the word or utterance that is spoken then, -1 for none.

    Args:
        start, end: (n,) when each begins and ends, ticks.
        points: (k,) in order, ticks.
    """
    found = np.full(len(points), -1, np.int32)
    if not len(points):
        return found
    overlapping = np.flatnonzero((start <= points[-1]) & (end > points[0]))
    for row in overlapping[np.argsort(start[overlapping], kind="stable")]:
        first, stop = np.searchsorted(points, (start[row], end[row]))
        found[first:stop] = row
    return found


# --- the times of a recording's frames ---

SOUND_FITS_S = 0.5  # sound that begins and ends this close to the picture fits it; coders pad by a few hundredths

_LAG = 30  # frames: over so many the rounding of two times is a few ten-thousandths of the rate
_MOST_LOST = 10  # steps: a longer gap is a pause, of which nobody knows how many frames it cost
_FASTEST = 240.0  # frames per second: cameras give no more, times of frames that arrive in bursts do


def usual_step_s(time: np.ndarray, otherwise: float = 0.0) -> float:
    """Seconds from a frame to the next: the median. ``otherwise`` where fewer than two frames tell none."""
    return float(np.median(np.diff(time))) if len(time) > 1 else otherwise


def usual_rate(time: np.ndarray, otherwise: float) -> float:
    """Frames per second, as the camera takes them: lost frames and pauses do not lower it, rounding does not shift it.

    It is the median over 30 frames that follow each other. A gap of two to ten single steps (:func:`_single_step`)
    counts as so many; longer ones, and those of no whole number of steps, are left out. Where the frames have no such
    step, because they arrive in bursts or at random, it is the median over 30 frames whatever is between them. A
    camera that loses every second frame has half its rate: nothing in its times says otherwise.

    Args:
        time: (T,) seconds at which the frames are shown, in order.
        otherwise: where fewer than two frames tell none.
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
    """How many single steps each step between two frames is, and which are pauses, of unknown many."""
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
    """The shortest step that is usual: about which, within 45 %, a third of all steps or more are."""
    single = float(np.quantile(steps, 1 / 3, method="lower"))
    return float(steps[np.abs(steps - single) <= 0.45 * single].mean())


def last_frame_end_s(time: np.ndarray, otherwise: float = 0.0) -> float:
    """When the last frame ends, seconds: the usual step after it begins.

    Args:
        time: (T,) seconds at which the frames are shown. Of no frames the last one ends at 0.
        otherwise: for how long a single frame is shown.
    """
    return float(time[-1]) + usual_step_s(time, otherwise) if len(time) else 0.0


# --- the clocks of devices ---

# Crystals are off by some tens of millionths; a thousand is another recording, or a slip of the pen.
ABSURD_PPM = 1000.0


@dataclass(frozen=True)
class Clock:
    """One device's clock.

    Attributes:
        name: the clock's.
        clock_s: (n,) moments as the device has them, increasing.
        session_s: (n,) the same moments in seconds of the session, increasing.
    """

    name: str
    clock_s: tuple[float, ...] = (0.0,)
    session_s: tuple[float, ...] = (0.0,)

    def to_session(self, clock_s: ArrayLike) -> NDArray[np.float64]:
        """Seconds of the session for seconds of the device, of any shape; beyond the ends as in the piece there."""
        return _along(clock_s, self.clock_s, self.session_s)

    def to_device(self, session_s: ArrayLike) -> NDArray[np.float64]:
        """Seconds of the device for seconds of the session, of any shape; beyond the ends as in the piece there."""
        return _along(session_s, self.session_s, self.clock_s)

    @property
    def drifts_ppm(self) -> tuple[float, ...]:
        """(n - 1,) of each piece: millionths by which the device's seconds are too many; negative: too few."""
        device, session = np.diff(self.clock_s), np.diff(self.session_s)
        return tuple(((device / session - 1) * 1e6).tolist())

    @property
    def is_the_sessions(self) -> bool:
        """Whether its seconds are the session's."""
        return self.clock_s == self.session_s


SESSION_CLOCK = Clock("session")
"""The clock of whatever has none of its own: its seconds are the session's."""


@dataclass(frozen=True)
class TrackClock:
    """How one track's device counts, in each session.

    Attributes:
        clocks: by session; None where the track is the sessions' own, whose seconds these are.
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
"""Of the sessions' own files."""

StoredClocks = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
"""By session and track the clock's moments on the device, and the same in the session: what a clip index says."""


def stored_clock(clock: Clock) -> list[list[float]]:
    """A clock as a clip index has it."""
    return [list(clock.clock_s), list(clock.session_s)]


def track_clock(stored: StoredClocks, track: str) -> TrackClock:
    """A track's clock in every session of a clip index that has the track."""
    of_track = {session: tracks[track] for session, tracks in stored.items() if track in tracks}
    return TrackClock({session: Clock(track, tuple(here), tuple(there)) for session, (here, there) in of_track.items()})


def _along(at: ArrayLike, known: tuple[float, ...], values: tuple[float, ...]) -> NDArray[np.float64]:
    """The line through these points at ``at``, its first and last piece going on for ever."""
    asked = np.asarray(at, np.float64)
    if len(known) == 1:
        return asked - known[0] + values[0]
    if len(known) == 2:
        return values[0] + (asked - known[0]) * ((values[1] - values[0]) / (known[1] - known[0]))
    x, y = np.asarray(known, np.float64), np.asarray(values, np.float64)
    piece = np.clip(np.searchsorted(x, asked, side="right") - 1, 0, len(x) - 2)
    slope = (y[piece + 1] - y[piece]) / (x[piece + 1] - x[piece])
    found = y[piece] + (asked - x[piece]) * slope
    # Rounding must not lift the end of a piece above the beginning of the next one.
    return np.where(piece < len(x) - 2, np.minimum(found, y[piece + 1]), found)
