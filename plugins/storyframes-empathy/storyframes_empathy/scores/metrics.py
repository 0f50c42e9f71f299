"""What scores are worth: correlations, what becomes of them when both sides are cut in two, and errors.

Plain numpy and scipy, float64. Everything is a fraction here; only tables multiply by 100.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata


@dataclass(frozen=True)
class Metrics:
    """The scores of one run, on clips or on stories. NaN where a number is not defined.

    Attributes:
        n: predictions that were scored, each as often as it counts.
        r: Pearson's correlation of score and rating.
        rho: Spearman's: Pearson's of the average ranks.
        acc: the share of predictions that are positive where the rating is.
        f1: 2TP / (2TP + FP + FN), of the positive; 0 where that is 0 / 0.
        mse: mean squared difference to the rating on the scale 0 to 1 of its scheme.
        rmse: its root on the scheme's own scale: how far off a score usually is.
        mse_binary: the same to 1 where the rating is positive, else 0.
        phi: Pearson's correlation of prediction and rating when both are cut in two.
        prevalence: the share of ratings that are positive.
        tp, fp, fn, tn: how many are rightly and wrongly positive, wrongly and rightly negative.
        missing: predictions without a score, which are in none of the above.
        acc_missing_wrong: ``acc`` if each of those is counted as wrong.
    """

    n: int
    r: float
    rho: float
    acc: float
    f1: float
    mse: float
    rmse: float
    mse_binary: float
    phi: float
    prevalence: float
    tp: int
    fp: int
    fn: int
    tn: int
    missing: int
    acc_missing_wrong: float


def score(
    scores: np.ndarray,
    ratings: np.ndarray,
    *,
    threshold: float = 3.0,
    score_threshold: float = 0.5,
    minimum: float = 1.0,
    maximum: float = 5.0,
    copies: np.ndarray | None = None,
) -> Metrics:
    """Score predictions.

    Args:
        scores: (n,) on the scale 0 to 1 of the scheme; NaN is a prediction that is missing.
        ratings: (n,) from ``minimum`` to ``maximum``.
        threshold: ratings above it are positive.
        score_threshold: scores above it are positive, on the same scale as the scores.
        minimum, maximum: the scheme's smallest and largest rating.
        copies: (n,) how many times each prediction counts; None: once.

    Raises:
        ValueError: lengths differ, a score is infinite, or a rating is outside the scheme.
    """
    p, y = np.asarray(scores, np.float64), np.asarray(ratings, np.float64)
    if p.ndim != 1 or p.shape != y.shape:
        raise ValueError(f"scores {p.shape} and ratings {y.shape} must be as many, one a row")
    if copies is not None:
        p, y = np.repeat(p, copies), np.repeat(y, copies)
    if np.isinf(p).any():
        raise ValueError(f"scores[{int(np.argmax(np.isinf(p)))}] is infinite")
    if not ((y >= minimum) & (y <= maximum)).all():
        raise ValueError(f"every rating must be from {minimum:g} to {maximum:g}")
    there = ~np.isnan(p)
    missing = int((~there).sum())
    p, y = p[there], y[there]
    scaled = (y - minimum) / (maximum - minimum)
    b, c = p > score_threshold, y > threshold
    tp, fp, fn, tn = (int(np.sum(cell)) for cell in (b & c, b & ~c, ~b & c, ~b & ~c))
    n = len(p)
    mse = float(np.mean((p - scaled) ** 2)) if n else math.nan
    return Metrics(
        n=n,
        r=pearson(p, y),
        rho=spearman(p, y),
        acc=(tp + tn) / n if n else math.nan,
        f1=f1_of(tp, fp, fn),
        mse=mse,
        rmse=math.sqrt(mse) * (maximum - minimum),
        mse_binary=float(np.mean((p - c) ** 2)) if n else math.nan,
        phi=phi_of(tp, fp, fn, tn),
        prevalence=(tp + fn) / n if n else math.nan,
        tp=tp,
        fp=fp,
        fn=fn,
        tn=tn,
        missing=missing,
        acc_missing_wrong=(tp + tn) / (n + missing) if n + missing else math.nan,
    )


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's correlation of two (n,) arrays; NaN where one of them is constant, or n is below 2.

    Whether an array is constant is told from its extremes: its sum of squares may be some 1e-16 for rounding alone.
    """
    if len(a) < 2 or a.max() == a.min() or b.max() == b.min():
        return math.nan
    a, b = _centred(a), _centred(b)
    return float(np.clip(np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b)), -1, 1))


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's correlation of two (n,) arrays: Pearson's of the average ranks; NaN as there."""
    return pearson(rankdata(a), rankdata(b)) if len(a) else math.nan


def f1_of(tp: float, fp: float, fn: float) -> float:
    """F1 of the positive; 0 where nothing is positive on either side."""
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0


def phi_of(tp: float, fp: float, fn: float, tn: float) -> float:
    """The correlation of a table of four; NaN where a row or a column of it is empty."""
    sides = (tp + fp) * (fn + tn) * (tp + fn) * (fp + tn)
    return (tp * tn - fp * fn) / math.sqrt(sides) if sides else math.nan


def _centred(values: np.ndarray) -> np.ndarray:
    """Deviations from the mean, by powers of two so scaled that no square of them overflows or vanishes."""
    _, exponent = np.frexp(np.abs(values).max())
    scaled = np.ldexp(values, -exponent)
    centred = scaled - scaled.mean()
    _, exponent = np.frexp(np.abs(centred).max())
    return np.ldexp(centred, -exponent)
