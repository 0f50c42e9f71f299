"""Tables of boxes: where a region of a picture is, moment by moment, and when nobody is seen in it.

A table (CSV or Parquet) has the columns ``time_s`` (seconds of the recording, increasing) and ``x``, ``y``, ``w``,
``h`` (fractions of the upright picture: left, top, width, height). From a row without a box on nobody is seen, until
the next row. The optional column ``doubtful`` is true from where on the box may be somebody else's, until the next row.
Other columns are not read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storyframes.times import PER_SECOND, ticks
from tasks.study.problems import UnusableFileError
from tasks.study.strict_tables import MeasurementsError, is_empty, number_in, read_measurements

_BOX = ("x", "y", "w", "h")
_COLUMNS = ("time_s", *_BOX)
_FARTHEST = 2.0  # a box further than a picture's side outside the picture, or larger than two, is in another unit
_SHARED = 0.5
_TRUE, _FALSE = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no", "")


class BoxesError(UnusableFileError):
    """The file is no table of boxes; the message names the file, the row, the value and the rule."""


@dataclass(frozen=True)
class Boxes:
    """The content of a table of boxes."""

    time_s: NDArray[np.float64]  # (n,) seconds of the recording, increasing
    box: NDArray[np.float64]  # (n, 4) x, y, w, h as fractions of the upright picture; NaN from where nobody is seen
    doubtful: NDArray[np.bool_]  # (n,) whether the box may be somebody else's until the next row
    remarks: tuple[str, ...] = ()  # what is unusual about the file, and how it was read all the same

    @staticmethod
    def read(path: Path) -> Boxes:
        """The table of boxes at ``path`` (.csv or .parquet).

        Raises:
            BoxesError: it cannot be read, or a row has a fault.
        """
        try:
            rows, remarks = read_measurements(path, _COLUMNS, "a table of boxes", ("doubtful",))
        except MeasurementsError as error:
            raise BoxesError(str(error)) from None
        time_s, box, doubtful = np.empty(len(rows)), np.empty((len(rows), 4)), np.zeros(len(rows), bool)
        for index, (number, cells) in enumerate(rows):
            where = f"{path.name}: row {number}"
            time_s[index] = _finite(where, "time_s", cells)
            if index and time_s[index] <= time_s[index - 1]:
                raise BoxesError(
                    f"{where}, time_s = {time_s[index]:g}: must be after the row before it, at "
                    f"{time_s[index - 1]:g} s: sort the table by time"
                )
            box[index] = _box(where, cells)
            doubtful[index] = _is_doubtful(where, cells.get("doubtful"))
        return Boxes(time_s, box, doubtful, tuple(remarks))

    def at(self, time_s: NDArray[np.float64], frame_s: float) -> NDArray[np.float64]:
        """The boxes at other moments, (T, 4): interpolated between two rows with boxes; NaN where nobody is seen.

        Args:
            time_s: (T,) seconds of the recording.
            frame_s: how long before the first row and after the last one their boxes hold.

        Example:
            >>> boxes = Boxes(np.array([0.0, 1.0]), np.array([[0, 0, 0.5, 1], [0.2, 0, 0.5, 1]]), np.zeros(2, bool))
            >>> boxes.at(np.array([0.5, 3.0]), 0.04)[:, 0].tolist()
            [0.1, nan]
        """
        own, asked, slack = ticks(self.time_s), ticks(time_s), round(frame_s * PER_SECOND)
        left = np.clip(np.searchsorted(own, asked, side="right") - 1, 0, len(own) - 1)
        right = np.minimum(left + 1, len(own) - 1)
        right = np.where(np.isnan(self.box[right, 0]) | (asked <= own[left]), left, right)
        span = np.maximum(own[right] - own[left], 1)
        share = np.where(right > left, (asked - own[left]) / span, 0.0)[:, None]
        boxes = self.box[left] + share * (self.box[right] - self.box[left])
        boxes[(asked < own[0] - slack) | (asked > own[-1] + slack)] = np.nan
        return boxes

    @property
    def doubtful_s(self) -> list[tuple[float, float]]:
        """The stretches that are doubtful, see :meth:`stretches`."""
        return self.stretches(self.doubtful)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """(n,) whether somebody is seen until the next row."""
        return ~np.isnan(self.box[:, 0])

    def stretches(self, rows: NDArray[np.bool_]) -> list[tuple[float, float]]:
        """The stretches of these rows (n,), each until the next row, as seconds [start, end)."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], rows, [False]]).astype(np.int8)))
        ends = np.append(self.time_s, self.time_s[-1])
        return [(float(self.time_s[first]), float(ends[stop])) for first, stop in edges.reshape(-1, 2)]

    def seconds(self, rows: NDArray[np.bool_]) -> float:
        """How long these stretches are together."""
        return sum((end - start for start, end in self.stretches(rows)), start=0.0)

    def shares(self, other: Boxes, time_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether it overlaps another region at these moments (n,) by more than half of the smaller.

        A tool that finds faces by itself may take the same one in both there.

        Example:
            >>> left, right = (Boxes(np.zeros(1), np.array([[x, 0, 0.4, 1]]), np.zeros(1, bool)) for x in (0.3, 0.45))
            >>> left.shares(right, np.zeros(1)).tolist()
            [True]
        """
        a, b = self.at(time_s, 0), other.at(time_s, 0)
        sides = np.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
        smaller = np.minimum(a[:, 2:].prod(axis=1), b[:, 2:].prod(axis=1))
        shared: NDArray[np.bool_] = np.maximum(sides, 0).prod(axis=1) > _SHARED * smaller  # NaN, nobody is seen: not
        return shared


def in_words(stretches: list[tuple[float, float]]) -> str:
    """Doubtful stretches as text: the first five with their times.

    Example:
        >>> in_words([(1.0, 2.5), (4.0, 4.0)])
        '1.00 to 2.50 s, 4.00 s'
    """
    named = [f"{start:.2f} to {end:.2f} s" if end > start else f"{start:.2f} s" for start, end in stretches[:5]]
    return ", ".join(named) + (f" and {len(stretches) - 5} more" if len(stretches) > 5 else "")


def _box(where: str, cells: dict[str, Any]) -> list[float]:
    if all(is_empty(cells[column]) for column in _BOX):
        return [math.nan] * 4
    x, y, w, h = (_finite(where, column, cells) for column in _BOX)
    for column, side in (("w", w), ("h", h)):
        if not 0 < side <= _FARTHEST:
            raise BoxesError(
                f"{where}, {column} = {side:g}: must be above 0, a fraction of the picture's side, not pixels"
            )
    for column, start, side in (("x", x, w), ("y", y, h)):
        if start < -_FARTHEST or start + side > 1 + _FARTHEST:
            raise BoxesError(f"{where}, {column} = {start:g}: must be a fraction of the picture's side, not pixels")
    return [x, y, w, h]


def _finite(where: str, column: str, cells: dict[str, Any]) -> float:
    number = number_in(cells[column])
    if not math.isfinite(number):
        rule = "must be a finite number, with a decimal point"
        raise BoxesError(
            f"{where}, {column}: {rule}{'' if column == 'time_s' else '; of a row without a box, all four are empty'}"
        )
    return number


def _is_doubtful(where: str, cell: object) -> bool:
    text = "" if is_empty(cell) else str(cell).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise BoxesError(f"{where}, doubtful: must be true or false")
    return text in _TRUE
