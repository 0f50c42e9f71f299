"""Scores of story pairs by a language model: each pair is asked in both orders, since a model may favour one.

The gate, budget and cache are those of :mod:`storyframes_empathy.text.llm`. A pair's score is the mean of its two
orders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from storyframes_empathy.pairs.table import HIGHEST, LOWEST, Aspect, PairTexts, both_orders
from storyframes_empathy.text.cache import Answer
from storyframes_empathy.text.llm import Question, Service, as_question

OWN_WORDING = "the prompt is storyframes' own wording, not that of a publication"
SYSTEM = "You compare two personal stories and rate how similar they are in one respect."
_RESPECTS = {
    Aspect.EVENT: "in what happens: the events, the situation and its outcome",
    Aspect.EMOTION: "in what the narrators feel: the emotions and how strong they are",
    Aspect.MORAL: "in what the narrators take from it: the lesson or moral",
    Aspect.EMPATHY: "overall, so that the narrator of one story would empathize with the narrator of the other",
}
_ENDS = f"{LOWEST:g} means not similar at all and {HIGHEST:g} means very similar"


def task(aspect: Aspect) -> str:
    """The question, without stories."""
    return (
        f"You will receive two stories. Please rate, on a scale from {LOWEST:g} to {HIGHEST:g}, how similar they are "
        f"{_RESPECTS[aspect]}. {_ENDS}. Return just the number, no other text."
    )


def messages(first: str, second: str, aspect: Aspect) -> list[dict[str, str]]:
    """What is sent for one order of a pair. A story is data: nothing tells the model to obey what is written in one."""
    content = f"{task(aspect)}\n\nFirst story:\n{first}\n\nSecond story:\n{second}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]


def prompt_digest(aspect: Aspect) -> str:
    """SHA-256 of the question, to tell in a record which one it was."""
    return hashlib.sha256(f"{SYSTEM}\n{task(aspect)}".encode()).hexdigest()


@dataclass(frozen=True)
class AspectScores:
    """How asking about one aspect came out.

    Attributes:
        pairs: with a score.
        missing: pairs where an answer to one of the orders was no number on the scale.
        order_gap: the mean difference between the scores of the two orders; None without a score.
    """

    pairs: int
    missing: int
    order_gap: float | None


def pair_questions(texts: PairTexts, aspect: Aspect, service: Service) -> tuple[list[Question], list[Question]]:
    """What would be asked of each pair: A with B, and B with A."""
    pairs = list(zip(texts.a, texts.b, strict=True))
    scale = (LOWEST, HIGHEST)
    return (
        [as_question(messages(a, b, aspect), service, scale) for a, b in pairs],
        [as_question(messages(b, a, aspect), service, scale) for a, b in pairs],
    )


def add_scores(
    table: pd.DataFrame,
    aspect: Aspect,
    orders: tuple[Sequence[Question], Sequence[Question]],
    answers: Mapping[str, Answer],
) -> AspectScores:
    """Add columns to ``table``: ``llm_ASPECT``, the orders' scores in ``…_ab`` and ``…_ba``, their gap in ``…_gap``.

    All are NaN where they miss; the score and the gap also where one of the orders does.
    """
    name = f"llm_{aspect}"
    ab, ba = (np.array([answers[one.digest].score for one in order], np.float64) for order in orders)
    scores = both_orders(ab, ba, name)
    gap = np.abs(ab - ba)
    table[name], table[f"{name}_ab"], table[f"{name}_ba"], table[f"{name}_gap"] = scores.values, ab, ba, gap
    there = np.isfinite(gap)
    return AspectScores(int(there.sum()), int((~there).sum()), float(gap[there].mean()) if there.any() else None)
