"""Topics of the stories (Appendix A of the paper): embeddings, laid out in two dimensions by UMAP, grouped by K-means.

UMAP: McInnes, Healy and Melville (2018), with cosine distances, 15 neighbours and a least distance of .1, on one
thread, so that a seed gives the same points on a machine. The number of topics is the one with the best silhouette,
unless given.

UMAP and K-means part what has no topics, too: noise gives some three topics with a silhouette of 0.4. So the silhouette
is compared with those of embeddings that have the same mean and the same covariance and are normally distributed, laid
out and grouped alike (Liu et al. 2008 compare two groups so). Where one of these parts as well, a caveat says so.

Terms are those of the highest class-based TF-IDF: words that are common in a topic's stories and rare in
the others'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

FEWEST_STORIES = 4
_NEIGHBOURS = 15
_MIN_DIST = 0.1
_MOST_TOPICS = 20
_STARTS = 10  # of K-means
_DRAWS = 19  # without topics: one of twenty silhouettes is above all of them by chance


class TopicError(ValueError):
    """There are no topics to find; the message says why."""


class Space(StrEnum):
    """In which points are grouped."""

    LAYOUT = "layout"  # the two dimensions of UMAP
    EMBEDDING = "embedding"  # all dimensions, by direction


@dataclass(frozen=True)
class Topics:
    """The position and the topic of each text.

    Attributes:
        points: (n, 2) float32.
        labels: (n,) the topic of each text, 0 the largest.
        silhouettes: by number of topics, how well they part, from -1 to 1; only the one where the number was given.
        of_chance: the best silhouettes of embeddings without topics, until one of them was as good, or none was.
        caveats: what the numbers do not tell by themselves.
    """

    points: np.ndarray
    labels: np.ndarray
    silhouettes: Mapping[int, float]
    of_chance: tuple[float, ...] = ()
    caveats: tuple[str, ...] = field(default=())


def find_topics(
    embeddings: np.ndarray,
    *,
    topics: int | None = None,
    seed: int = 0,
    space: Space = Space.LAYOUT,
    draws: int = _DRAWS,
) -> Topics:
    """Lay texts out and group them.

    Args:
        embeddings: (n, width), one row a text; only directions matter.
        topics: how many; None takes the number from 2 to 20 that parts them best.
        seed: of the layout and of the groups.
        space: in which they are grouped.
        draws: how many embeddings without topics they are compared with at most.

    Raises:
        TopicError: fewer than four texts, more topics than texts, or a row that is no direction.
    """
    count = len(embeddings)
    if count < FEWEST_STORIES:
        raise TopicError(f"topics of {count} stories cannot be told: {FEWEST_STORIES} are the fewest")
    lengths = np.linalg.norm(embeddings.astype(np.float64), axis=1)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        row = int(np.argmin(np.isfinite(lengths) & (lengths > 0)))
        raise TopicError(f"the embedding of story {row} (counted from 0) is no direction: its length is {lengths[row]}")
    if topics is not None and not 2 <= topics < count:
        raise TopicError(f"{topics} topics of {count} stories: from 2 to {count - 1}")
    points = _layout(embeddings, seed)
    directions = embeddings / lengths[:, None]
    numbers = [topics] if topics else list(range(2, min(_MOST_TOPICS, count - 1) + 1))
    found, silhouettes = _grouped(points if space is Space.LAYOUT else directions, numbers, seed)
    best = max(silhouettes, key=lambda number: (silhouettes[number], -number))
    of_chance: list[float] = []
    while len(of_chance) < draws and max(of_chance, default=-1.0) < silhouettes[best]:
        drawn = _without_topics(directions, np.random.default_rng((seed, len(of_chance))))
        shown = _layout(drawn, seed) if space is Space.LAYOUT else drawn
        of_chance.append(max(_grouped(shown, numbers, seed)[1].values()))
    caveats = [f"fewer than {_NEIGHBOURS + 1} stories: laid out by {count - 1} neighbours"]
    caveats = caveats if count <= _NEIGHBOURS else []
    if max(of_chance, default=-1.0) >= silhouettes[best]:
        caveats.append(
            f"the topics may be chance: their silhouette is {silhouettes[best]:.2f}, and embeddings without topics, "
            f"laid out and grouped alike, reached {of_chance[-1]:.2f} (draw {len(of_chance)} of {draws})"
        )
    return Topics(points, _by_size(found[best]), silhouettes, tuple(of_chance), tuple(caveats))


def topic_terms(texts: Sequence[str], labels: np.ndarray, count: int = 10) -> list[list[str]]:
    """For each topic its ``count`` most telling words, the most telling first.

    A word's weight in a topic is its share there times log(1 + A / f): A words in a topic on average, f how often the
    word is there in all (Grootendorst 2022). English stop words are left out.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    joined = [""] * (int(labels.max()) + 1)
    for text, label in zip(texts, labels, strict=True):
        joined[label] += f" {text}"
    vectorizer = CountVectorizer(stop_words="english")
    try:
        counts = vectorizer.fit_transform(joined).toarray().astype(np.float64)
    except ValueError:  # nothing but stop words
        return [[] for _ in joined]
    words = vectorizer.get_feature_names_out()
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    weights = shares * np.log1p(counts.sum() / len(joined) / counts.sum(0))
    return [
        [str(words[place]) for place in np.argsort(-row, kind="stable")[:count] if row[place] > 0] for row in weights
    ]


def _layout(embeddings: np.ndarray, seed: int) -> np.ndarray:
    import umap

    count = len(embeddings)
    made: Any = umap.UMAP(
        n_components=2, metric="cosine", n_neighbors=min(_NEIGHBOURS, count - 1), min_dist=_MIN_DIST,
        random_state=seed, n_jobs=1, init="random" if count <= _NEIGHBOURS else "spectral",
    )  # fmt: skip
    return np.asarray(made.fit_transform(embeddings.astype(np.float32)), np.float32)


def _without_topics(directions: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """As many directions, drawn from the normal distribution that has the same mean and covariance."""
    mean, count = directions.mean(0), len(directions)
    drawn = mean + generator.normal(size=(count, count)) @ (directions - mean) / np.sqrt(count - 1)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def _grouped(points: np.ndarray, numbers: Sequence[int], seed: int) -> tuple[dict[int, np.ndarray], dict[int, float]]:
    """By number of topics, the topic of each point, and how well they part."""
    found = {number: _group(points, number, seed) for number in numbers}
    return found, {number: _silhouette(points, labels) for number, labels in found.items()}


def _group(points: np.ndarray, topics: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(topics, n_init=_STARTS, random_state=seed).fit_predict(points))


def _silhouette(points: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import silhouette_score

    if not 2 <= len(np.unique(labels)) < len(points):
        return -1.0  # all texts have the same position, however many topics are requested
    return float(silhouette_score(points, labels))


def _by_size(labels: np.ndarray) -> np.ndarray:
    """The same groups, the largest as 0; of equal ones the one that comes first."""
    names, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    order = sorted(range(len(names)), key=lambda place: (-sizes[place], first[place]))
    places = {names[old]: new for new, old in enumerate(order)}
    return np.array([places[label] for label in labels])
