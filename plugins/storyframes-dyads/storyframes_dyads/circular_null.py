"""Is a session's synchrony more than chance? The null of circular shifts.

The second signal is rotated against the first by up to 999 numbers of points that bring it out of reach, and the
statistic is computed again. Rotation keeps each signal as it is, with its autocorrelation and its gaps; only their
relation in time is lost. So two slow signals, which are always somewhat correlated, are compared with slow signals.
The estimate is ranked among these values: p = (1 + how many are at least as large) / (1 + how many there are). But
neighbouring shifts have nearly the same value: a minute has hundreds of shifts, and few that differ. So p is at least
1 / (1 + runs), where a run is a stretch of shifts on one side of the null's median (:func:`rank_shifts`).

All shifts at once are affordable because the correlations of all windows with all positions of the second signal are
products of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import maximum_filter1d

from storyframes_dyads.lagged_correlation import ALMOST_CONSTANT, Windows, fisher_z

MOST_SHIFTS = 999
"""More shifts than these are spaced evenly: neighbours differ little."""

_BLOCK = 64  # windows at once: a table of 64 by an hour at 30 points a second is 55 MB


@dataclass(frozen=True)
class RankedEstimate:
    """An estimate beside its null.

    Attributes:
        estimate: the statistic of the signals as they are.
        null_median, null_95: quantiles of the statistic under the null, 0.5 and 0.95.
        p: of the rank, one-sided: the share of values at least as large; of shifts see :func:`rank_shifts`.
        count: how many values the null has; 0 where the session is too short for any, and then p is NaN.
    """

    estimate: float
    null_median: float
    null_95: float
    p: float
    count: int


def rank(estimate: float, null: np.ndarray) -> RankedEstimate:
    """The rank of an estimate among the values of a null; missing values of the null are left out."""
    values = null[np.isfinite(null)]
    if not len(values) or not np.isfinite(estimate):
        return RankedEstimate(estimate, np.nan, np.nan, np.nan, len(values))
    median, high = np.quantile(values, [0.5, 0.95])
    p = (1 + int((values >= estimate).sum())) / (1 + len(values))
    return RankedEstimate(estimate, float(median), float(high), p, len(values))


def rank_shifts(estimate: float, null: np.ndarray) -> RankedEstimate:
    """The rank of an estimate among shifts in their order, with p no smaller than their runs allow.

    Example:
        >>> rank_shifts(9.0, np.repeat([1.0, 3.0, 2.0, 4.0], 100)).p  # 400 shifts, of which 4 differ
        0.2
    """
    ranked = rank(estimate, null)
    values = null[np.isfinite(null)]
    runs = 1 + int(np.count_nonzero(np.diff(values > ranked.null_median)))
    return replace(ranked, p=max(ranked.p, 1 / (1 + runs)))


def peak_synchrony(correlations: np.ndarray) -> float:
    """The mean over windows of the highest correlation over all lags, as Fisher's z; NaN without any window.

    Args:
        correlations: (W, lags), NaN where they are missing.
    """
    has_any = np.isfinite(correlations).any(axis=1)
    return float(fisher_z(np.nanmax(correlations[has_any], axis=1)).mean()) if has_any.any() else np.nan


def circular_null(first: np.ndarray, second: np.ndarray, windows: Windows) -> RankedEstimate:
    """:func:`peak_synchrony` of two signals among its values at all circular shifts out of reach.

    Shifts by less than a window and twice the largest lag are left out: they share points with the estimate. The
    estimate itself is computed on the circle as the others are, so that all are exchangeable.

    Args:
        first, second: (n,) on one grid, NaN where nothing was measured.
    """
    points = len(first)
    starts = windows.starts(points)
    reach = windows.reach
    if points <= 2 * reach:
        return rank(np.nan, np.empty(0))
    number = min(MOST_SHIFTS, points - 2 * reach)
    shifts = np.append(0, np.linspace(reach, points - reach, number).round().astype(np.int64))
    total, count = np.zeros(len(shifts)), np.zeros(len(shifts), np.int64)
    x, x_valid = _standardised(first)
    y, y_valid = _standardised(second)
    complete = bool(x_valid.all() and y_valid.all())
    around = _windows_on_circle(np.stack([y, y * y, y_valid.astype(np.float32)]), windows.length)
    for begin in range(0, len(starts), _BLOCK):
        block = starts[begin : begin + _BLOCK]
        highest = _highest(x, x_valid, around, block, windows, complete=complete)
        highest = np.take_along_axis(highest, (block[:, None] + shifts[None]) % points, axis=1)
        has_any = np.isfinite(highest)
        total += fisher_z(np.where(has_any, highest, 0)).sum(axis=0)
        count += has_any.sum(axis=0)
    with np.errstate(invalid="ignore"):
        statistic = np.where(count > 0, total / count, np.nan)
    return rank_shifts(float(statistic[0]), statistic[1:])


def _highest(
    x: np.ndarray, x_valid: np.ndarray, around: np.ndarray, block: np.ndarray, windows: Windows, *, complete: bool
) -> np.ndarray:
    """(windows, n) of each window the highest correlation over the lags around each position; -inf where missing."""
    y, y_squared, y_valid = around
    first = sliding_window_view(x, windows.length)[block]
    if complete:
        count = np.float32(windows.length)
        mean_x, square_x = first.mean(axis=1)[:, None], np.square(first).mean(axis=1)[:, None]
        mean_y, square_y = y.mean(axis=1)[None], y_squared.mean(axis=1)[None]
    else:
        valid = sliding_window_view(x_valid, windows.length)[block].astype(np.float32)
        count = valid @ y_valid.T
        divisor = np.maximum(count, 1)
        mean_x, square_x = first @ y_valid.T / divisor, np.square(first) @ y_valid.T / divisor
        mean_y, square_y = valid @ y.T / divisor, valid @ y_squared.T / divisor
    variance_x, variance_y = square_x - mean_x**2, square_y - mean_y**2
    is_enough = (count >= max(3, windows.min_shared * windows.length)) & (variance_x > 1e-5) & (variance_y > 1e-5)
    correlation = first @ y.T
    correlation /= np.maximum(count, 1)
    correlation -= mean_x * mean_y
    correlation /= np.sqrt(np.maximum(variance_x * variance_y, np.float32(ALMOST_CONSTANT)))
    np.clip(correlation, -1, 1, out=correlation)
    correlation[~np.broadcast_to(is_enough, correlation.shape)] = -np.inf
    return np.asarray(maximum_filter1d(correlation, 2 * windows.max_lag + 1, axis=1, mode="wrap"))


def _standardised(signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    valid = np.isfinite(signal)
    if not valid.any():
        return np.zeros(len(signal), np.float32), valid
    mean, deviation = signal[valid].mean(), signal[valid].std()
    return np.where(valid, (signal - mean) / (deviation or 1), 0).astype(np.float32), valid


def _windows_on_circle(rows: np.ndarray, length: int) -> np.ndarray:
    """(rows, n, length): the window of each row that begins at each point; the end is followed by the beginning."""
    around = np.concatenate([rows, rows[:, : length - 1]], axis=1)
    return np.ascontiguousarray(sliding_window_view(around, length, axis=1))
