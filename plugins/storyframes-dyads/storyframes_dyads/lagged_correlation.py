"""Windowed lagged cross-correlation of two signals with missing values, and where its peaks are.

The method is that of Boker, S. M., Xu, M., Rotondo, J. L. and King, K. (2002), "Windowed cross-correlation and peak
picking for the analysis of variability in the association between behavioral time series", Psychological Methods
7(3), 338-355. A window of the first signal is correlated with windows of the second that begin up to ``max_lag`` points
earlier or later. The lag is positive where the first signal leads: what it does at t, the second does at t + lag.

A correlation uses the points that both windows have measured. Where these are fewer than the given share of a window,
the correlation is missing; nothing is interpolated.

Overlapping windows are made of the same blocks of points. So products are summed over blocks, at all lags by a product
of matrices, and then over the blocks of each window: with ten blocks a window, a tenth of the work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

LEAST_VARIANCE = 1e-5
"""A window has no correlation whose variance is a smaller share of its signal's: rounding to single precision (in the
null) gives as much."""
_LEAST_OF_MEAN = 2e-6
"""Nor one whose variance is a smaller share of the square of its mean: rounding gives as much far from the signal's."""
_FEWEST_OF_BLOCK = 8  # points; blocks of fewer are not worth the sums over them
_MOST_BLOCKS = 64  # in one product of matrices


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

    @property
    def block(self) -> tuple[int, int]:
        """Points of a block, and from a block to the next: windows are whole numbers of blocks."""
        block = math.gcd(self.length, self.stride)
        return (block, block) if block >= _FEWEST_OF_BLOCK else (self.length, self.stride)

    def starts(self, points: int) -> np.ndarray:
        """(W,) the first point of each window of a signal of so many points."""
        return np.arange(0, points - self.length + 1, self.stride)

    def with_room(self, points: int) -> np.ndarray:
        """(W,) bool: whether a window has room for the largest lag on both sides."""
        starts = self.starts(points)
        return (starts >= self.max_lag) & (starts <= points - self.length - self.max_lag)


