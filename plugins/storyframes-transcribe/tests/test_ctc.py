"""The likeliest way through a text's characters is the one that trying out all ways finds, also in a narrow band."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from storyframes_transcribe.ctc import best_path

# Like all tests of the plug-in, which the short tier leaves out: it cannot be imported without.
pytestmark = pytest.mark.needs("faster_whisper")

GENERATOR = np.random.default_rng(0)


def probabilities(frames: int, characters: int) -> np.ndarray:
    values = np.exp(2 * GENERATOR.normal(size=(frames, characters)))
    return np.log(values / values.sum(axis=1, keepdims=True)).astype(np.float32)


def tried_out(given: np.ndarray, labels: list[int]) -> float:
    """The best score of all sequences of characters that collapse to the labels."""
    best = -np.inf
    for way in product(range(given.shape[1]), repeat=len(given)):
        collapsed = [one for place, one in enumerate(way) if one and (place == 0 or way[place - 1] != one)]
        if collapsed == labels:
            best = max(best, float(given[np.arange(len(given)), way].sum()))
    return best


@pytest.mark.parametrize("labels", [[1], [1, 2], [1, 1], [2, 1, 1], [1, 2, 1, 2]])
def test_no_way_is_better(labels: list[int]) -> None:
    for _ in range(5):
        given = probabilities(7, 3)
        path = best_path(given, labels, 0)
        way = [labels[place] if place >= 0 else 0 for place in path]
        assert given[np.arange(7), way].sum() == pytest.approx(tried_out(given, labels), abs=1e-4)
        assert [int(one) for one in dict.fromkeys(path[path >= 0])] == [*range(len(labels))]
        assert (np.diff(path[path >= 0]) >= 0).all()


def test_more_characters_than_frames_and_none_have_no_way() -> None:
    assert best_path(probabilities(3, 5), [1, 2, 3, 4], 0) is None
    assert best_path(probabilities(3, 3), [1, 1, 1], 0) is None  # equal ones need a blank between
    assert best_path(probabilities(3, 3), [], 0) is None
    assert best_path(np.empty((0, 3), np.float32), [1], 0) is None


@pytest.mark.slow
def test_a_narrow_band_and_blocks_find_long_texts_whole() -> None:
    """Planted: 3,000 characters, each at frames that are known, with long pauses, in 15,000 frames."""
    labels = [1 + int(one) for one in GENERATOR.integers(0, 20, 3000)]
    spans = GENERATOR.integers(1, 4, len(labels))
    pauses = GENERATOR.integers(1, 4, len(labels)) + 400 * (GENERATOR.random(len(labels)) < 0.005)
    planted = np.full(int((spans + pauses).sum()), -1)
    at = 0
    for place, (span, pause) in enumerate(zip(spans, pauses, strict=True)):
        planted[at + pause : at + pause + span] = place
        at += pause + span
    given = probabilities(len(planted), 21)
    given[np.arange(len(planted)), [labels[place] if place >= 0 else 0 for place in planted]] += 15
    np.testing.assert_array_equal(best_path(given, labels, 0, band=512), planted)
