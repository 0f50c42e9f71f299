"""How sure a score is: participants drawn again, and ratings dealt out again among a participant's stories.

Both keep what belongs together together. Clips of one participant are alike, so that clips drawn singly would make
every interval far too narrow; and a participant who rates high throughout would make every shuffling of ratings across
participants look like a finding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tasks.empathy.levels import Scored
from tasks.empathy.metrics import pearson, spearman

DRAWS = 1_000
_MOST = 128  # participants up to which the ranks of all draws fit into one product


@dataclass(frozen=True)
class Interval:
    """The middle 95 % of what a metric is when participants are drawn again.

    Attributes:
        low, high: percentiles 2.5 and 97.5; NaN where no draw has a value, or there is one participant only.
        undefined: draws in which the metric is not defined; they are left out.
    """

    low: float
    high: float
    undefined: int


def bootstrap(scored: Scored, *, draws: int = DRAWS, seed: int = 0) -> dict[str, Interval]:
    """Intervals of the metrics, from as many participants drawn with replacement as there are.

    Args:
        scored: what was scored; answers that are missing are left out.
        draws: how often.
        seed: of the draws.
    """
    there = ~np.isnan(scored.scores)
    p = np.repeat(scored.scores[there], scored.copies[there])
    y = np.repeat(scored.ratings[there], scored.copies[there])
    _, who = np.unique(np.repeat(scored.participants[there], scored.copies[there]), return_inverse=True)
    people = int(who.max()) + 1 if len(who) else 0
    run = scored.run
    values = {}
    if people > 1:
        weights = np.random.default_rng(seed).multinomial(people, [1 / people] * people, size=draws).astype(np.float64)
        scaled = (y - run.minimum) / (run.maximum - run.minimum)
        values = _of_sums(p, scaled, p > scored.score_threshold, y > run.threshold, who, weights)
        ranked = _rho_at_once if people <= _MOST else _rho_each
        values["rho"] = np.where(np.isnan(values["r"]), np.nan, ranked(p, y, who, weights))
    names = ("r", "rho", "acc", "f1", "mse", "mse_binary", "phi", "prevalence")
    return {name: _interval(values.get(name, np.full(draws, np.nan))) for name in names}


def permutation_p(scored: Scored, *, draws: int = DRAWS, seed: int = 0) -> float:
    """How often ratings dealt out by chance agree with the scores at least as well as the true ones do (r, one-sided).

    Each participant's ratings are dealt out again among that participant's sessions and stories, the clips of one
    story keeping one rating. The true dealing counts as one, so that no p is 0.

    Args:
        scored: what was scored; answers that are missing are left out.
        draws: how often.
        seed: of the draws.

    Returns:
        p; NaN where r is not defined, or ratings are not of stories.
    """
    there = ~np.isnan(scored.scores)
    p, y, weight = scored.scores[there], scored.ratings[there], scored.copies[there].astype(np.float64)
    true = pearson(np.repeat(p, scored.copies[there]), np.repeat(y, scored.copies[there]))
    if math.isnan(true) or (scored.stories < 0).any():
        return math.nan
    _, first, unit = np.unique(scored.stories[there], return_index=True, return_inverse=True)
    count, mean = np.bincount(unit, weight), np.average(p, weights=weight)
    total = np.bincount(unit, weight * (p - mean))  # of each story
    ratings, owner = y[first] - y[first].mean(), scored.participants[there][first]
    order = np.argsort(owner, kind="stable")
    keys = np.random.default_rng(seed).random((draws, len(order)))
    dealt = np.empty_like(keys)
    # sorted by owner, then by chance: a permutation within every owner
    dealt[:, order] = ratings[order][np.argsort(owner[order] + keys[:, order], axis=1)]
    spread = math.sqrt(float(np.sum(weight * (p - mean) ** 2)))

    def r_of(given: np.ndarray) -> np.ndarray:
        around = given - (given @ count / count.sum())[:, None]
        variance = around**2 @ count
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(variance > 1e-12 * (given**2 @ count), around @ total / (np.sqrt(variance) * spread), -1.0)

    least = float(r_of(ratings[None])[0]) - 1e-12  # a dealing that changes nothing is as good as the true one
    return (1 + int(np.sum(r_of(dealt) >= least))) / (draws + 1)


def _interval(values: np.ndarray) -> Interval:
    there = values[~np.isnan(values)]
    low, high = np.percentile(there, [2.5, 97.5]) if len(there) else (math.nan, math.nan)
    return Interval(float(low), float(high), int(len(values) - len(there)))


def _of_sums(
    p: np.ndarray, y: np.ndarray, b: np.ndarray, c: np.ndarray, who: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Each metric of each draw, from sums over each participant.

    Args:
        p, y, b, c: (n,) scores and ratings on one scale, and both cut in two.
        who: (n,) the participant.
        weights: (draws, participants) how often each is drawn.
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
    """(draws,) whether all values of a draw are the same."""
    people = weights.shape[1]
    low, high = np.full(people, np.inf), np.full(people, -np.inf)
    np.minimum.at(low, who, values)
    np.maximum.at(high, who, values)
    drawn = weights > 0
    return np.where(drawn, low, np.inf).min(axis=1) == np.where(drawn, high, -np.inf).max(axis=1)


def _rho_at_once(p: np.ndarray, y: np.ndarray, who: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(draws,) Spearman's correlation of each draw, without ranking any of them.

    The rank of a row in a draw is a sum over participants of how many of their rows are below it, times how often they
    are drawn. So sums of products of ranks are cubic in the weights, and their coefficients are the same for all draws.
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
    """(draws,) the same, draw by draw: for so many participants that their coefficients would fill the memory."""
    times = weights.astype(np.int64)
    return np.array([spearman(np.repeat(p, drawn[who]), np.repeat(y, drawn[who])) for drawn in times])