class LaggedSignals:
    """A signal, and what is beside each of its points at each lag.

    Args:
        first: (n,) NaN where nothing was measured.
        beside: (n + lags - 1,) what is beside point t at the first lag is at t, at the next at t + 1; NaN likewise.
        windows: how they are cut.
        dtype: of the computation.
    """

    def __init__(self, first: np.ndarray, beside: np.ndarray, windows: Windows, dtype: type[np.floating]) -> None:
        self._windows, (length, self._step) = windows, windows.block
        self.lags = len(beside) - len(first) + 1
        # Zeros at the end, so that the last blocks can be taken together with some that are not there.
        beside = np.append(beside, np.full(_MOST_BLOCKS * self._step, np.nan))
        self._blocks = sliding_window_view(_powers(first, dtype), length, axis=1)[:, :: self._step]
        self._beside = np.ascontiguousarray(sliding_window_view(_powers(beside, dtype), length, axis=1))

    def correlations(self, begin: int, stop: int, lags: slice = slice(None)) -> np.ndarray:
        """(stop - begin, lags) Pearson correlations of these windows at these lags; NaN where they are missing."""
        squares, y, valid = self._beside
        x_squared, x_sum, count = self._sums(begin, stop, valid, 0, lags)
        covariance, y_sum = self._sums(begin, stop, y, 1, lags)
        (y_squared,) = self._sums(begin, stop, squares, 2, lags)
        # From here on covariances and variances, times the square of the count.
        covariance *= count
        covariance -= x_sum * y_sum
        length = self._windows.length
        least = LEAST_VARIANCE * length**2
        is_missing = count < max(3, self._windows.min_shared * length)
        for values, total in ((x_squared, x_sum), (y_squared, y_sum)):
            values *= count
            total *= total
            values -= total
            total *= _LEAST_OF_MEAN
            is_missing |= values < np.maximum(total, least, out=total)
        x_squared *= y_squared
        np.sqrt(np.maximum(x_squared, least**2, out=x_squared), out=x_squared)
        covariance /= x_squared
        np.clip(covariance, -1, 1, out=covariance)
        np.copyto(covariance, np.nan, where=is_missing)
        return covariance

    def _sums(self, begin: int, stop: int, beside: np.ndarray, power: int, lags: slice) -> np.ndarray:
        """(3 - power, windows, lags): sums over each window of products with the first signal's powers from this on."""
        each, apart = self._windows.length // self._blocks.shape[2], self._windows.stride // self._step  # in blocks
        blocks = self._blocks[power:, begin * apart : (stop - 1) * apart + each]
        first, last, _ = lags.indices(self.lags)
        beside = beside[begin * apart * self._step + first :]
        runs = self._products(blocks, beside, last - first)
        size = runs.shape[1] - each + 1
        parts: list[np.ndarray] = []
        done, run = 0, 1
        while True:  # runs of 1, 2, 4, … blocks; cumulative sums would be slow
            if each & run:
                parts.append(runs[:, done : done + size])
                done += run
            if 2 * run > each:
                return sum(parts[1:], start=parts[0])[:, ::apart]
            runs = runs[:, :-run] + runs[:, run:]
            run *= 2

    def _products(self, blocks: np.ndarray, beside: np.ndarray, lags: int) -> np.ndarray:
        """(k, blocks, lags): sums of products over each block."""
        powers, count, length = blocks.shape
        together = min(count, _MOST_BLOCKS, 1 + lags // self._step)  # of more, most products would be at other lags
        groups = -(-count // together)
        padded = np.zeros((powers, groups * together, length), blocks.dtype)
        padded[:, :count] = blocks
        grouped = np.moveaxis(padded.reshape(powers, groups, together, length), 0, 1).reshape(groups, -1, length)
        width = (together - 1) * self._step + lags
        row, column = beside.strides
        others = as_strided(beside, (groups, length, width), (together * self._step * row, column, row))
        products = grouped @ others  # (groups, powers x blocks, positions); those of each block are a step later
        group, block, position = products.strides
        strides = group, together * block, block + self._step * position, position
        lagged = as_strided(products, (groups, powers, together, lags), strides)
        return np.moveaxis(lagged, 1, 0).reshape(powers, groups * together, lags)[:, :count]


def window_correlations(
    first: np.ndarray, second: np.ndarray, windows: Windows, dtype: type[np.floating] = np.float64
) -> np.ndarray:
    """(W, 2 * max_lag + 1) Pearson correlations of each window at each lag.

    NaN where too few points are shared, where a window hardly varies, and where it would end outside of the signal.

    Args:
        first, second: (n,) on one grid, NaN where nothing was measured.

    Raises:
        ValueError: they differ in length, or are shorter than a window.
    """
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"signals of {first.shape} and {second.shape} points are not on one grid")
    if len(first) < windows.length:
        raise ValueError(f"the signals have {len(first)} points, fewer than a window of {windows.length}")
    starts = windows.starts(len(first))
    beside = np.pad(np.asarray(second, np.float64), windows.max_lag, constant_values=np.nan)
    result = LaggedSignals(first, beside, windows, dtype).correlations(0, len(starts))
    begins = starts[:, None] + windows.lags
    result[(begins < 0) | (begins + windows.length > len(first))] = np.nan
    return result


def z_scores(signal: np.ndarray) -> np.ndarray:
    """(n,) float64: a signal in standard deviations from its mean; NaN where nothing was measured or nothing varies."""
    valid = np.isfinite(signal)
    deviation = signal[valid].std(dtype=np.float64) if valid.any() else 0.0
    return np.asarray((signal - signal[valid].mean(dtype=np.float64)) / deviation if deviation else signal * np.nan)


def _powers(signal: np.ndarray, dtype: type[np.floating]) -> np.ndarray:
    """(3, n): squares, values, and 1 where it was measured; 0 elsewhere."""
    valid = np.isfinite(signal)
    z = np.where(valid, z_scores(signal), 0)
    return np.nan_to_num(np.stack([z * z, z, valid])).astype(dtype)


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
        correlations: (W, 2 * max_lag + 1) of :func:`window_correlations`.
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
