"""The clock of a device: how its seconds become the session's.

A device that began later is some seconds behind; one whose crystal is not as fast as the session's drifts. Both are
said by moments that both clocks have: one is an offset, two are a drift as well, more are a line of several pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from storyframes.ticks import ticks

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
