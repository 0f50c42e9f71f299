"""Other measures of how two signals move together: average correlation, coherence, recurrence, mutual information.

Each is a number of two signals on one grid, with missing values left out; each stands beside its null of circular
shifts (``shifted_null``), as the windowed correlation does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import signal as scipy_signal

from storyframes_dyads.circular_null import RankedEstimate, even_shifts, rank_shifts
from storyframes_dyads.lagged_correlation import Windows, fisher_z, window_correlations, z_scores

Measure = Callable[[np.ndarray, np.ndarray], float]
RADIUS = 0.2  # standard deviations within which two values are nearly the same


def coherence(first: np.ndarray, second: np.ndarray, rate: float, band: tuple[float, float], segment_s: float) -> float:
    """The mean magnitude-squared coherence in a band of frequencies, 0 to 1, by Welch's method.

    Segments of ``segment_s`` seconds with a Hann window, half overlapping, as in ``scipy.signal.coherence``; only
    segments that both signals measured completely count. NaN with fewer than two such segments (one segment alone
    always has a coherence of 1) or with no frequency in the band.

    Args:
        first, second: (n,) NaN where nothing was measured.
        rate: points per second.
        band: the lowest and the highest frequency, Hz.
    """
    length = round(segment_s * rate)
    starts = np.arange(0, len(first) - length + 1, max(1, length - length // 2))
    segments = [sliding_window_view(x, length)[starts] for x in (first, second)] if length >= 4 and len(starts) else []
    shared = np.isfinite(np.add(*segments)).all(axis=1) if segments else np.zeros(0, bool)
    if shared.sum() < 2:
        return np.nan
    x, y = (segment[shared].ravel() for segment in segments)  # end to end, so that they are the segments of SciPy
    with np.errstate(invalid="ignore", divide="ignore"):
        frequencies, shares = scipy_signal.coherence(x, y, rate, nperseg=length, noverlap=0)
    inside = shares[(frequencies >= band[0]) & (frequencies <= band[1]) & (frequencies > 0)]
    return float(np.nanmean(inside)) if np.isfinite(inside).any() else np.nan


def recurrence_profile(first: np.ndarray, second: np.ndarray, max_lag: int, radius: float) -> np.ndarray:
    """(2 * max_lag + 1,) the share of points at each lag at which both signals have nearly the same value.

    Diagonal-wise cross-recurrence (Coco, M. I. and Dale, R. (2014), Frontiers in Psychology 5:510). Values are
    z-scores of each signal's own measured points; ``radius`` is in these units. Positive lags: the first leads.
    """
    x, y = z_scores(first), z_scores(second)
    profile = np.full(2 * max_lag + 1, np.nan)
    for column, lag in enumerate(range(-max_lag, max_lag + 1)):
        begin, end = max(0, -lag), min(len(x), len(x) - lag)
        if end <= begin:
            continue
        difference = np.abs(x[begin:end] - y[begin + lag : end + lag])
        shared = np.isfinite(difference)
        if shared.any():
            profile[column] = float((difference[shared] <= radius).mean())
    return profile


def cross_recurrence(first: np.ndarray, second: np.ndarray, max_lag: int, radius: float) -> float:
    """The largest value of :func:`recurrence_profile`."""
    profile = recurrence_profile(first, second, max_lag, radius)
    return float(np.nanmax(profile)) if np.isfinite(profile).any() else np.nan


def mutual_information(first: np.ndarray, second: np.ndarray, bins: int = 8) -> float:
    """Mutual information in bits, of values in bins with equally many points each, with the Miller-Madow correction.

    Equal values share a bin, so a signal that is mostly 0 (an action unit) has fewer bins than asked for.
    """
    shared = np.isfinite(first) & np.isfinite(second)
    n = int(shared.sum())
    if n < bins * bins:
        return np.nan
    table = np.zeros((bins, bins))
    np.add.at(table, (_bins(first[shared], bins), _bins(second[shared], bins)), 1)
    corrections = [(int((counts > 0).sum()) - 1) / (2 * n) for counts in (table.sum(1), table.sum(0), table)]
    entropies = [_entropy(counts / n) for counts in (table.sum(1), table.sum(0), table.ravel())]
    corrected = [entropy + correction for entropy, correction in zip(entropies, corrections, strict=True)]
    return float((corrected[0] + corrected[1] - corrected[2]) / np.log(2))


def average_correlation(first: np.ndarray, second: np.ndarray, windows: Windows) -> float:
    """The mean absolute Fisher's z over all windows and lags: the "grand average" of the R package rMEA.

    Kleinbub, J. R. and Ramseyer, F. T. (2021), "rMEA: An R package to assess nonverbal synchronization in motion energy
    analysis time-series", Psychotherapy Research 31(6), 817-830. As there, at a negative lag the second signal's window
    stays and the first one's is later, and a window counts that has room for the largest lag.
    """
    if len(first) < windows.length + windows.max_lag:
        return np.nan
    room = windows.starts(len(first)) <= len(first) - windows.length - windows.max_lag
    onwards = window_correlations(first, second, windows)[room, windows.max_lag :]
    backwards = window_correlations(second, first, windows)[room, windows.max_lag + 1 :]
    z = np.abs(fisher_z(np.concatenate([onwards, backwards], axis=1)))
    return float(np.nanmean(z)) if np.isfinite(z).any() else np.nan


def shifted_null(
    measure: Measure, first: np.ndarray, second: np.ndarray, reach: int, count: int = 199
) -> RankedEstimate:
    """A measure beside its values at ``count`` circular shifts, by :func:`rank_shifts`."""
    points = len(first)
    shifts = even_shifts(points, 1 + count if points > 2 * reach else 1)
    return rank_shifts(np.array([measure(first, np.roll(second, s)) for s in shifts]), shifts, points, reach)


def _bins(values: np.ndarray, bins: int) -> np.ndarray:
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    return np.searchsorted(edges, values, side="right")


def _entropy(shares: np.ndarray) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


MEASURES: Mapping[str, Callable[[Windows, float], Measure]] = {
    "average": lambda windows, rate: lambda first, second: average_correlation(first, second, windows),
    "coherence": lambda windows, rate: (
        lambda first, second: coherence(
            first, second, rate, (2 * rate / windows.length, rate / 2), windows.length / rate
        )
    ),
    "recurrence": lambda windows, rate: lambda first, second: cross_recurrence(first, second, windows.max_lag, RADIUS),
    "information": lambda windows, rate: mutual_information,
}
"""By name, the measure of signals that are cut into such windows, at a rate of points per second.

Coherence is of segments as long as a window, in the band from two periods a window to half the rate; recurrence is the
largest over all lags, within 0.2 standard deviations; mutual information is at lag 0.
"""
