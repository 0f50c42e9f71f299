"""Means of rows over the intervals of video frames, row block by row block; memory does not grow with the frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from storyframes.array_roles import PER_FRAME
from storyframes.store.publish import FeatureWriter
from storyframes.times import ticks
from tasks.extractors.frames import Clock


class FrameMeans:
    """The mean of the rows whose time lies in each frame's interval, given out as soon as it is known.

    A value that is NaN is none: each column's mean is over the rows that have a value in it.

    Args:
        frame_time: (T,) seconds, ascending; a frame lasts until the next one, the last until ``end_s``.
        end_s: seconds.
        columns: of a row.
    """

    def __init__(self, frame_time: np.ndarray, end_s: float, columns: int) -> None:
        self._edges = ticks(np.append(frame_time, end_s))
        self._frames = len(frame_time)
        self._given = 0
        # Of the next frame to be given out, whose rows may go on in the next block.
        self._sum, self._count = np.zeros(columns), np.zeros(columns, np.int64)

    def add(self, time: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Add rows: (n,) seconds, ascending and after those before, and their (n, columns) values.

        Returns:
            (m, columns) float32: the next frames, to which no further row can belong; NaN where no row of a frame has a
            value.
        """
        frame = np.searchsorted(self._edges, ticks(time), side="right") - 1
        inside = (frame >= 0) & (frame < self._frames)
        frame, values = frame[inside], values[inside]
        if len(frame) == 0:
            return self._give_out(self._given)
        first = np.flatnonzero(np.diff(frame, prepend=-1))  # of each frame's rows
        has_value = ~np.isnan(values)
        sums = np.add.reduceat(np.where(has_value, values, 0.0), first, axis=0, dtype=np.float64)
        return self._give_out(frame[-1], frame[first], sums, np.add.reduceat(has_value, first, axis=0, dtype=np.int64))

    def rest(self) -> np.ndarray:
        """The frames that are left, when there are no more rows."""
        return self._give_out(self._frames)

    def _give_out(
        self,
        stop: int,
        frames: np.ndarray | tuple[int, ...] = (),
        sums: np.ndarray | float = 0.0,
        counts: np.ndarray | int = 0,
    ) -> np.ndarray:
        """The means of the frames before ``stop``, after these sums and counts were added to those of ``frames``."""
        first, count = self._given, stop - self._given
        total, number = np.zeros((count + 1, len(self._sum))), np.zeros((count + 1, len(self._sum)), np.int64)
        total[0], number[0] = self._sum, self._count
        rows = np.asarray(frames, np.int64) - first
        total[rows] += sums
        number[rows] += counts
        self._given, self._sum, self._count = stop, total[count].copy(), number[count].copy()
        means = total[:count] / np.maximum(number[:count], 1)
        means[number[:count] == 0] = np.nan
        return means.astype(np.float32)


class FrameRows:
    """An array with a row for each frame, of a feature of sound: the means of its rows over each frame.

    Args:
        clock: of the frames.
        columns: of a row; empty where a row is one number.
        out: where the array is written.
        array: its name.
    """

    def __init__(self, clock: Clock, columns: Sequence[str], out: FeatureWriter, array: str = PER_FRAME) -> None:
        self._means = FrameMeans(clock.time, clock.end_s, max(len(columns), 1))
        self._is_one_number = not columns
        self._rows = out.array(array, columns) if columns else out.array(array)

    def add(self, time: np.ndarray, rows: np.ndarray) -> None:
        """Add rows: (n,) seconds, ascending and after those before, and their (n, columns) or (n,) values."""
        self._append(self._means.add(time, rows.reshape(len(rows), -1)))

    def finish(self) -> None:
        """Write the frames that are left, when there are no more rows."""
        self._append(self._means.rest())

    def _append(self, means: np.ndarray) -> None:
        self._rows.append(means[:, 0] if self._is_one_number else means)
