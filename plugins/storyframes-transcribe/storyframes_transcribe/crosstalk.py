"""Crosstalk: words that a neighbour's microphone heard as well, only softer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from storyframes_transcribe.words import HeardWord


@dataclass(frozen=True)
class Crosstalk:
    """What was found on the microphones of a session.

    Attributes:
        is_crosstalk: by microphone, (n,) bool for its words.
        is_uncertain: the same, of those that are kept though another microphone has them about as loud.
    """

    is_crosstalk: Mapping[str, np.ndarray]
    is_uncertain: Mapping[str, np.ndarray]


def find_crosstalk(microphones: Mapping[str, Sequence[HeardWord]], within_s: float, softer_db: float) -> Crosstalk:
    """Which words another microphone has at the same time, louder by at least ``softer_db``.

    Args:
        microphones: by name, the words in seconds of one clock.
        within_s: the same word begins at most so much apart on both.
    """
    found = {name: np.zeros(len(words), bool) for name, words in microphones.items()}
    starts = {name: np.array([word.start_s for word in words]) for name, words in microphones.items()}
    as_loud = {name: np.zeros(len(words), bool) for name, words in microphones.items()}
    for name, words in microphones.items():
        for other, others in microphones.items():
            if other == name:
                continue
            order = np.argsort(starts[other], kind="stable")
            for number, word in enumerate(words):
                first, stop = np.searchsorted(
                    starts[other], (word.start_s - within_s - 1e-9, word.start_s + within_s + 1e-9), sorter=order
                )
                same = [others[at] for at in order[first:stop] if _letters(others[at].text) == _letters(word.text)]
                louder_db = max((match.level_db for match in same), default=-np.inf) - word.level_db
                found[name][number] |= louder_db >= softer_db
                as_loud[name][number] |= abs(louder_db) < softer_db
    return Crosstalk(found, {name: as_loud[name] & ~found[name] for name in found})


def _letters(text: str) -> str:
    """The word without its punctuation and case; what has neither letters nor digits as it is."""
    return "".join(sign for sign in text.casefold() if sign.isalnum()) or text
