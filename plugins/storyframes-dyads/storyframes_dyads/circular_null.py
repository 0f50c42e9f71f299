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

All shifts at once are affordable because the correlations of all windows at all lags are products of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from storyframes_dyads.lagged_correlation import LaggedSignals, Windows, fisher_z

MOST_SHIFTS = 999
"""The most shifts, with that by 0; of more points, they are spaced evenly: neighbours differ little."""

_ROUNDING = 1e-6  # of Fisher's z in single precision: equal values count as equal
_WINDOWS, _LAGS = 24, 3500  # at once, as many as a processor's cache holds; 24 windows of an hour at 30 points: 10 MB


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
    return replace(ranked, p=float(np.mean(values >= statistic[0] - _ROUNDING))) if np.isfinite(ranked.p) else ranked


def peak_synchrony(correlations: np.ndarray, windows: Windows, points: int) -> float:
    """The mean of the windows' highest correlations over all lags, as Fisher's z; NaN without any.

    Only windows with room for the largest lag on both sides count: others have fewer lags, and so lower peaks.

    Args:
        correlations: (W, lags) of :func:`~storyframes_dyads.lagged_correlation.window_correlations`.
        points: of the signals.
    """
    whole = correlations[windows.with_room(points)]
    whole = whole[np.isfinite(whole).any(axis=1)]
    return float(fisher_z(np.nanmax(whole, axis=1)).mean()) if len(whole) else np.nan


def circular_null(first: np.ndarray, second: np.ndarray, windows: Windows, estimate: float) -> RankedEstimate:
    """:func:`peak_synchrony` of two signals among its values at all circular shifts.

    Where the second signal's end meets its beginning it jumps, which the estimate would never see: windows there do not
    count. A session of at most two windows and four largest lags has no shift out of reach, and no rank.

    Args:
        first, second: (n,) on one grid, NaN where nothing was measured.
        estimate: :func:`peak_synchrony` as they are.
    """
    points, most = len(first), windows.max_lag
    if points <= 2 * windows.reach:
        return rank(estimate, np.empty(0))
    shifts = even_shifts(points, MOST_SHIFTS)
    total, count = np.zeros(len(shifts)), np.zeros(len(shifts), np.int64)
    starts = windows.starts(points)
    signals = LaggedSignals(first, second[np.arange(-most, 2 * points + most) % points], windows, np.float32)
    for begin in range(0, len(starts), _WINDOWS):
        own = starts[begin : begin + _WINDOWS, None]
        correlations = np.empty((len(own), signals.lags), np.float32)
        for lag in range(0, signals.lags, _LAGS):
            lags = slice(lag, lag + _LAGS)
            correlations[:, lags] = signals.correlations(begin, begin + len(own), lags)
        highest = _highest(correlations, 2 * most + 1)[:, shifts]
        position = (own + shifts) % points
        is_whole = (position >= most) & (position <= points - windows.length - most) & np.isfinite(highest)
        total += fisher_z(np.where(is_whole, highest, 0)).sum(axis=0)
        count += is_whole.sum(axis=0)
    with np.errstate(invalid="ignore"):
        statistic = np.where(count > 0, total / count, np.nan)
    statistic[0] = estimate  # the same, without the rounding to single precision
    return rank_shifts(statistic, shifts, points, windows.reach)


def _highest(values: np.ndarray, width: int) -> np.ndarray:
    """(windows, n - width + 1) of each so many neighbours the highest value; NaN where all are missing."""
    size, run = values.shape[1] - width + 1, 1
    while 2 * run <= width:  # of runs of 1, 2, 4, … neighbours
        values = np.fmax(values[:, :-run], values[:, run:])
        run *= 2
    return np.fmax(values[:, :size], values[:, width - run : width - run + size])
