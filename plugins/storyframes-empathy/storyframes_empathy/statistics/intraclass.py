"""The intraclass correlation: the share of the variance of ratings that is due to what was rated.

Shrout and Fleiss (1979), raters as a sample of all raters: of one rater, and of the mean of as many as there are. Where
every rater rated every unit it is ICC(2), by which raters who differ in their level disagree. Otherwise it is ICC(1),
by which every rating is a different rater's; k is then the number of ratings of a unit in the sense of an unbalanced
analysis of variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Intraclass:
    """An intraclass correlation; 1 where all ratings of a unit are the same, below 0 where units differ too little.

    Attributes:
        form: 2 or 1, of Shrout and Fleiss.
        k: ratings of a unit.
        single: the reliability of one rating.
        mean: the reliability of the mean of ``k`` ratings.
    """

    form: int
    k: float
    single: float
    mean: float

    def __str__(self) -> str:
        return f"ICC({self.form},1) {self.single:.3f}, ICC({self.form},k) {self.mean:.3f} of the mean of {self.k:.3g}"


def intraclass(values: NDArray[np.float64]) -> Intraclass | None:
    """The intraclass correlation of ratings (units, raters), NaN where nothing was given.

    Returns:
        None where fewer than two units have two ratings, or where it is not defined, as of ratings that are all equal.
    """
    counts = np.isfinite(values).sum(axis=1)
    values, counts = values[counts > 1], counts[counts > 1]
    units, total = len(values), int(counts.sum())
    if units < 2 or np.nanmin(values) == np.nanmax(values):
        return None
    unit_means, mean = np.nanmean(values, axis=1), float(np.nanmean(values))
    between = float((counts * (unit_means - mean) ** 2).sum()) / (units - 1)
    within = float(np.nansum((values - unit_means[:, None]) ** 2))
    if np.isfinite(values).all():
        k = float(values.shape[1])
        of_raters = units * float(((values.mean(axis=0) - mean) ** 2).sum())
        error = (within - of_raters) / ((units - 1) * (k - 1))
        more = (of_raters / (k - 1) - error) / units  # of the levels of raters, in units of variance
        form, single, whole = 2, between + (k - 1) * error + k * more, between + more
    else:
        k = (total - float((counts**2).sum()) / total) / (units - 1)
        error = within / (total - units)
        form, single, whole = 1, between + (k - 1) * error, between
    if single <= 0 or whole <= 0:
        return None
    return Intraclass(form, k, (between - error) / single, (between - error) / whole)
