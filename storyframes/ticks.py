"""Times as whole microseconds: what is compared, so that a binary fraction never decides on which side a row lies.

A row of sound that begins with a frame is that frame's. In float64 row 35 begins at ``35 * 0.01``, which is a little
more than the 0.35 s of its frame, and sums of an offset and a step are worse: some per cent of the rows change sides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PER_SECOND = 1_000_000
_FURTHEST = 4.0e18  # int64 ends at 9.2e18; a time that is no time (epoch microseconds, say) must not wrap round


def ticks(seconds: npt.ArrayLike) -> np.ndarray:
    """Seconds, to the nearest microsecond: int64 of the same shape."""
    return np.clip(np.rint(np.asarray(seconds, np.float64) * PER_SECOND), -_FURTHEST, _FURTHEST).astype(np.int64)
