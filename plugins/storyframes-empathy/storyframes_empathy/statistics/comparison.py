"""Ratings of models compared with those of people: how much they differ, and whether that can be chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from storyframes_empathy.statistics.choices import RATER, UNIT
from storyframes_empathy.statistics.rating_table import RatingTable, TableFaultError

HUMAN = "human"


@dataclass(frozen=True)
class Comparison:
    """One model beside people, over the pairs of ratings that are whole. Differences are human minus model.

    Attributes:
        group: the columns and values that these rows have in common.
        model: the column of its ratings.
        pairs: rows with both ratings.
        missing: rows that lack one of them, or both.
        mean_human, mean_model, sd_human, sd_model: of the ratings; standard deviations with n - 1.
        mean_difference, sd_difference: of the differences, with n - 1.
        rmse: the root of the mean squared difference.
        wasserstein: the mean distance that ratings would have to move for the two distributions to be the same.
        t, p: of the paired t-test with ``pairs - 1`` degrees of freedom, two-sided. NaN where all differences are the
            same, or there are fewer than two.
        p_holm: p after Holm, over all comparisons of one table whose p is a number.
        remark: why something is not a number, or may be of another scale; else empty.
    """

    group: Mapping[str, str]
    model: str
    pairs: int
    missing: int
    mean_human: float
    mean_model: float
    sd_human: float
    sd_model: float
    mean_difference: float
    sd_difference: float
    rmse: float
    wasserstein: float
    t: float
    p: float
    p_holm: float = math.nan
    remark: str = ""


@dataclass(frozen=True)
class ComparedTable:
    """Every comparison of a table, and how it was read where that is unusual."""

    rows: tuple[Comparison, ...]
    remarks: tuple[str, ...] = ()


def compare_ratings(
    path: Path, *, human: str = HUMAN, models: Sequence[str] = (), by: Sequence[str] = ()
) -> ComparedTable:
    """Compare each model of a table with people.

    Args:
        path: CSV or Parquet; a row has what a person and what models gave for the same thing.
        human: the column of people's ratings.
        models: those of the models'; empty: all but ``human``, ``by``, and the columns unit and rater.
        by: columns of which each set of values is compared by itself.

    Raises:
        TableFaultError: with everything that is wrong: cells that are no numbers, a unit that is there twice (for one
            rater, in one group), no row with both ratings.
        OSError: it cannot be read.
    """
    table = RatingTable(path)
    table.need([human, *models, *by])
    named = [name for name in (UNIT, RATER) if name in table.columns and name not in models]
    chosen = tuple(models) or tuple(name for name in table.columns if name not in (human, *by, *named))
    if not chosen:
        raise TableFaultError(table.name, [f"there is no model's column beside {human!r}"])
    if human in chosen:
        raise TableFaultError(table.name, [f"the column {human!r} cannot be people's and a model's: name another"])
    values = table.numbers((human, *chosen))
    groups = list(zip(*(table.texts(name) for name in by), strict=True)) if by else [()] * len(table)
    for place, group in enumerate(groups):
        for name, text in zip(by, group, strict=True):
            if not text:
                table.refuse_row(place, f"has no {name}")
    if UNIT in named:
        keys = [*by, *named]
        table.check_unique(list(zip(*(table.texts(name) for name in keys), strict=True)), " and ".join(keys))
    table.check()
    found = []
    for group in dict.fromkeys(groups):
        rows = np.array([one == group for one in groups])
        for at, model in enumerate(chosen, start=1):
            of_group = dict(zip(by, group, strict=True))
            found.append(compare(values[rows, 0], values[rows, at], model, of_group))
    if not any(one.pairs for one in found):
        raise TableFaultError(table.name, ["no row has both a person's and a model's rating"])
    adjusted = holm([one.p for one in found])
    rows_read = tuple(replace(one, p_holm=p) for one, p in zip(found, adjusted, strict=True))
    unread = [name for name in table.columns if name not in (human, *chosen, *by, *named)]
    remarks = [*table.remarks, *([f"columns that were not read: {', '.join(unread)}"] if unread else [])]
    return ComparedTable(rows_read, tuple(remarks))


def compare(
    human: NDArray[np.float64], model: NDArray[np.float64], name: str = "", group: Mapping[str, str] | None = None
) -> Comparison:
    """Compare paired ratings, (rows,) each; NaN where one is missing.

    Raises:
        ArithmeticError: t is not what root mean square and mean of the differences say it is; that is a fault here.
    """
    whole = np.isfinite(human) & np.isfinite(model)
    a, b = human[whole], model[whole]
    difference, n = a - b, len(a)
    mean, rmse = _mean(difference), math.sqrt(_mean(difference**2)) if n else math.nan
    sd = _sd(difference)
    t, remark = math.nan, ""
    if n < 2:
        remark = f"{'no row has' if not n else 'only one row has'} both ratings: no t-test"
    elif _are_the_same(difference, a, b):
        remark = "all differences are the same: no t-test"
    else:
        t = mean / (sd / math.sqrt(n))
        rounding = 1e-13 * rmse**2 / ((n - 1) / n * sd**2)  # of RMSE² - d², where the two are nearly the same
        if rounding < 0.1 and not math.isclose(t, t_of(rmse, mean, n), rel_tol=1e-9 + rounding, abs_tol=1e-9):
            raise ArithmeticError(f"{name}: t = {t!r} is not that of RMSE {rmse!r} and mean difference {mean!r}")
    if n > 1 and not remark and (a.max() < b.min() or b.max() < a.min()):
        low, high = ("people's", "the model's") if a.max() < b.min() else ("the model's", "people's")
        remark = f"every one of {high} ratings is above all of {low}: are they on the same scale?"
    return Comparison(
        group=dict(group or {}),
        model=name,
        pairs=n,
        missing=len(human) - n,
        mean_human=_mean(a),
        mean_model=_mean(b),
        sd_human=_sd(a),
        sd_model=_sd(b),
        mean_difference=mean,
        sd_difference=sd,
        rmse=rmse,
        wasserstein=_mean(np.abs(np.sort(a) - np.sort(b))),  # of as many values each: the order moves them least
        t=t,
        p=float(2 * stdtr(n - 1, -abs(t))) if math.isfinite(t) else math.nan,
        remark=remark,
    )


def t_of(rmse: float, mean_difference: float, pairs: float) -> float:
    """The paired t that root mean square and mean of the differences allow; NaN where those are equal."""
    spread = rmse**2 - mean_difference**2
    return mean_difference * math.sqrt(pairs - 1) / math.sqrt(spread) if spread > 0 else math.nan


def implied_pairs(rmse: float, mean_difference: float, t: float) -> float:
    """How many pairs a published row was made of, by the same identity.

    Raises:
        ZeroDivisionError: the mean difference is 0, and so is t: any number would do.
    """
    return 1 + t**2 * (rmse**2 - mean_difference**2) / mean_difference**2


def holm(values: Sequence[float]) -> list[float]:
    """P-values after Holm's correction for as many of them as are numbers; NaN stays."""
    order = sorted((p, place) for place, p in enumerate(values) if not math.isnan(p))
    adjusted, largest = [math.nan] * len(values), 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        adjusted[place] = largest
    return adjusted


def _are_the_same(difference: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether differences are the same but for rounding: 0.3 - 0.1 is not quite 0.4 - 0.2."""
    largest = max(np.abs(a).max(), np.abs(b).max())
    return float(np.ptp(difference)) <= 4 * np.finfo(np.float64).eps * largest


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else math.nan


def _sd(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan
