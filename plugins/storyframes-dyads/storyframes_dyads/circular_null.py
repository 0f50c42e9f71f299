"""Is a session's synchrony more than chance? The null of circular shifts.

The second signal is rotated against the first, and the statistic is computed again. Rotation keeps each signal as it
is, with its autocorrelation and its gaps; only their relation in time is lost. So two slow signals, which are always
somewhat correlated, are compared with slow signals.

The shifts lie evenly around the circle, and 0, the estimate, is one of them. If the signals have nothing in common and
do not change their nature over the session, every shift is equally likely to have the highest value, however similar
neighbours are: p is the share of all shifts whose value is at least the estimate's (Hemerik, J. and Goeman, J., 2018,
"Exact testing with random permutations", TEST 27, 811-825: the rank in a group of transformations).
Shifts near 0 belong to this rank: without them, a slow statistic that is high at 0 would be compared only with places
where it has sunk again, and p would be too small (of 2,000 unrelated pairs of two minutes 7.2 % instead of 5 %). They
set a limit: signals that move together do so at all shifts that the largest lag bridges, so p is seldom below
2 * max_lag / points. The null's quantiles are of the shifts out of reach alone.

All shifts at once are affordable because the correlations of all windows with all positions of the second signal are
products of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import maximum_filter1d

from storyframes_dyads.lagged_correlation import Windows, fisher_z

MOST_SHIFTS = 999
"""The most shifts, with that by 0; of more points, they are spaced evenly: neighbours differ little."""

_BLOCK = 64  # windows at once: a table of 64 by an hour at 30 points a second is 55 MB
_LEAST_VARIANCE = 1e-5  # of a window, as a share of its signal's: rounding to single precision gives as much


@dataclass(frozen=True)
class RankedEstimate:
    """An estimate beside its null.

    Attributes:
        estimate: the statistic of the signals as they are.
        null_median, null_95: quantiles of the statistic under the null, 0.5 and 0.95.
        p: of the rank, one-sided: the share of values, with the estimate, that are at least as large.
        count: how many values the null has; 0 where the session is too short for any, and then p is NaN as they are.
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


def even_shifts(points: int, most: int) -> np.ndarray:
    """(k,) int64: shifts that lie evenly around a circle of so many points, 0 first; at most ``most``."""
    return np.linspace(0, points, min(most, points), endpoint=False).round().astype(np.int64)


def rank_shifts(statistic: np.ndarray, shifts: np.ndarray, points: int, reach: int) -> RankedEstimate:
    """The rank of the first of some values among all; the null's quantiles are of the shifts out of reach.

    Args:
        statistic: (k,) at each of the shifts; NaN where it is missing.
        shifts: (k,) of :func:`even_shifts`.

    Example:
        >>> shifts = even_shifts(100, 10)
        >>> rank_shifts(np.array([4.0, 5, 1, 2, 3, 1, 2, 3, 1, 2]), shifts, 100, 20).p  # 5 and the estimate itself
        0.2
    """
    is_out = (shifts >= reach) & (shifts <= points - reach)
    ranked = rank(float(statistic[0]), statistic[is_out])
    values = statistic[np.isfinite(statistic)]
    return replace(ranked, p=float(np.mean(values >= statistic[0]))) if np.isfinite(ranked.p) else ranked


def peak_synchrony(correlations: np.ndarray) -> float:
    """The mean over windows of the highest correlation over all lags, as Fisher's z; NaN without any window.

    Args:
        correlations: (W, lags), NaN where they are missing.
    """
    has_any = np.isfinite(correlations).any(axis=1)
    return float(fisher_z(np.nanmax(correlations[has_any], axis=1)).mean()) if has_any.any() else np.nan


