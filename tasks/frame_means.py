"""Means of rows over the intervals of video frames, row block by row block."""

from __future__ import annotations

import numpy as np

from storyframes.ticks import ticks


class FrameMeans:
    """The mean of the rows whose time lies in each frame's interval.

    Args:
        frame_time: (T,) seconds, ascending; a frame lasts until the next one, the last until ``end_s``.
        end_s: seconds.
        columns: of a row.
    """

    def __init__(self, frame_time: np.ndarray, end_s: float, columns: int) -> None:
        self._edges = ticks(np.append(frame_time, end_s))
        self._sums = np.zeros((len(frame_time), columns))
        self._counts = np.zeros(len(frame_time), np.int64)

    def add(self, time: np.ndarray, values: np.ndarray) -> None:
        """Add rows: (n,) seconds, ascending, and their (n, columns) values."""
        frame = np.searchsorted(self._edges, ticks(time), side="right") - 1
        inside = (frame >= 0) & (frame < len(self._sums))
        frame, values = frame[inside], values[inside]
        if len(frame) == 0:
            return
        first = np.flatnonzero(np.diff(frame, prepend=-1))  # of each frame's rows
        self._sums[frame[first]] += np.add.reduceat(values.astype(np.float64), first, axis=0)
        self._counts[frame[first]] += np.diff(np.append(first, len(frame)))

    def means(self) -> np.ndarray:
        """(T, columns) float32, NaN where no row lies in the frame's interval."""
        means = self._sums / np.maximum(self._counts, 1)[:, None]
        means[self._counts == 0] = np.nan
        return means.astype(np.float32)
