"""What the times of a recording's frames say: how far they are apart, when the last one ends, whether sound fits."""

from __future__ import annotations

import numpy as np

SOUND_FITS_S = 0.5  # sound that begins and ends this close to the picture fits it; coders pad by a few hundredths

_LAG = 30  # frames: over so many the rounding of two times is a few ten-thousandths of the rate


def usual_step_s(time: np.ndarray, otherwise: float = 0.0) -> float:
    """Seconds from a frame to the next: the median. ``otherwise`` where fewer than two frames tell none."""
    return float(np.median(np.diff(time))) if len(time) > 1 else otherwise


def usual_rate(time: np.ndarray, otherwise: float) -> float:
    """Frames per second, as they usually come: gaps do not lower it, times in whole milliseconds do not shift it.

    Args:
        time: (T,) seconds at which the frames are shown.
        otherwise: where fewer than two frames tell none.
    """
    lag = min(len(time) - 1, _LAG)
    if lag < 1:
        return otherwise
    over = float(np.median(time[lag:] - time[:-lag]))
    return lag / over if over > 0 else otherwise


def last_frame_end_s(time: np.ndarray, otherwise: float = 0.0) -> float:
    """When the last frame ends, seconds: the usual step after it begins.

    Args:
        time: (T,) seconds at which the frames are shown. Of no frames the last one ends at 0.
        otherwise: for how long a single frame is shown.
    """
    return float(time[-1]) + usual_step_s(time, otherwise) if len(time) else 0.0