def circular_null(first: np.ndarray, second: np.ndarray, windows: Windows) -> RankedEstimate:
    """:func:`peak_synchrony` of two signals among its values at all circular shifts out of reach.

    Only windows count whose lags all lie within the second signal, at every shift: where its end meets its beginning
    it jumps, which the estimate would never see. A session of at most two windows and four largest lags has no shift
    out of reach: it has an estimate, and no rank.

    Args:
        first, second: (n,) on one grid, NaN where nothing was measured.
    """
    points = len(first)
    starts = windows.starts(points)
    reach = windows.reach
    shifts = even_shifts(points, MOST_SHIFTS if points > 2 * reach else 1)
    total, count = np.zeros(len(shifts)), np.zeros(len(shifts), np.int64)
    x, x_valid = _standardised(first)
    y, y_valid = _standardised(second)
    complete = bool(x_valid.all() and y_valid.all())
    rows = np.stack([y, y * y, y_valid.astype(np.float32)])
    others = np.ascontiguousarray(sliding_window_view(rows, windows.length, axis=1))
    for begin in range(0, len(starts), _BLOCK):
        block = starts[begin : begin + _BLOCK]
        highest = _highest(x, x_valid, others, block, windows, complete=complete)
        highest = np.take_along_axis(highest, (block[:, None] + shifts[None]) % points, axis=1)
        has_any = np.isfinite(highest)
        total += fisher_z(np.where(has_any, highest, 0)).sum(axis=0)
        count += has_any.sum(axis=0)
    with np.errstate(invalid="ignore"):
        statistic = np.where(count > 0, total / count, np.nan)
    return rank_shifts(statistic, shifts, points, reach)


def _highest(
    x: np.ndarray, x_valid: np.ndarray, others: np.ndarray, block: np.ndarray, windows: Windows, *, complete: bool
) -> np.ndarray:
    """(windows, n) of each window the highest correlation over the lags around each position.

    -inf where it is missing, and where one of the lags is beyond the second signal's beginning or end.
    """
    y, y_squared, y_valid = others
    first = sliding_window_view(x, windows.length)[block]
    count: np.ndarray | np.float32
    if complete:
        count = np.float32(windows.length)
        sum_x, sum_xx = first.sum(axis=1)[:, None], np.square(first).sum(axis=1)[:, None]
        sum_y, sum_yy = y.sum(axis=1)[None], y_squared.sum(axis=1)[None]
        correlation = first @ y.T
    else:  # few products of many rows are faster than many of few
        valid = sliding_window_view(x_valid, windows.length)[block].astype(np.float32)
        sum_x, sum_xx, count = np.split(np.concatenate([first, np.square(first), valid]) @ y_valid.T, 3)
        correlation, sum_y = np.split(np.concatenate([first, valid]) @ y.T, 2)
        sum_yy = valid @ y_squared.T
    # From here on covariances and variances, times the square of the count.
    correlation *= count
    correlation -= sum_x * sum_y
    sum_xx *= count
    sum_xx -= np.square(sum_x)
    sum_yy *= count
    sum_yy -= np.square(sum_y)
    least = np.float32(_LEAST_VARIANCE * windows.length**2)
    is_missing = (count < max(3, windows.min_shared * windows.length)) | (sum_xx < least) | (sum_yy < least)
    correlation /= np.sqrt(np.maximum(sum_xx, least) * np.maximum(sum_yy, least))
    np.clip(correlation, -1, 1, out=correlation)
    np.copyto(correlation, -np.inf, where=is_missing)
    highest = np.full((len(block), len(x)), -np.inf, np.float32)
    inside = slice(windows.max_lag, max(correlation.shape[1] - windows.max_lag, windows.max_lag))
    highest[:, inside] = maximum_filter1d(correlation, 2 * windows.max_lag + 1, axis=1)[:, inside]
    return highest


def _standardised(signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    valid = np.isfinite(signal)
    if not valid.any():
        return np.zeros(len(signal), np.float32), valid
    mean, deviation = signal[valid].mean(), signal[valid].std()
    return np.where(valid, (signal - mean) / (deviation or 1), 0).astype(np.float32), valid
