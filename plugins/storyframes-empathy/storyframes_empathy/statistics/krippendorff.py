"""Krippendorff's alpha for nominal, ordinal and interval values, with missing ratings.

Alpha is 1 - Do/De over the coincidence matrix: each unit with m ratings gives its m(m-1) ordered pairs of ratings with
weight 1/(m-1); De is what the same ratings give in pairs drawn from all of them. The matrix has a row for each value,
so it is never made here: both sums come from counts (nominal) or squares (interval), in time that grows with the
ratings alone. The ordinal difference of two values is the difference of their middle ranks, so ordinal alpha is the
interval one of the ranks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def alpha_nominal(values: Matrix) -> float | None:
    """Alpha of names.

    Args:
        values: (units, raters), NaN where nothing was given.

    Returns:
        1 where all agree, 0 where they agree as often as by chance; None where no unit has two ratings, or where all
        ratings are the same, so that there is nothing that could be told apart.
    """
    values, counts = _pairable(values)
    given = np.isfinite(values)
    if not counts.size:
        return None
    names, codes = np.unique(values[given], return_inverse=True)
    if len(names) < 2:
        return None
    rows = np.broadcast_to(np.arange(len(values))[:, None], values.shape)[given]
    cells, times = np.unique(rows * len(names) + codes, return_counts=True)
    same = np.bincount(cells // len(names), weights=np.square(times, dtype=np.float64), minlength=len(values))
    total = counts.sum()
    observed = ((counts**2 - same) / (counts - 1)).sum() / total
    expected = (total**2 - np.square(np.bincount(codes), dtype=np.float64).sum()) / (total * (total - 1))
    return float(1 - observed / expected)


def alpha_ordinal(values: Matrix) -> float | None:
    """Alpha of steps in an order; arguments and result as of :func:`alpha_nominal`."""
    values, _ = _pairable(values)
    given = np.isfinite(values)
    ranks = np.full(values.shape, np.nan)
    ranks[given] = middle_ranks(values[given])
    return alpha_interval(ranks)


def alpha_interval(values: Matrix) -> float | None:
    """Alpha of numbers; arguments and result as of :func:`alpha_nominal`."""
    values, counts = _pairable(values)
    if not counts.size or np.nanmin(values) == np.nanmax(values):
        return None
    total = counts.sum()
    unit_means = np.nansum(values, axis=1) / counts
    within = np.nansum((values - unit_means[:, None]) ** 2, axis=1)
    given = values[np.isfinite(values)]
    observed = (2 * counts * within / (counts - 1)).sum() / total
    expected = 2 * ((given - given.mean()) ** 2).sum() / (total - 1)
    return float(1 - observed / expected)


def middle_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each value how many are smaller, and half of those that are the same."""
    if not values.size:
        return values
    _, places, times = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(times) - times / 2)[places]


def _pairable(values: Matrix) -> tuple[Matrix, NDArray[np.float64]]:
    """The units with two ratings or more, and how many each has."""
    counts = np.isfinite(values).sum(axis=1).astype(np.float64)
    return values[counts > 1], counts[counts > 1]
