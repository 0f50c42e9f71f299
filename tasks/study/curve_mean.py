"""The mean of several raters' curves, whose moments need not be the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storyframes.ticks import ticks
from tasks.study.curve_file import CurveSamples

GAP_STEPS = 2
"""Neighbouring moments further apart than so many of the curve's usual steps have nothing between them."""


class MeanCurve(NamedTuple):
    """A curve of one or several raters.

    Attributes:
        time_s: (n,) float64 seconds, increasing.
        value: (n,) float64; NaN where nobody has a value.
        raters: (n,) how many have one.
    """

    time_s: NDArray[np.float64]
    value: NDArray[np.float64]
    raters: NDArray[np.int16]


def mean_curve(curves: Sequence[CurveSamples]) -> MeanCurve:
    """The curves' mean, at every moment that one of them has; a single one as it is.

    A curve's value between two of its moments lies on the line between them (:func:`values_at`). Before its first
    moment, after its last, in a gap and beside a missing value it has none, and the mean is of the others.
    """
    if len(curves) == 1:
        (one,) = curves
        return MeanCurve(one.time_s, one.value, (~np.isnan(one.value)).astype(np.int16))
    every = np.concatenate([curve.time_s for curve in curves])
    _, first = np.unique(ticks(every), return_index=True)
    time_s = every[first]
    values = np.array([values_at(curve, time_s) for curve in curves])
    there = ~np.isnan(values)
    raters = there.sum(axis=0)
    total = np.where(there, values, 0.0).sum(axis=0)
    value = np.divide(total, raters, out=np.full(len(time_s), np.nan), where=raters > 0)
    return MeanCurve(time_s, value, raters.astype(np.int16))


def values_at(curve: CurveSamples, time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) a curve's values at other moments: its own where it has this one, else on the line between its neighbours.

    NaN outside the curve, in a gap (:data:`GAP_STEPS`), and where a neighbour has no value.
    """
    own, asked = ticks(curve.time_s), ticks(time_s)
    after = np.searchsorted(own, asked)
    last = len(own) - 1
    is_own = own[np.minimum(after, last)] == asked
    between = (after > 0) & (after <= last) & ~is_own
    left, right = np.maximum(after - 1, 0), np.minimum(after, last)
    apart = own[right] - own[left]
    usual = np.median(np.diff(own)) if last else 0
    between &= apart <= GAP_STEPS * usual
    share = (asked - own[left]) / np.maximum(apart, 1)
    line = curve.value[left] + share * (curve.value[right] - curve.value[left])
    return np.where(is_own, curve.value[right], np.where(between, line, np.nan))
