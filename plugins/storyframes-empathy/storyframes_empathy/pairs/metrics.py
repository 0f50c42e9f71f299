"""What scores of pairs are worth: correlations, errors, and what becomes of them when both sides are cut in two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from storyframes_empathy.pairs.table import Aspect, PairTable, Scores, Vector
from storyframes_empathy.statistics.agreement import pearson, spearman

THRESHOLD = 2.5


@dataclass(frozen=True)
class PairMetrics:
    """One column of scores against the labels of one aspect.

    Attributes:
        scores, aspect: which.
        pairs: that have a label and a score.
        missing: that have a label and no score; they are in none of the others.
        r, rho: Pearson's and Spearman's correlation; None where one side is always the same.
        mse: mean squared difference.
        acc: the share of pairs where both are above the threshold, or neither.
        precision, recall, f1: means over the two classes (macro), a class that occurs on neither side left out; 0 where
            a class's own is 0 / 0.
        order_gap: the mean difference between the scores of the two orders; None where one order was asked.
    """

    scores: str
    aspect: Aspect
    pairs: int
    missing: int
    r: float | None
    rho: float | None
    mse: float | None
    acc: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    order_gap: float | None


@dataclass(frozen=True)
class Evaluation:
    """Every column of scores against every aspect.

    Attributes:
        rows: one for each of both.
        labels: by aspect, how many labels have which whole number as their floor.
        threshold: above which a pair counts as similar.
        remarks: how the table was read where that is unusual.
    """

    rows: tuple[PairMetrics, ...]
    labels: Mapping[Aspect, Mapping[int, int]]
    threshold: float
    remarks: tuple[str, ...] = ()


def evaluate(table: PairTable, threshold: float = THRESHOLD) -> Evaluation:
    """Compare scores with labels; a number that is equal to the threshold is not above it."""
    rows = [
        _metrics(scores, aspect, labels, threshold)
        for scores in table.scores
        for aspect, labels in table.labels.items()
    ]
    floors = {aspect: np.floor(labels[np.isfinite(labels)]).astype(int) for aspect, labels in table.labels.items()}
    counts = {aspect: {step: int((of == step).sum()) for step in range(1, 5)} for aspect, of in floors.items()}
    return Evaluation(tuple(rows), counts, threshold, table.remarks)


def _metrics(scores: Scores, aspect: Aspect, labels: Vector, threshold: float) -> PairMetrics:
    labelled = np.isfinite(labels)
    whole = labelled & np.isfinite(scores.values)
    p, y = scores.values[whole], labels[whole]
    has_pairs = len(p) > 0
    precision, recall, f1 = _macro(p > threshold, y > threshold) if has_pairs else (None, None, None)
    return PairMetrics(
        scores=scores.name,
        aspect=aspect,
        pairs=int(whole.sum()),
        missing=int((labelled & ~whole).sum()),
        r=pearson(p, y),
        rho=spearman(p, y),
        mse=float(np.mean((p - y) ** 2)) if has_pairs else None,
        acc=float(np.mean((p > threshold) == (y > threshold))) if has_pairs else None,
        precision=precision,
        recall=recall,
        f1=f1,
        order_gap=None if scores.order_gap is None or not has_pairs else float(scores.order_gap[whole].mean()),
    )


def _macro(predicted: np.ndarray, wanted: np.ndarray) -> tuple[float, float, float]:
    found = []
    for side in (False, True):
        said, there = int((predicted == side).sum()), int((wanted == side).sum())
        hits = int(((predicted == side) & (wanted == side)).sum())
        if said or there:
            found.append((hits / said if said else 0.0, hits / there if there else 0.0, 2 * hits / (said + there)))
    precision, recall, f1 = np.mean(found, axis=0).tolist()
    return precision, recall, f1
