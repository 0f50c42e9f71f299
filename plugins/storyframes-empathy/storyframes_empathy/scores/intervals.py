"""How sure a score is: participants left out in turn, and ratings dealt out again among a session's stories.

Both keep what belongs together together. Clips of one participant are alike, so that clips drawn singly would make
every interval far too narrow; and a participant who rates high in one session would make every shuffling of ratings
across sessions look like a finding.

An interval is a jackknife over participants: each metric is computed without each participant in turn, on a scale on
which it is nearly normal, and the spread of these values becomes an interval by a quantile of Student's t. A
simulation in the tests counts how often such intervals hold the true value. (Percentiles of participants drawn again
hold it 72 to 83 times of 100 with four participants, for a nominal 95.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, stdtrit

from storyframes_empathy.scores.metrics import pearson, spearman
from storyframes_empathy.scores.scored_rows import Scored

DRAWS = 1_000
FEWEST = 4
"""Participants below which there is no interval: fewer were not simulated."""
_MOST = 128  # participants up to which the ranks of all leavings-out fit into one product


@dataclass(frozen=True)
class Interval:
    """Where a metric lies among all participants like these, with a confidence of 95 %.

    Attributes:
        low, high: the limits; both NaN where there is no interval, ``high`` infinite where only the lower limit exists.
        reason: why a limit does not exist; empty where both do.
    """

    low: float
    high: float
    reason: str = ""


@dataclass(frozen=True)
class Scale:
    """A scale on which a metric is nearly normal, and the way back."""

    to: Callable[[np.ndarray], np.ndarray]
    back: Callable[[float], float]
    is_mean: bool  # every row counts by itself, so participants with many rows count for more


def _reciprocal_root(values: np.ndarray) -> np.ndarray:
    return -1 / np.sqrt(values)


def _from_reciprocal_root(value: float) -> float:
    return 1 / value**2 if value < 0 else math.inf


_CORRELATION = Scale(np.arctanh, math.tanh, is_mean=False)
_SHARE = Scale(logit, lambda value: float(expit(value)), is_mean=True)
_ERROR = Scale(_reciprocal_root, _from_reciprocal_root, is_mean=True)
_SCALES = {
    "r": _CORRELATION,
    "rho": _CORRELATION,
    "acc": _SHARE,
    "f1": _SHARE,
    "mse": _ERROR,
    "mse_binary": _ERROR,
    "phi": _CORRELATION,
    "prevalence": _SHARE,
}


def participant_intervals(scored: Scored) -> dict[str, Interval]:
    """The interval of each metric, from what it is without each participant in turn.

    Args:
        scored: what was scored; answers that are missing are left out.
    """
    there = ~np.isnan(scored.scores)
    p = np.repeat(scored.scores[there], scored.copies[there])
    y = np.repeat(scored.ratings[there], scored.copies[there])
    _, who = np.unique(np.repeat(scored.participants[there], scored.copies[there]), return_inverse=True)
    sizes = np.bincount(who)
    people = len(sizes)
    if people < FEWEST:
        reason = f"too few participants for an interval: {people}, and {FEWEST} are the fewest"
        return dict.fromkeys(_SCALES, Interval(math.nan, math.nan, reason))
    run = scored.run
    weights = np.vstack([np.ones(people), 1 - np.eye(people)])  # all of them, then all but one
    scaled = (y - run.minimum) / (run.maximum - run.minimum)
    values = _of_sums(p, scaled, p > scored.score_threshold, y > run.threshold, who, weights)
    ranked = _rho_at_once if people <= _MOST else _rho_each
    values["rho"] = np.where(np.isnan(values["r"]), np.nan, ranked(p, y, who, weights))
    return {name: jackknife(values[name], sizes, scale) for name, scale in _SCALES.items()}


def permutation_p(scored: Scored, *, draws: int = DRAWS, seed: int = 0) -> float:
    """How often ratings dealt out by chance agree with the scores at least as well as the true ones do (r, one-sided).

    Each session's ratings are dealt out again among that session's stories, the clips of one story keeping one rating.
    Stories of different sessions are not exchanged, nor are those of different participants: where ratings and scores
    both depend on the session, they agree although neither knows anything of the other. The true dealing counts as
    one, so that no p is 0.

    Args:
        scored: what was scored; answers that are missing are left out.
        draws: how often.
        seed: of the draws.

    Returns:
        p; NaN where r is not defined, ratings are not of stories, or no session has two stories with different
        ratings, so that there is nothing to deal out.
    """
    there = ~np.isnan(scored.scores)
    p, y, weight = scored.scores[there], scored.ratings[there], scored.copies[there].astype(np.float64)
    true = pearson(np.repeat(p, scored.copies[there]), np.repeat(y, scored.copies[there]))
    if math.isnan(true) or (scored.stories < 0).any():
        return math.nan
    _, first, unit = np.unique(scored.stories[there], return_index=True, return_inverse=True)
    count, mean = np.bincount(unit, weight), np.average(p, weights=weight)
    total = np.bincount(unit, weight * (p - mean))  # of each story
    ratings = y[first] - y[first].mean()
    sessions = np.stack([scored.participants[there][first], scored.sessions[there][first]])
    _, owner = np.unique(sessions, axis=1, return_inverse=True)
    if np.unique(np.stack([owner, ratings]), axis=1).shape[1] == owner.max() + 1:
        return math.nan  # one rating in each session
    order = np.argsort(owner, kind="stable")
    keys = np.random.default_rng(seed).random((draws, len(order)))
    dealt = np.empty_like(keys)
    # sorted by owner, then by chance: a permutation within every session
    dealt[:, order] = ratings[order][np.argsort(owner[order] + keys[:, order], axis=1)]
    spread = math.sqrt(float(np.sum(weight * (p - mean) ** 2)))

    def r_of(given: np.ndarray) -> np.ndarray:
        around = given - (given @ count / count.sum())[:, None]
        variance = around**2 @ count
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(variance > 1e-12 * (given**2 @ count), around @ total / (np.sqrt(variance) * spread), -1.0)

    least = float(r_of(ratings[None])[0]) - 1e-12  # a dealing that changes nothing is as good as the true one
    return (1 + int(np.sum(r_of(dealt) >= least))) / (draws + 1)


def jackknife(values: np.ndarray, sizes: np.ndarray, scale: Scale) -> Interval:
    """The interval of a metric.

    Args:
        values: (1 + participants,) of all participants, then without each of them.
        sizes: (participants,) how many rows each has.
        scale: on which the metric is nearly normal.
    """
    if np.isnan(values).any():
        return Interval(math.nan, math.nan, "not defined where one of the participants is left out")
    if np.ptp(values) < 1e-12:
        return Interval(math.nan, math.nan, "the same whichever participant is left out")
    with np.errstate(divide="ignore"):
        on_scale = scale.to(values)
    if not np.isfinite(on_scale).all():
        return Interval(math.nan, math.nan, "at the end of its range where one of the participants is left out")
    people = len(sizes)
    error = math.sqrt((people - 1) / people * float(np.sum((on_scale[1:] - on_scale[0]) ** 2)))
    # a mean over rows of which a few participants have most is of fewer participants than there are (Kish 1965)
    effective = float(sizes.sum()) ** 2 / float(np.sum(sizes.astype(np.float64) ** 2)) if scale.is_mean else people
    reach = float(stdtrit(max(effective - 1, 1.0), 0.975)) * error
    low, high = scale.back(float(on_scale[0]) - reach), scale.back(float(on_scale[0]) + reach)
    return Interval(low, high, "" if math.isfinite(high) else "no upper limit: the participants differ too much")


def _of_sums(
    p: np.ndarray, y: np.ndarray, b: np.ndarray, c: np.ndarray, who: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Each metric for each weighting of participants, from sums over each of them.

    Args:
        p, y, b, c: (n,) scores and ratings on one scale, and both cut in two.
        who: (n,) the participant.
        weights: (weightings, participants) how often each counts.
    """
    centred_p, centred_y = p - p.mean(), y - y.mean()
    columns = (
        *(np.ones(len(p)), centred_p, centred_y, centred_p**2, centred_y**2, centred_p * centred_y),
        *((p - y) ** 2, (p - c) ** 2, b & c, b & ~c, ~b & c, ~b & ~c),
    )
    sums = np.array([np.bincount(who, column, minlength=weights.shape[1]) for column in columns])
    n, sp, sy, spp, syy, spy, mse, binary, tp, fp, fn, tn = sums @ weights.T
    with np.errstate(divide="ignore", invalid="ignore"):
        r = (spy - sp * sy / n) / np.sqrt((spp - sp**2 / n) * (syy - sy**2 / n))
        phi = (tp * tn - fp * fn) / np.sqrt((tp + fp) * (fn + tn) * (tp + fn) * (fp + tn))
        f1 = np.where(tp + fp + fn > 0, 2 * tp / (2 * tp + fp + fn), 0.0)
    constant = _is_constant(p, who, weights) | _is_constant(y, who, weights)
    return {
        "r": np.where(constant, np.nan, np.clip(r, -1, 1)),
        "acc": (tp + tn) / n,
        "f1": f1,
        "mse": mse / n,
        "mse_binary": binary / n,
        "phi": phi,
        "prevalence": (tp + fn) / n,
    }


