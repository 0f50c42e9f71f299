"""What the times of a recording's frames say: how far they are apart, when the last one ends, whether sound fits."""

from __future__ import annotations

import numpy as np

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
