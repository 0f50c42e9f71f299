"""Embeddings in which topics are planted."""

from __future__ import annotations

import numpy as np

TOPICS = 8
_EACH = 10


def planted() -> tuple[np.ndarray, np.ndarray]:
    """80 embeddings of 1536 dimensions in 8 clusters, in a random order, and the cluster of each."""
    generator = np.random.default_rng(7)
    labels = generator.permutation(np.repeat(np.arange(TOPICS), _EACH))
    centres = generator.normal(size=(TOPICS, 1536))
    return centres[labels] + 0.5 * generator.normal(size=(len(labels), 1536)), labels
