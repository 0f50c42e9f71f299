"""Fewer points for long curves: the smallest and the largest value of every bucket are kept, so no peak is lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from storyframes import last_frame_end_s

BUCKETS = 1000  # one for each pixel of a timeline on a wide screen


@dataclass(frozen=True)
class Thinned:
    """A curve as it is drawn."""

    x: np.ndarray  # (n,) float32
    y: np.ndarray  # (n,) float32; NaN is a gap
    rows: int  # in each bucket; 1 where every row is drawn


def thin(time: np.ndarray, values: np.ndarray) -> Thinned:
    """At most ``2 * BUCKETS`` points of a curve, every extreme among them.

    Args:
        time: (n,) seconds.
        values: (n,), NaN where there is none. A bucket without any value is a gap.
    """
    rows = rows_per_bucket(len(values))
    if rows == 1:
        return Thinned(time.astype(np.float32), values.astype(np.float32), 1)
    table = _bucketed(values, rows)
    empty = np.isnan(table).all(axis=1)
    low = np.where(np.isnan(table), np.inf, table).argmin(axis=1)
    high = np.where(np.isnan(table), -np.inf, table).argmax(axis=1)
    at = np.sort(np.stack([low, high], axis=1), axis=1) + rows * np.arange(len(table))[:, None]
    at = np.minimum(at, len(values) - 1).ravel()
    y = values[at].astype(np.float32)
    y[np.repeat(empty, 2)] = np.nan
    return Thinned(time[at].astype(np.float32), y, rows)


def bucket_max(time: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The largest value of each bucket, for a strip of colours.

    Args:
        time: (n,) seconds.
        values: (n, columns), NaN where missing.

    Returns:
        The times of the buckets (see :func:`cell_edges`), their maxima (columns, m) float32, and the rows in each.
    """
    rows = rows_per_bucket(len(values))
    table = np.stack([_bucketed(column, rows) for column in values.T])
    empty = np.isnan(table).all(axis=2)
    maxima = np.where(np.isnan(table), -np.inf, table).max(axis=2)
    maxima[empty] = np.nan
    return cell_edges(time[::rows], last_frame_end_s(time), rows), maxima.astype(np.float32), rows


def bucket_mean(time: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The mean of each bucket; everything else as in :func:`bucket_max`, but ``values`` has no NaN."""
    rows = rows_per_bucket(len(values))
    means = np.stack([np.nanmean(_bucketed(column, rows), axis=1) for column in values.T])
    return cell_edges(time[::rows], last_frame_end_s(time), rows), means.astype(np.float32), rows


def cell_edges(starts: np.ndarray, end_s: float, rows: int) -> np.ndarray:
    """The times of coloured cells for plotly, float32, from the time of each cell's first row (m,) and the end.

    Cells of one row are at the times of their rows (m,), as in a curve. For larger cells plotly needs the edges
    (m + 1,): around the time of its first row a cell would be drawn half its length too early.
    """
    return (starts if rows == 1 else np.append(starts, end_s)).astype(np.float32)


def rows_per_bucket(rows: int) -> int:
    """1 where every row can be drawn, two to a bucket; else the number of rows in a bucket."""
    return 1 if rows <= 2 * BUCKETS else -(-rows // BUCKETS)


def _bucketed(values: np.ndarray, rows: int) -> np.ndarray:
    """(m, rows) float64, the last row filled up with NaN."""
    count = -(-len(values) // rows)
    table = np.full(count * rows, np.nan)
    table[: len(values)] = values
    return table.reshape(count, rows)
