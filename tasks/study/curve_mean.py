"""What a curve has between its moments: for the mean of several raters' curves, and how much of its time nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storyframes.label_curves import NEAREST, Between, CurveRule, mixed
from storyframes.times import PER_SECOND, ticks
from tasks.study.curve_file import CurveSamples

GAP_STEPS = 2
"""Without a longest gap, moments further apart than so many of the curve's usual steps have nothing between them."""
SPARSE = 0.05
"""A curve that says nothing at more than this share of its length is remarked on."""
_FRAMES = 25  # a second: at the times of frames like these it is looked at


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


def mean_curve(curves: Sequence[CurveSamples], rule: CurveRule = NEAREST) -> MeanCurve:
    """The curves' mean, at every moment that one of them has; a single one as it is.

    A curve's value between two of its moments is what :func:`values_at` says. Before its first moment, in a gap and
    beside a missing value it has none, and the mean is of the others.
    """
    if len(curves) == 1:
        (one,) = curves
        return MeanCurve(one.time_s, one.value, (~np.isnan(one.value)).astype(np.int16))
    every = np.concatenate([curve.time_s for curve in curves])
    _, first = np.unique(ticks(every), return_index=True)
    time_s = every[first]
    values = np.array([values_at(curve, time_s, rule) for curve in curves])
    there = ~np.isnan(values)
    raters = there.sum(axis=0)
    total = np.where(there, values, 0.0).sum(axis=0)
    value = np.divide(total, raters, out=np.full(len(time_s), np.nan), where=raters > 0)
    return MeanCurve(time_s, value, raters.astype(np.int16))


def values_at(curve: CurveSamples, time_s: NDArray[np.float64], rule: CurveRule = NEAREST) -> NDArray[np.float64]:
    """(n,) a curve's values at other moments: its own where it has this one, else by the rule.

    By the default rule they lie on the line between its neighbours, and are NaN in a gap of more than
    :data:`GAP_STEPS` usual steps: with the nearest of them the mean would jump wherever a rater has a moment.
    """
    own, asked = ticks(curve.time_s), ticks(time_s)
    if rule.between is Between.NEAREST:
        gap_s = rule.longest_gap_s
        if gap_s is None and len(own) > 1:
            gap_s = GAP_STEPS * float(np.median(np.diff(own))) / PER_SECOND
        rule = CurveRule(Between.LINEAR, gap_s or 1 / PER_SECOND)
    found = rule.neighbours(own, asked, (0, 0))
    value = mixed(curve.value[found.left], curve.value[found.right], found.share)
    return np.where(found.there, value, np.nan)


def unsaid_share(time_s: NDArray[np.float64], value: NDArray[np.float64], rule: CurveRule) -> float:
    """The share of 25 frames a second, from a curve's first moment to its last, that have no value of it: 0 to 1."""
    own = ticks(time_s)
    points = np.arange(own[0], own[-1] + 1, PER_SECOND // _FRAMES)
    usual = float(np.median(np.diff(own))) if len(own) > 1 else 0.0
    found = rule.neighbours(own, points, (PER_SECOND / _FRAMES, usual))
    there = found.there & ~np.isnan(mixed(value[found.left], value[found.right], found.share))
    return float(1 - there.mean())
