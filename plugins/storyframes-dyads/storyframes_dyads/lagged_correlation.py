"""Windowed lagged cross-correlation of two signals with missing values, and where its peaks are.

The method is that of Boker, S. M., Xu, M., Rotondo, J. L. and King, K. (2002), "Windowed cross-correlation and peak
picking for the analysis of variability in the association between behavioral time series", Psychological Methods
7(3), 338-355. A window of the first signal is correlated with windows of the second that begin up to ``max_lag`` points
earlier or later. The lag is positive where the first signal leads: what it does at t, the second does at t + lag.

A correlation uses the points that both windows have measured. Where these are fewer than the given share of a window,
the correlation is missing; nothing is interpolated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

ALMOST_CONSTANT = 1e-9
"""A window whose variance is a smaller share of its signal's has no correlation."""


@dataclass(frozen=True)
class Windows:
    """How signals are cut, in points of their common grid.

    Attributes:
        length: of a window.
        stride: from the beginning of a window to that of the next.
        max_lag: the largest lag in each direction.
        min_shared: the smallest share of a window that both signals must have measured, 0 to 1.
    """

    length: int
    stride: int
    max_lag: int
    min_shared: float = 0.5

    def __post_init__(self) -> None:
        if self.length < 3 or self.stride < 1 or self.max_lag < 0 or not 0 < self.min_shared <= 1:
            raise ValueError(f"{self}: a window has at least 3 points, a stride 1, and 0 < min_shared <= 1")

    @property
    def lags(self) -> np.ndarray:
        """(2 * max_lag + 1,) points, from the second signal leading to the first leading."""
        return np.arange(-self.max_lag, self.max_lag + 1)

    @property
    def reach(self) -> int:
        """Points by which a signal has to be rotated until no window meets at any lag what it met before."""
        return self.length + 2 * self.max_lag

    def starts(self, points: int) -> np.ndarray:
        """(W,) the first point of each window of a signal of so many points."""
        return np.arange(0, points - self.length + 1, self.stride)


