"""How far raters agree: for each pair of them and over all.

Statistics of a pair are over the units that both have rated. One that is not defined (a rater who always says the same
has no correlation) is None, is counted, and is in no mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from storyframes_empathy.statistics.choices import Categories
from storyframes_empathy.statistics.intraclass import Intraclass, intraclass
from storyframes_empathy.statistics.krippendorff import alpha_interval, alpha_nominal, alpha_ordinal, middle_ranks
from storyframes_empathy.statistics.ratings import Level, Ratings

Vector = NDArray[np.float64]
_ALPHAS = {
    "alpha_nominal": alpha_nominal,
    "alpha_ordinal": alpha_ordinal,
    "alpha_interval": alpha_interval,
}
_BY_LEVEL = {
    Level.NAMES: ("kappa", "alpha_nominal"),
    Level.STEPS: ("spearman", "kappa", "kappa_quadratic", "alpha_nominal", "alpha_ordinal"),
    Level.NUMBERS: ("pearson", "spearman", "kappa", "kappa_quadratic", *_ALPHAS),
}


@dataclass(frozen=True)
class Pair:
    """Two raters.

    Attributes:
        a, b: their names.
        units: that both have rated.
        statistics: by name; None where it is not defined.
    """

    a: str
    b: str
    units: int
    statistics: Mapping[str, float | None]


@dataclass(frozen=True)
class Mean:
    """The mean of a statistic over the pairs where it is defined; None where it is nowhere."""

    mean: float | None
    defined: int
    undefined: int


@dataclass(frozen=True)
class Agreement:
    """How far raters agree.

    Attributes:
        raters: by name, how many units each has rated.
        units: all that somebody has rated.
        units_compared: those with two ratings or more.
        ratings: all there are.
        level: what the values are.
        kappa_of: what numbers were made before kappa was taken; empty for names and steps.
        alpha: Krippendorff's over all raters, by metric: nominal, ordinal, interval, as far as the values allow it.
        pairs: every pair of raters.
        means: of each statistic over the pairs.
        icc: the intraclass correlation of numbers; None where it is not defined, and of names and steps.
        remarks: what is to be known of the numbers.
    """

    raters: Mapping[str, int]
    units: int
    units_compared: int
    ratings: int
    level: Level
    kappa_of: str
    alpha: Mapping[str, float | None]
    pairs: tuple[Pair, ...]
    means: Mapping[str, Mean]
    icc: Intraclass | None = None
    remarks: tuple[str, ...] = ()


def agreement(ratings: Ratings, categories: Categories = Categories.FLOOR, threshold: float = 2.5) -> Agreement:
    """How far the raters agree.

    Args:
        ratings: what they said.
        categories: what kappa makes of numbers.
        threshold: of ``Categories.ABOVE``; a number that is equal to it is not above.
    """
    values = ratings.values
    names = [
        name for name in _BY_LEVEL[ratings.level] if not name.startswith("kappa") or _has_kappa(ratings, categories)
    ]
    classes = _classes(values, categories, threshold) if ratings.level is Level.NUMBERS else values
    pairs = []
    for a, b in combinations(range(len(ratings.raters)), 2):
        both = np.isfinite(values[:, a]) & np.isfinite(values[:, b])
        of_values, of_classes = values[both][:, [a, b]], classes[both][:, [a, b]]
        statistics = {name: _of_pair(name, of_values, of_classes) for name in names}
        pairs.append(Pair(ratings.raters[a], ratings.raters[b], int(both.sum()), statistics))
    counts = np.isfinite(values).sum(axis=1)
    remarks = list(ratings.remarks)
    if np.unique(values[counts > 1][np.isfinite(values[counts > 1])]).size == 1:
        remarks.append("all ratings that can be compared are the same: agreement beyond chance is not defined")
    return Agreement(
        raters={name: int(np.isfinite(values[:, at]).sum()) for at, name in enumerate(ratings.raters)},
        units=int((counts > 0).sum()),
        units_compared=int((counts > 1).sum()),
        ratings=int(counts.sum()),
        level=ratings.level,
        kappa_of=_described(categories, threshold) if "kappa" in names and ratings.level is Level.NUMBERS else "",
        alpha={name.removeprefix("alpha_"): _ALPHAS[name](values) for name in names if name in _ALPHAS},
        pairs=tuple(pairs),
        means={name: _mean([pair.statistics[name] for pair in pairs]) for name in names},
        icc=intraclass(values) if ratings.level is Level.NUMBERS else None,
        remarks=tuple(remarks),
    )


def pearson(a: Vector, b: Vector) -> float | None:
    """Pearson's correlation; None for fewer than two, and where either is constant."""
    if len(a) < 2 or a.min() == a.max() or b.min() == b.max():
        return None
    a, b = a - a.mean(), b - b.mean()
    correlation = float((a @ b) / np.sqrt((a @ a) * (b @ b)))
    return max(-1.0, min(1.0, correlation))  # rounding may go a little beyond


def spearman(a: Vector, b: Vector) -> float | None:
    """Pearson's correlation of the ranks, the same values having their mean one."""
    return pearson(middle_ranks(a), middle_ranks(b))


def kappa(a: Vector, b: Vector) -> float | None:
    """Cohen's kappa of categories; None where none is given, or where both raters know but one and the same."""
    if not len(a):
        return None
    names, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    if len(names) < 2:
        return None
    of_a, of_b = (np.bincount(part, minlength=len(names)) / len(a) for part in (codes[: len(a)], codes[len(a) :]))
    by_chance = float(of_a @ of_b)
    return (float(np.mean(a == b)) - by_chance) / (1 - by_chance)


def kappa_quadratic(a: Vector, b: Vector) -> float | None:
    """Cohen's kappa where a disagreement counts by the square of its size; None as of :func:`kappa`."""
    if not len(a):
        return None
    by_chance = float(a.var() + b.var() + (a.mean() - b.mean()) ** 2)
    return 1 - float(np.mean((a - b) ** 2)) / by_chance if by_chance else None


_OF_VALUES: dict[str, Callable[[Vector, Vector], float | None]] = {"pearson": pearson, "spearman": spearman}
_OF_CLASSES: dict[str, Callable[[Vector, Vector], float | None]] = {"kappa": kappa, "kappa_quadratic": kappa_quadratic}


def _of_pair(name: str, values: Vector, classes: Vector) -> float | None:
    """A statistic of two raters, (units, 2) each."""
    if name in _ALPHAS:
        return _ALPHAS[name](values)
    if name in _OF_CLASSES:
        return _OF_CLASSES[name](classes[:, 0], classes[:, 1])
    return _OF_VALUES[name](values[:, 0], values[:, 1])


def _has_kappa(ratings: Ratings, categories: Categories) -> bool:
    return ratings.level is not Level.NUMBERS or categories is not Categories.NONE


def _classes(values: NDArray[np.float64], categories: Categories, threshold: float) -> NDArray[np.float64]:
    match categories:
        case Categories.FLOOR:
            return np.floor(values)
        case Categories.ROUND:
            return np.floor(values + 0.5)  # numpy's own rounding takes 2.5 down and 3.5 up
        case Categories.ABOVE:
            return np.where(np.isfinite(values), values > threshold, np.nan)
        case Categories.NONE:
            return values


def _described(categories: Categories, threshold: float) -> str:
    return f"whether it is above {threshold:g}" if categories is Categories.ABOVE else str(categories)


def _mean(found: list[float | None]) -> Mean:
    defined = [one for one in found if one is not None]
    return Mean(float(np.mean(defined)) if defined else None, len(defined), len(found) - len(defined))
