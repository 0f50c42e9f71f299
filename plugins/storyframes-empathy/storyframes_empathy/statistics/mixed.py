"""Mixed models of ratings: an outcome, predictors, and an intercept that differs from story to story by chance.

y = intercept + beta x + story + residual, fitted by restricted maximum likelihood (REML). A predictor is centred at the
mean of its story first, so beta is about differences within stories alone, and no difference between stories can
pass for it.

statsmodels' MixedLM looks for the one number that has no formula: the ratio of the variance between stories (tau²) to
the residual variance (sigma²). Everything else follows from that ratio and is computed here, so the likelihood of a fit
is checked against that of its neighbours and of ratio 0, and an optimiser that stopped early is found out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from storyframes_empathy.statistics.rating_table import RatingTable, TableFaultError

OPTIMISERS = ("bfgs", "lbfgs", "powell")
_BOUNDARY = 1e-7  # a ratio below this is none
_NOTHING = 1e-20  # a residual variance of a standardised outcome that is but rounding
_TOLERANCE = 1e-6  # of a log-likelihood
_QUANTILE = 1.959963984540054  # 95 % of a normal distribution

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A predictor's coefficient, its standard error, z, two-sided p, and 95 % interval (normal)."""

    predictor: str
    beta: float
    se: float
    z: float
    p: float
    low: float
    high: float


@dataclass(frozen=True)
class MixedFit:
    """One model.

    Attributes:
        estimates: of its predictors.
        intercept: the outcome's mean level.
        sigma2: the residual variance.
        tau2: the variance between stories.
        rows, stories: that it was fitted on; rows that lack one of its columns are not among them.
        missing: rows that lack one.
        single_rows: stories with one row; they stay, and say something of the intercept alone.
        converged: the likelihood has its maximum here; where it has not been found, all estimates are NaN.
        boundary: the likelihood is largest at tau² = 0: stories differ no more than chance would have it.
        optimisers: that were tried, in this order; the fit is the last one's.
    """

    estimates: tuple[Estimate, ...]
    intercept: float
    sigma2: float
    tau2: float
    rows: int
    stories: int
    missing: int
    single_rows: int
    converged: bool
    boundary: bool
    optimisers: tuple[str, ...]


class CannotFitError(ValueError):
    """There is no such model of these values; the message says why."""


def fit_mixed(
    outcome: NDArray[np.float64],
    predictors: Matrix,
    stories: Sequence[str],
    names: Sequence[str],
    *,
    raw: bool = False,
    optimisers: Sequence[str] = OPTIMISERS,
) -> MixedFit:
    """Fit one model.

    Args:
        outcome: (rows,).
        predictors: (rows, predictors), as they are; they are centred here. NaN, here or in the outcome: the row is left
            out.
        stories: of which story each row is.
        names: of the predictors.
        raw: keep the units of the outcome and the predictors; else the outcome is standardised, and each centred
            predictor divided by its standard deviation (with n - 1).
        optimisers: of statsmodels, tried in turn until one finds the maximum.

    Raises:
        CannotFitError: fewer than two stories, no story with two rows, an outcome that is always the same, a predictor
            that is the same within every story, or predictors that say the same.
    """
    whole = np.isfinite(outcome) & np.isfinite(predictors).all(axis=1)
    y, x = outcome[whole], predictors[whole]
    _, groups = np.unique(np.asarray(stories)[whole], return_inverse=True)
    sizes = np.bincount(groups)
    if len(sizes) < 2 or sizes.max() < 2:
        raise CannotFitError(
            f"{len(sizes)} stories with {len(y)} rows: it takes two stories, one of them with two rows"
        )
    if np.ptp(y) <= _rounding(y):
        raise CannotFitError("the outcome is the same in every row")
    x = _centred(x, groups, sizes, names)
    standard_y = (y - y.mean()) / y.std(ddof=1)
    standard_x = x / x.std(axis=0, ddof=1)
    if np.linalg.matrix_rank(standard_x) < x.shape[1]:
        raise CannotFitError(f"{', '.join(names)}: within stories one follows from the others: leave one out")
    if len(y) <= x.shape[1] + 1:
        raise CannotFitError(f"{len(y)} rows are too few for {x.shape[1]} predictors")
    standard = _Likelihood(standard_y, standard_x, groups)
    ratio, tried = _ratio(standard, optimisers)
    likelihood = _Likelihood(y - y.mean(), x, groups) if raw else standard
    beta, se, sigma2 = likelihood.solve(math.nan if ratio is None else ratio)
    return MixedFit(
        estimates=tuple(map(_estimate, names, beta[1:].tolist(), se[1:].tolist())),
        intercept=float(beta[0]) + (float(y.mean()) if raw else 0.0),
        sigma2=sigma2,
        tau2=math.nan if ratio is None else ratio * sigma2,
        rows=len(y),
        stories=len(sizes),
        missing=int((~whole).sum()),
        single_rows=int((sizes == 1).sum()),
        converged=ratio is not None,
        boundary=ratio == 0,
        optimisers=tried,
    )


