"""The clock of a device: how its seconds become the session's.

A device that began later is some seconds behind; one whose crystal is not as fast as the session's drifts. Both are
said by moments that both clocks have: one is an offset, two are a drift as well, more are a line of several pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


SESSION_CLOCK = Clock("session")
"""The clock of whatever has none of its own: its seconds are the session's."""


def _along(at: ArrayLike, known: tuple[float, ...], values: tuple[float, ...]) -> NDArray[np.float64]:
    """The line through these points at ``at``, its first and last piece going on for ever."""
    x, y = np.asarray(known, np.float64), np.asarray(values, np.float64)
    asked = np.asarray(at, np.float64)
    if len(x) == 1:
        return asked - x[0] + y[0]
    piece = np.clip(np.searchsorted(x, asked, side="right") - 1, 0, len(x) - 2)
    slope = (y[piece + 1] - y[piece]) / (x[piece + 1] - x[piece])
    found = y[piece] + (asked - x[piece]) * slope
    # Rounding must not lift the end of a piece above the beginning of the next one.
    return np.where(piece < len(x) - 2, np.minimum(found, y[piece + 1]), found)