def _is_constant(values: np.ndarray, who: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(weightings,) whether all values that count are the same."""
    people = weights.shape[1]
    low, high = np.full(people, np.inf), np.full(people, -np.inf)
    np.minimum.at(low, who, values)
    np.maximum.at(high, who, values)
    drawn = weights > 0
    return np.where(drawn, low, np.inf).min(axis=1) == np.where(drawn, high, -np.inf).max(axis=1)


def _rho_at_once(p: np.ndarray, y: np.ndarray, who: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(weightings,) Spearman's correlation for each weighting, without ranking any of them.

    The rank of a row is a sum over participants of how many of their rows are below it, times how often they count.
    So sums of products of ranks are cubic in the weights, and their coefficients are the same for all weightings.
    """
    people = weights.shape[1]
    a, b = _below(p, who, people), _below(y, who, people)
    of = [np.flatnonzero(who == one) for one in range(people)]

    def summed(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        coefficients = np.stack([one[rows].T @ other[rows] for rows in of]).reshape(people, -1)
        found = np.empty(len(weights))
        for at in range(0, len(weights), 100):
            some = weights[at : at + 100]
            squares = (some @ coefficients).reshape(-1, people, people)
            found[at : at + 100] = ((squares @ some[:, :, None])[:, :, 0] * some).sum(axis=1)
        return found

    n = weights @ np.bincount(who, minlength=people)
    of_means = n * (n / 2) ** 2  # a rank counted like this is n / 2 on average
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = (summed(a, b) - of_means) / np.sqrt((summed(a, a) - of_means) * (summed(b, b) - of_means))
    return np.clip(rho, -1, 1)


def _below(values: np.ndarray, who: np.ndarray, people: int) -> np.ndarray:
    """(n, people) for every row how many rows of each participant are below it; those that are equal count one half."""
    order = np.argsort(values, kind="stable")
    before = np.zeros((len(values) + 1, people))
    before[np.arange(1, len(values) + 1), who[order]] = 1
    np.cumsum(before, axis=0, out=before)
    ranked = values[order]
    return (before[np.searchsorted(ranked, values, "left")] + before[np.searchsorted(ranked, values, "right")]) / 2


def _rho_each(p: np.ndarray, y: np.ndarray, who: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(weightings,) the same, one by one: for so many participants that their coefficients would fill the memory."""
    times = weights.astype(np.int64)
    return np.array([spearman(np.repeat(p, drawn[who]), np.repeat(y, drawn[who])) for drawn in times])