class PairedSignals:
    """Two signals whose windows are correlated at any lag.

    Args:
        first, second: (n,) on one grid, float; NaN where nothing was measured.

    Raises:
        ValueError: they differ in length, or are shorter than a window.
    """

    def __init__(self, first: np.ndarray, second: np.ndarray, windows: Windows) -> None:
        if first.shape != second.shape or first.ndim != 1:
            raise ValueError(f"signals of {first.shape} and {second.shape} points are not on one grid")
        if len(first) < windows.length:
            raise ValueError(f"the signals have {len(first)} points, fewer than a window of {windows.length}")
        self.windows = windows
        self.points = len(first)
        self._first, self._first_valid = _centred(first)
        self._second, self._second_valid = _centred(second)
        self._limits = ALMOST_CONSTANT * _mean_square(self._first), ALMOST_CONSTANT * _mean_square(self._second)

    def correlations(self) -> np.ndarray:
        """(W, 2 * max_lag + 1) Pearson correlations of each window, float64; NaN where they are missing."""
        x, x_valid = self._in_blocks(self._first), self._in_blocks(self._first_valid)
        y, y_valid = self._at_lags(self._second), self._at_lags(self._second_valid)
        y_squared = self._at_lags(self._second**2)
        count = self._sums(x_valid, y_valid)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean_x, mean_y = self._sums(x, y_valid) / count, self._sums(x_valid, y) / count
            variance_x = self._sums(x * x, y_valid) / count - mean_x**2
            variance_y = self._sums(x_valid, y_squared) / count - mean_y**2
            correlation = (self._sums(x, y) / count - mean_x * mean_y) / np.sqrt(variance_x * variance_y)
        begins = self.windows.starts(self.points)[:, None] + self.windows.lags
        is_inside = (begins >= 0) & (begins + self.windows.length <= self.points)
        is_enough = count >= max(3, self.windows.min_shared * self.windows.length)
        varies = (variance_x > self._limits[0]) & (variance_y > self._limits[1])
        return np.where(is_inside & is_enough & varies, np.clip(correlation, -1, 1), np.nan)

    @property
    def _block(self) -> int:
        """Points of which windows are made of whole numbers, so that these are summed once."""
        return math.gcd(self.windows.length, self.windows.stride)

    def _in_blocks(self, values: np.ndarray) -> np.ndarray:
        """(blocks, points of a block)."""
        blocks = self.points // self._block
        return values[: blocks * self._block].astype(np.float64).reshape(blocks, self._block)

    def _at_lags(self, values: np.ndarray) -> np.ndarray:
        """(blocks, points of a block, lags): what stands at each lag beside each point; 0 beyond the ends."""
        around = sliding_window_view(np.pad(values.astype(np.float64), self.windows.max_lag), len(self.windows.lags))
        blocks = self.points // self._block
        return around[: blocks * self._block].reshape(blocks, self._block, -1)

    def _sums(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(W, lags) sums of products over each window."""
        products = np.matmul(x[:, None], y)[:, 0]
        total = np.concatenate([np.zeros((1, products.shape[1])), np.cumsum(products, axis=0)])
        starts = self.windows.starts(self.points) // self._block
        return np.asarray(total[starts + self.windows.length // self._block] - total[starts], np.float64)


@dataclass(frozen=True)
class Peaks:
    """The peak of each window.

    Attributes:
        lag: (W,) points, float64; positive where the first signal leads; NaN where there is no peak.
        height: (W,) the correlation there.
    """

    lag: np.ndarray
    height: np.ndarray


def peaks(correlations: np.ndarray, windows: Windows) -> Peaks:
    """The highest local maximum of each window over its lags (Boker and others take the one nearest to lag 0).

    A correlation that is highest at the largest lag is no peak: it may rise further beyond it. A maximum beside a
    missing correlation is none either.

    Args:
        correlations: (W, 2 * max_lag + 1) of :meth:`PairedSignals.correlations`.
    """
    middle = correlations[:, 1:-1]
    with np.errstate(invalid="ignore"):
        is_peak = (middle >= correlations[:, :-2]) & (middle >= correlations[:, 2:])
    candidates = np.where(is_peak, middle, -np.inf)
    if not candidates.shape[1]:
        nothing = np.full(len(correlations), np.nan)
        return Peaks(nothing, nothing.copy())
    column = candidates.argmax(axis=1)
    height = candidates[np.arange(len(candidates)), column]
    has_peak = np.isfinite(height)
    lag = np.where(has_peak, windows.lags[column + 1], np.nan)
    return Peaks(lag.astype(np.float64), np.where(has_peak, height, np.nan))


def fisher_z(correlations: np.ndarray) -> np.ndarray:
    """Fisher's z of correlations, with those of 1 and -1 a little inside."""
    return np.asarray(np.arctanh(np.clip(correlations, -0.999999, 0.999999)), np.float64)


def lag_profile(correlations: np.ndarray) -> np.ndarray:
    """(2 * max_lag + 1,) the mean over windows at each lag: of Fisher's z, given back as a correlation."""
    z = fisher_z(correlations)
    count = np.isfinite(z).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.tanh(np.where(np.isfinite(z), z, 0).sum(axis=0) / count), np.float64)


def lag_spread(correlations: np.ndarray, draws: int = 200) -> float:
    """How much the lag of the highest mean correlation depends on the windows: a standard error, in points.

    The session is cut into ten stretches of windows, which are drawn with replacement (a bootstrap of blocks, since
    neighbouring windows overlap); the spread is the standard deviation of the lag over the draws. NaN with fewer than
    ten windows.

    Args:
        correlations: (W, 2 * max_lag + 1), NaN where they are missing.
    """
    if len(correlations) < 10 or not np.isfinite(correlations).any():
        return np.nan
    stretches = np.array_split(fisher_z(correlations), 10)
    total = np.stack([np.nansum(z, axis=0) for z in stretches])
    count = np.stack([np.isfinite(z).sum(axis=0) for z in stretches])
    drawn = np.random.default_rng(0).multinomial(10, np.full(10, 0.1), draws).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (drawn @ total) / (drawn @ count)
    means[~np.isfinite(means)] = -np.inf
    return float(means.argmax(axis=1).std())


def _centred(signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A signal without its mean (so that sums of squares keep their digits), 0 where nothing was measured."""
    values = np.asarray(signal, np.float64)
    valid = np.isfinite(values)
    mean = values[valid].mean() if valid.any() else 0.0
    return np.where(valid, values - mean, 0.0), valid


def _mean_square(centred: np.ndarray) -> float:
    return float(np.mean(centred**2)) if len(centred) else 0.0
