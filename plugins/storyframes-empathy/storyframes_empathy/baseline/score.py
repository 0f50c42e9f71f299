"""Each feature beside the mean of the others: errors, an interval over people, a permutation p, and one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from storyframes_empathy.baseline.labelled_units import BaselineError, Units
from storyframes_empathy.baseline.left_out_people import FEWEST, dealt, logistic, mean_of_others, mode_of_others, ridge
from storyframes_empathy.scores.intervals import DRAWS, Interval, Scale, jackknife
from storyframes_empathy.scores.intervals import FEWEST as FEWEST_OF_INTERVALS
from storyframes_empathy.scores.metrics import pearson

_RATIO = Scale(np.log, math.exp, is_mean=True)
_SURE, _POWER, _R = 0.05, 0.8, 0.3


@dataclass(frozen=True)
class FeatureScore:
    """What a feature is worth.

    Attributes:
        feature: its name.
        n, people: how many units and people have it.
        error: of the predictions: the root of the mean squared error on the label's own scale, or the share of wrong
            classes; NaN where there is no score.
        error_of_others: the same of the mean, or of the most frequent class, of the other people.
        saved: the share of the squared error (of the wrong classes) that the feature saves; below 0 where it adds some.
        interval: of ``saved``.
        r: the correlation of predictions and labels; NaN for classes. Without any effect it is below 0, not 0: who is
            above the mean is predicted from others whose mean is lower.
        p: how often labels that people exchanged save as much.
        reason: why there is no score; empty where there is one.
    """

    feature: str
    n: int
    people: int
    error: float = math.nan
    error_of_others: float = math.nan
    saved: float = math.nan
    interval: Interval = field(default_factory=lambda: Interval(math.nan, math.nan))
    r: float = math.nan
    p: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class Baseline:
    """All features of a store beside the mean of the others.

    Attributes:
        units: what was labelled.
        scores: of each feature, the smallest p first.
        sentence: what can be said of them.
    """

    units: Units
    scores: tuple[FeatureScore, ...]
    sentence: str


def score_baseline(
    units: Units, means: Mapping[str, np.ndarray | str], *, draws: int = DRAWS, seed: int = 0
) -> Baseline:
    """Score each feature.

    Args:
        units: what was labelled.
        means: by feature (n, columns), NaN where a unit has no measurement; or the reason why there are none.
        draws: how often people exchange their labels.
        seed: of these draws.

    Raises:
        BaselineError: the label has one value, or is of too few people.
    """
    people = len(np.unique(units.people))
    if people < FEWEST:
        who = "one person" if people == 1 else f"{people} people (or groups who met)"
        raise BaselineError(
            f"the label {units.label!r} is of {who}, and each is predicted from the others, {FEWEST} at least: give "
            "each person an id of their own in the column participant_id of the table 'sessions', and index again"
        )
    if len(np.unique(units.labels)) == 1:
        raise BaselineError(f"the label {units.label!r} has one value everywhere: there is nothing to predict")
    scores = [_score(units, name, rows, draws, seed) for name, rows in means.items()]
    scores.sort(key=lambda one: (math.isnan(one.p), one.p, -one.saved))
    return Baseline(units, tuple(scores), sentence(units.label, people, scores))


def sentence(label: str, people: int, scores: list[FeatureScore]) -> str:
    """What can be said of the scores; the smallest p counts as many times as features were tried."""
    tried = [one for one in scores if not one.reason]
    if not tried:
        return f"No feature can be scored: {scores[0].reason}."
    best, needed = min(tried, key=lambda one: (one.p * len(tried) > _SURE or one.saved <= 0, one.p)), people_needed(_R)
    p = min(1.0, best.p * len(tried))
    features = f"{len(tried)} feature{'s' * (len(tried) > 1)} tried"
    if p <= _SURE and best.saved <= 0:
        return (
            f"{best.feature} goes together with {label}: p = {p:.2g}, {features}. But it predicts people whom it has "
            "not seen no better than a guess without it."
        )
    if p <= _SURE:
        return f"{best.feature} tells something of {label} in people whom it has not seen: p = {p:.2g}, {features}."
    if people >= needed:
        return f"No feature tells anything of {label} in other people: the smallest p is {p:.2g}, {features}."
    return (
        f"With {people} people nothing can be said of {label}: the smallest p is {p:.2g}, {features}. To find a "
        f"correlation of {_R} would need about {needed} people."
    )


def people_needed(r: float) -> int:
    """People for whom a correlation is found (two-sided, 5 %) in 80 of 100 studies, by Fisher's z."""
    return math.ceil(((ndtri(1 - _SURE / 2) + ndtri(_POWER)) / math.atanh(r)) ** 2 + 3)


