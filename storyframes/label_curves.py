"""Curves as features: a label of a scheme that varies continuously is the feature ``label.<scheme>``.

No other feature has a dot in its name, so the names of curves are unique. A curve has its own time axis: a row is a
moment, and ``time`` is when. A :class:`CurveRule` that is stored with the curve gives its value between moments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from storyframes.spec import LABEL_PREFIX, ArraySpec, Axis, FeatureSpec
from storyframes.times import nearest_rows, ticks, tolerance

MOST_CHARACTERS = 64 - len(LABEL_PREFIX)
"""The longest name of a scheme: the feature's name is a folder of the store."""


class Between(StrEnum):
    """The value of a curve between two of its moments."""

    NEAREST = "nearest"  # the value of the nearer moment
    HOLD = "hold"  # the value of the earlier one, for a device that writes when the value changes
    LINEAR = "linear"  # the value on the line between both


class Neighbours(NamedTuple):
    """The rows of a curve that give points their values: ``value[left] + share * (value[right] - value[left])``.

    Attributes:
        left, right: int64, of the points' shape; equal where one row alone gives the value.
        share: float64.
        is_near: bool, whether a moment is near enough to give a value.
    """

    left: np.ndarray
    right: np.ndarray
    share: np.ndarray
    is_near: np.ndarray


@dataclass(frozen=True)
class CurveRule:
    """The value of a curve between its moments.

    Attributes:
        between: how a value follows from the moments beside it.
        longest_gap_s: seconds. "linear": between moments that are further apart the curve has no value; "hold": a value
            holds for at most this time; "nearest": the nearest moment is at most half of it away, and None takes the
            curve's usual step.

    Example:
        >>> CurveRule(Between.LINEAR, longest_gap_s=2.0).between.value
        'linear'
    """

    between: Between = Between.NEAREST
    longest_gap_s: float | None = None

    @classmethod
    def of(cls, attributes: Mapping[str, Any], where: str) -> CurveRule:
        """The rule of a stored curve by its attributes; the default where they have none.

        Args:
            where: the curve, for the message.

        Raises:
            ValueError: the attributes are not a valid rule.
        """
        between, gap = attributes.get("between", Between.NEAREST), attributes.get("longest_gap_s")
        is_gap = gap is None or (isinstance(gap, (int, float)) and 0 < gap < math.inf)
        if between not in list(Between) or not is_gap or (gap is None and between != Between.NEAREST):
            raise ValueError(f"{where}: between = {between!r}, longest_gap_s = {gap!r} is no rule: extract it again")
        return cls(Between(between), gap)

    def neighbours(
        self, time: np.ndarray, points: np.ndarray, steps: tuple[float, float], end: np.ndarray | None = None
    ) -> Neighbours:
        """The rows that give points their values.

        Args:
            time: (n,) ticks of the curve's moments, in order, at least one.
            points: ticks, of any shape.
            steps: ticks from one point to the next, and usually from one moment to the next.
            end: (n,) ticks at which rows end that last from ``time``: then a point has the row during which it is.
        """
        gap = math.inf if self.longest_gap_s is None else ticks(self.longest_gap_s)
        if self.between is Between.NEAREST and end is None:
            allowed = tolerance(*steps) if self.longest_gap_s is None else int(gap / 2)
            rows, is_near = nearest_rows(time, points, allowed)
            return Neighbours(rows, rows, np.zeros(points.shape), is_near)
        after = np.searchsorted(time, points, side="right")
        left = np.maximum(after - 1, 0)
        since = points - time[left]
        if end is not None:
            return Neighbours(left, left, np.zeros(points.shape), (after > 0) & (points < end[left]))
        if self.between is Between.HOLD:
            return Neighbours(left, left, np.zeros(points.shape), (after > 0) & (since <= gap))
        right = np.where(since == 0, left, np.minimum(after, len(time) - 1))
        apart = time[right] - time[left]
        is_near = (after > 0) & ((since == 0) | ((apart > 0) & (apart <= gap)))
        return Neighbours(left, right, since / np.maximum(apart, 1), is_near)


NEAREST = CurveRule()
"""The rule of a curve without one of its own."""


def mixed(left: np.ndarray, right: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The values of points on the line between two neighbours; of whole numbers (counts of raters) the smaller one.

    Args:
        left, right: (k,) values of the neighbours.
        share: (k,) how far the point is from the left to the right one, 0 to 1; at 0 the left one alone counts.
    """
    if np.issubdtype(left.dtype, np.integer):
        return np.where(share > 0, np.minimum(left, right), left)
    return np.where(share > 0, left + share * (right - left), left).astype(left.dtype)


def curve_spec(feature: str) -> FeatureSpec:
    """The specification of a curve's feature."""
    scheme = feature.removeprefix(LABEL_PREFIX)
    return FeatureSpec(
        feature,
        f"the label {scheme!r} at every moment, as the study's curves have it",
        {
            "values": ArraySpec(
                Axis.MOMENT,
                "float32",
                "in the scheme's own numbers (minimum and maximum, where it has them, are attributes of the group): of "
                "one rater as the file has it; of several the mean of those who have a value at this moment, each on "
                "the line between its two neighbouring moments, unless the attributes between and longest_gap_s say "
                "otherwise. NaN where nobody has one",
            ),
            "time": ArraySpec(Axis.MOMENT, "float64", "when the moment is, on the recording's clock", units="s"),
            "raters": ArraySpec(Axis.MOMENT, "int16", "how many raters have a value at this moment", fill=0),
        },
    )
