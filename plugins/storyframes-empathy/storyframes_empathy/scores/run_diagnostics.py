"""Diagnostics of a run: losses by epoch, calibration of its scores, and scores by participant."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from storyframes_empathy.scores.metrics import pearson
from storyframes_empathy.scores.scored_rows import Scored

EPOCHS = "epochs.jsonl"
_BINS = 10


@dataclass(frozen=True)
class Epoch:
    """One epoch of training: NaN where the run does not say."""

    epoch: int
    train_mse: float
    val_mse: float


@dataclass(frozen=True)
class Bin:
    """Some of a run's scores that lie beside each other.

    Attributes:
        score: their mean.
        rating: the mean of their ratings, on the scale 0 to 1 of the scheme.
        n: how many.
    """

    score: float
    rating: float
    n: int


@dataclass(frozen=True)
class OfParticipant:
    """What the scores of one participant's clips or stories are worth.

    Attributes:
        participant: the id.
        n: how many.
        r: Pearson's correlation of score and rating; NaN where it is not defined.
        mse: mean squared difference to the rating on the scale 0 to 1.
    """

    participant: str
    n: int
    r: float
    mse: float


def read_epochs(folder: Path) -> list[Epoch]:
    """The epochs of a run, from ``epochs.jsonl``: one object for each; none where there is no such file.

    Raises:
        ValueError: a line is no object with a whole number ``epoch``; the message names the file and the line.
        OSError: it cannot be read.
    """
    path = folder / EPOCHS
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            one = json.loads(line)
            found.append(Epoch(int(one["epoch"]), _number(one.get("train_mse")), _number(one.get("val_mse"))))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path}: line {number}: must be an object with a whole number 'epoch'") from None
    return found


def calibration(scored: Scored, bins: int = _BINS) -> list[Bin]:
    """Scores in up to ``bins`` groups of about as many, each with its mean rating: the same, if scores are true."""
    there = ~np.isnan(scored.scores)
    scores, ratings = scored.scores[there], _scaled(scored)[there]
    if not len(scores):
        return []
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, bins + 1)[1:-1]))
    group = np.searchsorted(edges, scores, side="right")
    weight = scored.copies[there]
    return [
        Bin(float(np.average(scores[of], weights=weight[of])), float(np.average(ratings[of], weights=weight[of])),
            int(weight[of].sum()))
        for of in (group == one for one in np.unique(group))
    ]  # fmt: skip


def by_participant(scored: Scored) -> Iterator[OfParticipant]:
    """Each participant by itself, in the order of the ids."""
    ratings = _scaled(scored)
    for number in sorted(range(len(scored.names)), key=scored.names.__getitem__):
        of = (scored.participants == number) & ~np.isnan(scored.scores)
        p, y = np.repeat(scored.scores[of], scored.copies[of]), np.repeat(ratings[of], scored.copies[of])
        mse = float(np.mean((p - y) ** 2)) if len(p) else math.nan
        yield OfParticipant(scored.names[number], len(p), pearson(p, y), mse)


def _scaled(scored: Scored) -> np.ndarray:
    return (scored.ratings - scored.run.minimum) / (scored.run.maximum - scored.run.minimum)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