def _score(units: Units, name: str, means: np.ndarray | str, draws: int, seed: int) -> FeatureScore:
    if isinstance(means, str):
        return FeatureScore(name, 0, 0, reason=means)
    own = np.isfinite(means).any(axis=1)
    features, labels, people = means[own], units.labels[own], units.people[own]
    count = len(np.unique(people))
    varies = own.any() and (np.fmax.reduce(features) > np.fmin.reduce(features)).any()
    reasons = {
        "it has no measurement": not own.any(),
        f"{count} {'person has' if count == 1 else 'people have'} it, and {FEWEST} are the fewest": count < FEWEST,
        f"all {units.label} with it are equal": len(np.unique(labels)) < 2,
        "it is the same everywhere": not varies,
    }
    if reason := next((reason for reason, holds in reasons.items() if holds), ""):
        return FeatureScore(name, len(labels), count, reason=reason)
    given = np.vstack([np.arange(len(labels)), dealt(people, draws, seed)])
    targets = [(labels == place).astype(float) for place in range(len(units.classes))] or [labels]
    left, all_of_it = np.zeros(draws + 1), np.zeros(draws + 1)
    for target in targets:  # of classes one each: whether it is this class
        asked = target[given].T
        predicted, mean = ridge(features, asked, people), mean_of_others(asked, people)
        left += np.sum((predicted - asked) ** 2, axis=0)
        all_of_it += np.sum((mean - asked) ** 2, axis=0)
    kept = left / all_of_it
    p = (1 + int(np.sum(~(kept[1:] > kept[0] + 1e-12)))) / (draws + 1)  # labels that are equal by chance count as well
    if units.classes:
        errors = (logistic(features, labels, people) != labels).astype(float)
        of_others = (mode_of_others(labels, people) != labels).astype(float)
        r, error, error_of_others = math.nan, float(errors.mean()), float(of_others.mean())
    else:
        errors, of_others = (predicted[:, 0] - labels) ** 2, (mean[:, 0] - labels) ** 2
        r = pearson(predicted[:, 0], labels)
        error, error_of_others = math.sqrt(errors.mean()), math.sqrt(of_others.mean())
    return FeatureScore(
        name,
        len(labels),
        count,
        error,
        error_of_others,
        _saved(errors, of_others),
        _interval(errors, of_others, people),
        r,
        p,
    )


def _saved(errors: np.ndarray, of_others: np.ndarray) -> float:
    return float(1 - errors.sum() / of_others.sum()) if of_others.any() else math.nan


def _interval(errors: np.ndarray, of_others: np.ndarray, people: np.ndarray) -> Interval:
    """Of the share that is saved: people left out in turn, as in the scores of runs; nothing is fitted again."""
    _, who = np.unique(people, return_inverse=True)
    if who.max() + 1 < FEWEST_OF_INTERVALS:
        return Interval(math.nan, math.nan, f"{FEWEST_OF_INTERVALS} people are the fewest for an interval")
    sums, of_mean = np.bincount(who, errors), np.bincount(who, of_others)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.append(sums.sum(), sums.sum() - sums) / np.append(of_mean.sum(), of_mean.sum() - of_mean)
    kept = jackknife(ratios, np.bincount(who), _RATIO)
    return Interval(1 - kept.high, 1 - kept.low, kept.reason)
