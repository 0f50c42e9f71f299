"""Drafts: utterances as a program wrote them, before their times are checked and those of their words interpolated."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

SURE_LANGUAGE = 0.8
"""The probability from which on a language that a recogniser detected is taken for certain."""
_PAUSE_S = 1.0  # between two utterances of words without punctuation
_SENTENCE_END = re.compile(r"[.!?…。！？؟।][\"'”’»)\]]*$")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")
# Letters of Chinese and Japanese, which have no spaces, and the first bytes of those that were cut (as surrogates).
_UNSPACED = re.compile(
    "[\\u3005-\\u3007\\u3040-\\u30ff\\u31f0-\\u31ff\\u3400-\\u9fff\\uf900-\\ufaff\\udce3-\\udce9\\U00020000-\\U0003ffff]"
)
_CUT = re.compile("[\\udc80-\\udcbf]")  # the other bytes of such a character


class FormatError(Exception):
    """The document cannot be a transcript; the message says why, without the file's name, and quotes nothing of it."""


def _from_0_to_1(value: Any) -> float:
    """A confidence as a number; NaN where there is none, infinite where it is anything but a number from 0 to 1."""
    if value is None or value != value:  # only NaN is not equal to itself
        return math.nan
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else math.inf


Confidence = Annotated[float, BeforeValidator(_from_0_to_1)]


class DraftWord(BaseModel):
    """A word; times in seconds, None where the program gives none."""

    word: str
    start_s: float | None = None
    end_s: float | None = None
    confidence: Confidence = math.nan


class Draft(BaseModel):
    """An utterance, as the study's own JSON has it."""

    speaker: str | None = None
    person_id: Any = None  # of the table of persons
    start_s: float
    end_s: float
    text: str
    words: list[DraftWord] | None = None
    # of the whole transcript, set by what reads it
    in_guessed_language: bool = False
    has_doubtful_voice: bool = False


def draft_of_words(words: Sequence[DraftWord], text: str = "", speaker: str | None = None) -> Draft:
    """An utterance that lasts from its first word to its last; without a ``text`` it is that of the words.

    Raises:
        FormatError: none of the words has a time.
    """
    times = [time for word in words for time in (word.start_s, word.end_s) if time is not None]
    if not times:
        raise FormatError("an utterance has no times, and neither have its words")
    text = text or " ".join(word.word.strip() for word in words)
    return Draft(speaker=speaker, start_s=min(times), end_s=max(times), text=text, words=list(words))


def joined_pieces(words: Sequence[DraftWord]) -> list[DraftWord]:
    """The words that pieces are of, where a leading space says which piece begins one, as Whisper writes them.

    A word has the time from its first piece to its last, and the mean of their confidences. In Chinese and Japanese,
    which have no spaces, each piece is a word; but bytes of one character are never apart.

    Example:
        >>> pieces = [DraftWord(word=word) for word in (" $25", ".50", " well", "-known")]
        >>> [word.word for word in joined_pieces(pieces)]
        ['$25.50', 'well-known']
    """
    has_spaces = any(word.word[:1].isspace() for word in words)
    groups: list[list[DraftWord]] = []
    for word in words:
        if groups and _goes_on(groups[-1][-1].word, word.word, has_spaces=has_spaces):
            groups[-1].append(word)
        else:
            groups.append([word])
    return [
        DraftWord(
            word="".join(piece.word for piece in pieces).strip(),
            start_s=pieces[0].start_s,
            end_s=pieces[-1].end_s,
            confidence=sum(piece.confidence for piece in pieces) / len(pieces),
        )
        for pieces in groups
    ]


def _goes_on(before: str, piece: str, *, has_spaces: bool) -> bool:
    """Whether a piece is of the same word as the one before it."""
    if _CUT.match(piece):
        return True
    if not has_spaces or piece[:1].isspace() or _UNSPACED.match(piece):
        return False
    return not (_UNSPACED.match(before[-1:]) and piece[:1].isalnum())


def words_of_texts(words: Sequence[DraftWord], texts: Sequence[str]) -> list[list[DraftWord]] | None:
    """For each of consecutive texts its words, by their letters and digits; None where the words have others.

    Example:
        >>> words = [DraftWord(word=word) for word in ("yes", "well", "known")]
        >>> [[word.word for word in of_text] for of_text in words_of_texts(words, ["Yes!", "Well-known."])]
        [['yes'], ['well', 'known']]
    """
    ends = list(accumulate(len(_letters(text)) for text in texts))
    if not texts or "".join(_letters(word.word) for word in words) != "".join(map(_letters, texts)):
        return None
    groups: list[list[DraftWord]] = [[] for _ in texts]
    number = position = 0
    for word in words:
        while number < len(texts) - 1 and position >= ends[number]:
            number += 1
        groups[number].append(word)
        position += len(_letters(word.word))
    return groups


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def sentences_of(text: str) -> list[str]:
    """The sentences of a text."""
    return [sentence for sentence in _BETWEEN_SENTENCES.split(text.strip()) if sentence]


def utterances_of(
    words: Sequence[DraftWord], speaker_of: Callable[[int], str | None] = lambda _: None
) -> Iterator[Draft]:
    """Utterances of words that nothing groups: they end with a sentence, or where another speaker begins.

    Where no word ends a sentence, a pause of a second ends an utterance.

    Args:
        speaker_of: the speaker of a word, by its number.
    """
    has_punctuation = any(_SENTENCE_END.search(word.word.strip()) for word in words)
    group: list[DraftWord] = []
    for number, word in enumerate(words):
        if group and (
            speaker_of(number) != speaker_of(number - 1)
            or (_SENTENCE_END.search(group[-1].word.strip()) if has_punctuation else _is_pause(group[-1], word))
        ):
            yield draft_of_words(group, speaker=speaker_of(number - 1))
            group = []
        group.append(word)
    if group:
        yield draft_of_words(group, speaker=speaker_of(len(words) - 1))


def _is_pause(before: DraftWord, after: DraftWord) -> bool:
    return before.end_s is not None and after.start_s is not None and after.start_s - before.end_s >= _PAUSE_S
