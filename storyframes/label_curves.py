"""Curves as features: the label of a scheme that changes all the time is the feature ``label.<scheme>``.

No other feature has a dot in its name, so a curve's can be nobody else's. It has a time axis of its own: a row is a
moment, and ``time`` says which. What it has between its moments is a :class:`CurveRule`, which is stored with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from storyframes.spec import LABEL_PATTERN, ArraySpec, Axis, FeatureSpec
from storyframes.times import nearest_rows, ticks, tolerance

PREFIX = "label."
MOST_CHARACTERS = 64 - len(PREFIX)
"""A scheme's name may be so long: the feature's is a folder of the store."""


class Between(StrEnum):
    """What a curve has between two of its moments."""

    NEAREST = "nearest"  # the value of the nearer moment
    HOLD = "hold"  # the value of the earlier one, as a device means it that writes on change
    LINEAR = "linear"  # the value on the line between both


class Neighbours(NamedTuple):
    """The rows of a curve that points have their values of: ``value[left] + share * (value[right] - value[left])``.

    Attributes:
        left, right: int64, of the points' shape; the same row where it alone says the value.
        share: float64.
        there: bool, whether the curve says anything there.
    """

    left: np.ndarray
    right: np.ndarray
    share: np.ndarray
    there: np.ndarray


@dataclass(frozen=True)
class CurveRule:
    """What a curve has between its moments.

    Attributes:
        between: how a value comes of the moments beside it.
        longest_gap_s: seconds. "linear": moments further apart have nothing between them; "hold": a value holds for so
            long at most; "nearest": the nearest moment is at most half of it away, and None is the curve's usual step.
    """

    between: Between = Between.NEAREST
    longest_gap_s: float | None = None

    @classmethod
    def of(cls, attributes: Mapping[str, Any], where: str) -> CurveRule:
        """The rule that a stored curve has in its attributes; the default where they say nothing.

        Args:
            attributes: of the curve's group.
            where: whose they are, for the message.

        Raises:
            ValueError: they are no rule.
        """
        between, gap = attributes.get("between", Between.NEAREST), attributes.get("longest_gap_s")
        is_gap = gap is None or (isinstance(gap, (int, float)) and 0 < gap < math.inf)
        if between not in list(Between) or not is_gap or (gap is None and between != Between.NEAREST):
            raise ValueError(f"{where}: between = {between!r}, longest_gap_s = {gap!r} is no rule: extract it again")
        return cls(Between(between), gap)

    def neighbours(self, time: np.ndarray, points: np.ndarray, steps: tuple[float, float]) -> Neighbours:
        """The rows that points have their values of.

        Args:
            time: (n,) ticks of the curve's moments, in order, at least one.
            points: ticks, of any shape.
            steps: ticks from one point to the next, and usually from one moment to the next.
        """
        gap = math.inf if self.longest_gap_s is None else ticks(self.longest_gap_s)
        if self.between is Between.NEAREST:
            allowed = tolerance(*steps) if self.longest_gap_s is None else int(gap / 2)
            rows, there = nearest_rows(time, points, allowed)
            return Neighbours(rows, rows, np.zeros(points.shape), there)
        after = np.searchsorted(time, points, side="right")
        left = np.maximum(after - 1, 0)
        since = points - time[left]
        if self.between is Between.HOLD:
            return Neighbours(left, left, np.zeros(points.shape), (after > 0) & (since <= gap))
        right = np.where(since == 0, left, np.minimum(after, len(time) - 1))
        apart = time[right] - time[left]
        there = (after > 0) & ((since == 0) | ((apart > 0) & (apart <= gap)))
        return Neighbours(left, right, since / np.maximum(apart, 1), there)


NEAREST = CurveRule()
"""What a curve has of which nothing else is said."""


def mixed(left: np.ndarray, right: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The values of points: on the line between two neighbours; of whole numbers (counts of raters) the smaller one.

    Args:
        left, right: (k,) of the neighbours.
        share: (k,) how far the point is from the left to the right one, 0 to 1; at 0 the left one alone counts.
    """
    if np.issubdtype(left.dtype, np.integer):
        return np.where(share > 0, np.minimum(left, right), left)
    return np.where(share > 0, left + share * (right - left), left).astype(left.dtype)


def of_scheme(scheme: str) -> str:
    """The feature that a scheme's curves are.

    Example:
        >>> of_scheme("valence")
        'label.valence'
    """
    return f"{PREFIX}{scheme}"


def is_label_curve(feature: str) -> bool:
    """Whether a feature, without the track in its name, is a curve."""
    return LABEL_PATTERN.fullmatch(feature) is not None


def column_of(feature: str) -> str:
    """The column of the clip index that says whether a session has the feature: a name that a filter can hold.

    Example:
        >>> column_of("openface"), column_of("label.valence")
        ('has_openface', 'has_label_valence')
    """
    return f"has_{feature.replace('.', '_')}" if is_label_curve(feature) else f"has_{feature}"


def curve_spec(feature: str) -> FeatureSpec:
    """What the feature of a curve is."""
    scheme = feature.removeprefix(PREFIX)
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