def _centred(x: Matrix, groups: NDArray[np.intp], sizes: NDArray[np.intp], names: Sequence[str]) -> Matrix:
    means = np.stack([np.bincount(groups, weights=column) / sizes for column in x.T], axis=1)
    centred = x - means[groups]
    for name, column, before in zip(names, centred.T, x.T, strict=True):
        if np.abs(column).max() <= _rounding(before):
            raise CannotFitError(f"{name} is the same in all rows of every story: nothing differs within stories")
    return centred


def _rounding(values: NDArray[np.float64]) -> float:
    """Differences of these values that are but rounding."""
    return float(8 * np.finfo(np.float64).eps * np.abs(values).max())


class _Likelihood:
    """The restricted likelihood as a function of the ratio tau² / sigma²."""

    def __init__(self, y: NDArray[np.float64], x: Matrix, groups: NDArray[np.intp]) -> None:
        self.y, self.x, self.groups = y, np.column_stack([np.ones(len(y)), x]), groups
        self.sizes = np.bincount(groups)
        both = np.column_stack([self.x, y])
        self._means = np.stack([np.bincount(groups, weights=column) for column in both.T], axis=1) / self.sizes[:, None]
        within = both - self._means[groups]
        self._within = within.T @ within

    def _products(self, ratio: float) -> Matrix:
        """Of the columns (intercept, predictors, outcome), weighted by the inverse of their covariance over sigma²."""
        weights = self.sizes / (1 + self.sizes * ratio)
        return np.asarray(self._within + self._means.T @ (weights[:, None] * self._means))

    def solve(self, ratio: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Coefficients (the intercept first), their standard errors, sigma²; NaN where the ratio is."""
        count = self.x.shape[1]
        if math.isnan(ratio):
            return np.full(count, np.nan), np.full(count, np.nan), math.nan
        products = self._products(ratio)
        inverse = np.linalg.inv(products[:-1, :-1])
        beta = inverse @ products[:-1, -1]
        residual = self.y - self.x @ beta
        means = np.bincount(self.groups, weights=residual) / self.sizes
        within = residual - means[self.groups]
        square = within @ within + (self.sizes / (1 + self.sizes * ratio)) @ means**2
        sigma2 = float(square) / (len(self.y) - count)
        return beta, np.sqrt(sigma2 * np.diag(inverse)), sigma2

    def __call__(self, ratio: float) -> float:
        _, _, sigma2 = self.solve(ratio)
        if not sigma2 > _NOTHING:
            return math.nan
        _, determinant = np.linalg.slogdet(self._products(ratio)[:-1, :-1])
        freedom = len(self.y) - self.x.shape[1]
        return float(-0.5 * (freedom * math.log(sigma2) + np.log1p(self.sizes * ratio).sum() + determinant))


def _ratio(likelihood: _Likelihood, optimisers: Sequence[str]) -> tuple[float | None, tuple[str, ...]]:
    """Where the likelihood is largest, None where no optimiser found it; and which were tried."""
    from statsmodels.regression.mixed_linear_model import MixedLM  # takes seconds

    model = MixedLM(likelihood.y, likelihood.x, groups=likelihood.groups)
    for count, optimiser in enumerate(optimisers, start=1):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # what they say is checked below
                fitted = model.fit(reml=True, method=optimiser)
                ratio = float(np.asarray(fitted.cov_re).item() / fitted.scale)
        except (np.linalg.LinAlgError, ValueError, ZeroDivisionError):
            continue
        if math.isfinite(ratio) and (found := _maximum(likelihood, max(ratio, 0.0))) is not None:
            return found, tuple(optimisers[:count])
    return None, tuple(optimisers)


def _maximum(likelihood: _Likelihood, ratio: float) -> float | None:
    """The ratio if the likelihood has its maximum there, or 0 where that is one; None where it goes on to rise."""
    here, at_zero, beside_zero = likelihood(ratio), likelihood(0.0), likelihood(_BOUNDARY)
    if at_zero >= beside_zero and at_zero >= here - _TOLERANCE:
        return 0.0
    if math.isnan(here) or ratio <= _BOUNDARY:
        return None
    steps = [likelihood(ratio * factor) for factor in (0.5, 0.97, 1.0, 1.03, 2.0)]
    rises = [second - first for first, second in pairwise(steps)]
    is_peak = all(rise >= -_TOLERANCE for rise in rises[:2]) and all(rise <= _TOLERANCE for rise in rises[2:])
    if not is_peak or any(map(math.isnan, rises)):
        return None
    nearby = minimize_scalar(lambda one: -likelihood(one), bounds=(0.5 * ratio, 2 * ratio), options={"xatol": 1e-9})
    return float(nearby.x)  # optimisers stop a little beside it, each at another place


def _estimate(name: str, beta: float, se: float) -> Estimate:
    z = beta / se
    p = math.erfc(abs(z) / math.sqrt(2))
    return Estimate(name, beta, se, z, p, beta - _QUANTILE * se, beta + _QUANTILE * se)


STORY = "story"


@dataclass(frozen=True)
class MixedModel:
    """One model of a table.

    Attributes:
        predictors: of it.
        fit: None where there is no such model of these values.
        reason: why not; else empty.
    """

    predictors: tuple[str, ...]
    fit: MixedFit | None
    reason: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether there are numbers that can be used."""
        return self.fit is not None and self.fit.converged


@dataclass(frozen=True)
class MixedTable:
    """Every model of a table, and how it was read where that is unusual."""

    outcome: str
    raw: bool
    models: tuple[MixedModel, ...]
    remarks: tuple[str, ...] = ()


def fit_table(
    path: Path, outcome: str, predictors: Sequence[str], *, story: str = STORY, joint: bool = False, raw: bool = False
) -> MixedTable:
    """Fit the models of a table.

    Args:
        path: CSV or Parquet; a row is one rating of one story.
        outcome: the column of the ratings.
        predictors: columns.
        story: the column of the stories.
        joint: all predictors in one model, on the rows that have them all; else one model for each.
        raw: keep the units; else everything is standardised.

    Raises:
        TableFaultError: with everything that is wrong: cells that are no numbers, a column that is not there.
        OSError: it cannot be read.
    """
    table = RatingTable(path)
    table.need([outcome, story, *predictors])
    columns = [outcome, story, *predictors]
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise TableFaultError(table.name, [f"the column {twice[0]!r} is asked for twice: each has one place"])
    stories = table.texts(story)
    for place, name in enumerate(stories):
        if not name:
            table.refuse_row(place, f"has no {story}")
    values = table.numbers([outcome, *predictors])
    table.check()
    together = [tuple(predictors)] if joint else [(name,) for name in predictors]
    models = []
    for names in together:
        x = values[:, [1 + predictors.index(name) for name in names]]
        try:
            models.append(MixedModel(names, fit_mixed(values[:, 0], x, stories, names, raw=raw)))
        except CannotFitError as error:
            models.append(MixedModel(names, None, str(error)))
    return MixedTable(outcome, raw, tuple(models), tuple(table.remarks))
