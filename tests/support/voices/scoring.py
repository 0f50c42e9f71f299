"""Compare heard words with what was said: word errors, onset errors, ghost words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from support.voices.scenes import Planted

_MARGIN_S = 0.3  # words that begin so much before their turn, or end so much after it, are of it


@dataclass(frozen=True)
class HeardAt:
    """A heard word and when."""

    text: str
    start_s: float
    end_s: float

    @property
    def middle_s(self) -> float:
        return (self.start_s + self.end_s) / 2


def spelled(text: str) -> list[str]:
    """The words of a text without case, accents, apostrophes and punctuation.

    >>> spelled("L'été, well-known -- isn't it?")
    ['lete', 'well', 'known', 'isnt', 'it']
    """
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(sign))
    plain = plain.replace("'", "").replace("’", "")
    return "".join(sign if sign.isalnum() else " " for sign in plain).split()


def aligned(said: Sequence[str], heard: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Pairs of positions with the fewest errors; None: a word that was missed, or that nobody said."""
    cost = np.zeros((len(said) + 1, len(heard) + 1), np.int64)
    cost[:, 0], cost[0] = np.arange(len(said) + 1), np.arange(len(heard) + 1)
    for row, word in enumerate(said, start=1):
        for column, other in enumerate(heard, start=1):
            replaced = cost[row - 1, column - 1] + (word != other)
            cost[row, column] = min(replaced, cost[row - 1, column] + 1, cost[row, column - 1] + 1)
    pairs: list[tuple[int | None, int | None]] = []
    row, column = len(said), len(heard)
    while row or column:
        is_pair = (
            row and column and cost[row, column] == cost[row - 1, column - 1] + (said[row - 1] != heard[column - 1])
        )
        if is_pair:
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif row and cost[row, column] == cost[row - 1, column] + 1:
            row -= 1
            pairs.append((row, None))
        else:
            column -= 1
            pairs.append((None, column))
    return pairs[::-1]


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """How many words are wrong, missed or invented, and how many were said."""
    words, others = spelled(said), spelled(heard)
    pairs = aligned(words, others)
    return sum(None in (row, column) or words[row] != others[column] for row, column in pairs), len(words)  # type: ignore[index]


def is_within(word: HeardAt, planted: Iterable[Planted]) -> bool:
    """Whether the middle of a word is in one of these utterances."""
    return any(each.start_s - _MARGIN_S <= word.middle_s <= each.end_s + _MARGIN_S for each in planted)


def ghosts(heard: Iterable[HeardAt], person: int, planted: Sequence[Planted]) -> list[HeardAt]:
    """The words of a person's transcript at times at which only others speak."""
    own = [each for each in planted if each.person == person]
    others = [each for each in planted if each.person != person]
    return [word for word in heard if not is_within(word, own) and is_within(word, others)]
