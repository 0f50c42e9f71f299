"""Curves: a scheme's value at many moments, read from CSV or Parquet with the columns time_s and value.

``mean_curve`` is the mean of several raters' curves, ``unlabelled_share`` how much of its time a curve has no value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storyframes.label_curves import NEAREST, Between, CurveRule, mixed
from storyframes.times import PER_SECOND, ticks
from tasks.study.labels import Scheme, undecided_remark
from tasks.study.missing_values import is_one_of
from tasks.study.problems import UnusableFileError
from tasks.study.strict_tables import MeasurementsError, is_empty, number_in, read_measurements

GAP_STEPS = 2
"""Without a longest gap, a curve has no values between moments that are more than so many usual steps apart."""
SPARSE = 0.05
"""A curve without values at more than this share of its length gets a remark."""
_FRAMES = 25  # a second, for the share without values


class CurveError(UnusableFileError):
    """The file is no curve; the message names the file, the row, and the rule."""


@dataclass(frozen=True)
class CurveSamples:
    """The content of a curve's file."""

    time_s: NDArray[np.float64]  # (n,) float64 seconds, increasing
    value: NDArray[np.float64]  # (n,) float64; NaN where the file has no value at this moment
    remarks: tuple[str, ...] = ()  # what is unusual about the file, and how it was read all the same

    @staticmethod
    def read(path: Path, scheme: Scheme | None = None) -> CurveSamples:
        """The curve at ``path`` (.csv or .parquet), within its scheme's minimum and maximum; missing values are NaN.

        Raises:
            CurveError: it cannot be read, or a row has a fault.
        """
        if path.suffix not in (".csv", ".parquet"):
            raise CurveError(f"{path.name}: a curve is .csv or .parquet")
        try:
            rows, remarks = read_measurements(path, ("time_s", "value"), "a curve")
        except MeasurementsError as error:
            raise CurveError(str(error)) from None
        time_s, value = np.empty(len(rows)), np.empty(len(rows))
        before = -math.inf
        codes = scheme.missing if scheme else ()
        for index, (number, cells) in enumerate(rows):
            time_s[index] = _number(path, number, "time_s", cells["time_s"])
            if time_s[index] <= before:
                raise CurveError(f"{path.name}: row {number}, time_s: must be after the row before it, at {before:g} s")
            before = time_s[index]
            cell = cells["value"]
            is_missing = is_empty(cell) or is_one_of(str(cell), codes)
            value[index] = math.nan if is_missing else _number(path, number, "value", cell)
            if scheme and (low_or_high := _outside(float(value[index]), scheme)):
                raise CurveError(f"{path.name}: row {number}, value: {low_or_high} of the scheme {scheme.name!r}")
        if scheme and (
            codes := scheme.undecided(f"{number:g}" for number in np.unique(value[~np.isnan(value)]).tolist())
        ):
            remarks.append(f"{path.name}: {undecided_remark(scheme.name, codes)}")
        return CurveSamples(time_s, value, tuple(remarks))


def _number(path: Path, row: int, column: str, cell: Any) -> float:
    number = number_in(cell)
    if not math.isfinite(number):
        raise CurveError(f"{path.name}: row {row}, {column}: must be a finite number, with a decimal point")
    return number


def _outside(value: float, scheme: Scheme) -> str:
    if scheme.minimum is not None and value < scheme.minimum:
        return f"is below the minimum {scheme.minimum:g}"
    if scheme.maximum is not None and value > scheme.maximum:
        return f"is above the maximum {scheme.maximum:g}"
    return ""


# --- means of curves ----------------------------------------------------------------------------------------------


class MeanCurve(NamedTuple):
    """A curve of one or several raters."""

    time_s: NDArray[np.float64]  # (n,) float64 seconds, increasing
    value: NDArray[np.float64]  # (n,) float64; NaN where no rater has a value
    raters: NDArray[np.int16]  # (n,) int16, how many raters have a value


def mean_curve(curves: Sequence[CurveSamples], rule: CurveRule = NEAREST) -> MeanCurve:
    """The curves' mean, at every moment of any of them; a single curve unchanged.

    A curve's value between two of its moments is that of :func:`values_at`. Before its first moment, in a gap and
    beside a missing value it has none, and the mean is of the others.
    """
    if len(curves) == 1:
        (curve,) = curves
        return MeanCurve(curve.time_s, curve.value, (~np.isnan(curve.value)).astype(np.int16))
    moments = np.concatenate([curve.time_s for curve in curves])
    _, first = np.unique(ticks(moments), return_index=True)
    time_s = moments[first]
    values = np.array([values_at(curve, time_s, rule) for curve in curves])
    has_value = ~np.isnan(values)
    raters = has_value.sum(axis=0)
    total = np.where(has_value, values, 0.0).sum(axis=0)
    value = np.divide(total, raters, out=np.full(len(time_s), np.nan), where=raters > 0)
    return MeanCurve(time_s, value, raters.astype(np.int16))


def values_at(curve: CurveSamples, time_s: NDArray[np.float64], rule: CurveRule = NEAREST) -> NDArray[np.float64]:
    """(n,) float64, a curve's values at other moments: its own at its own moments, else by the rule.

    By the default rule they are interpolated linearly, and NaN in a gap of more than :data:`GAP_STEPS` usual steps:
    with the nearest value the mean would jump wherever a rater has a moment.
    """
    own, requested = ticks(curve.time_s), ticks(time_s)
    if rule.between is Between.NEAREST:
        gap_s = rule.longest_gap_s
        if gap_s is None and len(own) > 1:
            gap_s = GAP_STEPS * float(np.median(np.diff(own))) / PER_SECOND
        rule = CurveRule(Between.LINEAR, gap_s or 1 / PER_SECOND)
    neighbours = rule.neighbours(own, requested, (0, 0))
    value = mixed(curve.value[neighbours.left], curve.value[neighbours.right], neighbours.share)
    return np.where(neighbours.is_near, value, np.nan)


def unlabelled_share(time_s: NDArray[np.float64], value: NDArray[np.float64], rule: CurveRule) -> float:
    """The share of frames without a value, from a curve's first moment to its last, at 25 frames a second: 0 to 1."""
    own = ticks(time_s)
    frames = np.arange(own[0], own[-1] + 1, PER_SECOND // _FRAMES)
    usual = float(np.median(np.diff(own))) if len(own) > 1 else 0.0
    neighbours = rule.neighbours(own, frames, (PER_SECOND / _FRAMES, usual))
    values = mixed(value[neighbours.left], value[neighbours.right], neighbours.share)
    return float(1 - (neighbours.is_near & ~np.isnan(values)).mean())
