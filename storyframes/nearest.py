"""Which row stands for a moment: the one rule by which clips, tables and exports put rows on a grid of one rate.

Moments and rows are compared as whole microseconds (:mod:`storyframes.ticks`). A row is near enough to stand for a
point if it is no further off than half a step of the coarser of both, and a millisecond, to which containers round. Of
rows that are equally far, the first one is taken. Of words that are spoken at once a point has that which began
last.
"""

from __future__ import annotations

import numpy as np

from storyframes.ticks import PER_SECOND

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
