"""Words as a microphone heard them: how Whisper's pieces become words, and when these begin and end.

Whisper gives numbers, contractions, compounds and whole languages in pieces: "$25" and ".50", "C" and "'est", every
Chinese character. A piece that begins a word begins with a space. Languages without spaces are divided by BudouX.

Whisper lets the first word after a pause begin in the pause, and the last one before it end early. Where somebody
speaks is known better by the voice activity, so each word belongs to a stretch of voice, and the first and the last one
of a stretch begin and end with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

import numpy as np

from storyframes import Clock

_DIVIDED = {"ja": "japanese", "th": "thai", "yue": "traditional_chinese", "zh": "simplified_chinese"}
_UNSPACED = re.compile(  # Thai to Burmese, Khmer, signs and kana, Han, full-width signs, rare Han
    "[\u0e00-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff01-\uffef\U00020000-\U0003ffff]"
)

_FAR_S = 1.0  # a stretch that begins or ends further from its words has other voice there: laughter, or words not heard
_EMPTY_S = 0.5  # by so much at most words are moved so that a stretch has one
_WITHIN_WORD_S = 0.2  # a shorter silence may be within a word
_SHORTEST_S = 0.04  # of a word, two frames of Whisper's times


@dataclass(frozen=True)
class HeardWord:
    """A word as a microphone heard it.

    Attributes:
        text: with its punctuation. Never shown.
        start_s, end_s: seconds of the recording.
        confidence: the model's probability, 0 to 1.
        level_db: of the sound meanwhile, dB of full scale.
        is_crosstalk: another person said it.
        is_uncertain: another person may have said it.
        whisper_s: start and end by Whisper alone, seconds of the recording; None where these are the word's times.
    """

    text: str
    start_s: float
    end_s: float
    confidence: float
    level_db: float = 0.0
    is_crosstalk: bool = False
    is_uncertain: bool = False
    whisper_s: tuple[float, float] | None = None

    def __repr__(self) -> str:
        return f"HeardWord({self.start_s:.2f} s)"  # a traceback shows no word

    def on_session(self, clock: Clock) -> HeardWord:
        """The same word in seconds of the session, given the clock of its recording."""
        times = clock.to_session((self.start_s, self.end_s, *(self.whisper_s or ())))
        start_s, end_s, *whisper_s = (float(time) for time in times)
        return replace(
            self, start_s=start_s, end_s=end_s, whisper_s=(whisper_s[0], whisper_s[1]) if whisper_s else None
        )


@dataclass(frozen=True)
class Heard:
    """The words of a piece, with the language that they are in and how probable it is."""

    words: tuple[HeardWord, ...]
    language: str
    probability: float


def join_pieces(pieces: Sequence[HeardWord], language: str) -> Iterator[HeardWord]:
    """The words of a segment, from pieces whose texts are as Whisper gives them, with the space before a word.

    A word lasts from its first piece to its last one, and its confidence is the mean over its characters. Where a word
    begins or ends inside a piece, its time is in proportion to the characters.

    Args:
        language: a code. In Japanese, Thai and Chinese a word is what BudouX takes for one; elsewhere, what is between
            spaces.
    """
    text = "".join(piece.text for piece in pieces)
    of_character = [piece for piece in pieces for _ in piece.text]
    starts: list[float] = []
    ends: list[float] = []
    for piece in pieces:
        spaces = len(piece.text) - len(piece.text.lstrip())
        step_s = (piece.end_s - piece.start_s) / max(len(piece.text) - spaces, 1)
        times = [piece.start_s + max(number - spaces, 0) * step_s for number in range(len(piece.text) + 1)]
        starts += times[:-1]
        ends += times[1:]
    for first, stop in _word_extents(text, language):
        confidence = sum(piece.confidence for piece in of_character[first:stop]) / (stop - first)
        yield HeardWord(text[first:stop], starts[first], ends[stop - 1], confidence)


def _word_extents(text: str, language: str) -> Iterator[tuple[int, int]]:
    """The first character of each word, and the one after its last."""
    for run in re.finditer(r"\S+", text):
        first = run.start()
        for word in _divider(_DIVIDED[language])(run[0]) if language in _DIVIDED else [run[0]]:
            yield first, first + len(word)
            first += len(word)


@cache
def _divider(language: str) -> Callable[[str], list[str]]:
    """BudouX's function that divides a text of a language into words."""
    import budoux  # only these languages need it

    parser = getattr(budoux, f"load_default_{language}_parser")()
    return cast(Callable[[str], list[str]], parser.parse)


def text_of(words: Sequence[str]) -> str:
    """The words as a text: without spaces between those of scripts that have none."""
    text = ""
    for word in words:
        text += f" {word}" if text and word and _has_space(text[-1], word[0]) else word
    return text


def _has_space(before: str, after: str) -> bool:
    """Whether a space is between two words, by the last sign of one and the first of the next."""
    spaced = [sign for sign in (before, after) if not _UNSPACED.match(sign)]
    return len(spaced) == 2 or any(sign.isalpha() for sign in spaced)


def snap(words: Sequence[HeardWord], voice: np.ndarray) -> Iterator[HeardWord]:
    """The words with the times of the voice, and Whisper's own beside.

    Args:
        words: in the order in which they were said.
        voice: (k, 2) seconds, when somebody speaks, in order.
    """
    if not (len(voice) and words):
        yield from words
        return
    is_pause = voice[1:, 0] - voice[:-1, 1] >= _WITHIN_WORD_S
    voice = np.column_stack([voice[np.append(True, is_pause), 0], voice[np.append(is_pause, True), 1]])
    stretch_of = _stretches_of(words, voice)
    for stretch in dict.fromkeys(stretch_of.tolist()):
        of_stretch = [words[number] for number in np.flatnonzero(stretch_of == stretch).tolist()]
        times = _times_within(of_stretch, *voice[stretch].tolist())
        for word, (start_s, end_s) in zip(of_stretch, times, strict=True):
            yield replace(word, start_s=start_s, end_s=end_s, whisper_s=(word.start_s, word.end_s))


def _stretches_of(words: Sequence[HeardWord], voice: np.ndarray) -> np.ndarray:
    """(n,) int, ascending: for each word its stretch of voice, with the least sum of costs.

    It costs to lie outside, in seconds (to end later up to half a second), and to share less than the shorter of both.
    A start in the silence before is usual, and costs a tenth. A stretch without words costs up to half a second.
    """
    starts, ends = (np.array([getattr(word, name) for word in words])[:, None] for name in ("start_s", "end_s"))
    ends[:-1] = np.minimum(ends[:-1], np.maximum(starts[1:], starts[:-1]))  # none goes on while the next one is said
    first, last = voice[:, 0], voice[:, 1]
    outside = np.maximum(first - ends, 0) + np.clip(ends - last, 0, _EMPTY_S) + np.maximum(starts - last, 0)
    shared = np.maximum(np.minimum(ends, last) - np.maximum(starts, first), 0)
    missing = 1 - shared / np.maximum(np.minimum(ends - starts, last - first), _SHORTEST_S)
    costs = outside + missing + 0.1 * np.maximum(first - starts, 0)
    empty = np.concatenate([[0.0], np.cumsum(np.minimum(last - first, _EMPTY_S))])
    total = empty[:-1].copy()
    before = np.zeros(costs.shape, np.int64)
    columns = np.arange(len(voice))
    for number, row in enumerate(costs):
        if number:
            least = np.minimum.accumulate(total - empty[1:])
            which = np.maximum.accumulate(np.where(total - empty[1:] == least, columns, 0))
            moved = np.concatenate([[np.inf], least[:-1]]) + empty[:-1]
            before[number] = np.where(total <= moved, columns, np.concatenate([[0], which[:-1]]))
            total = np.minimum(total, moved)
        total = total + row
    at = int(np.argmin(total + empty[-1] - empty[1:]))
    path = np.zeros(len(words), np.int64)
    for number in range(len(words) - 1, -1, -1):
        path[number] = at
        at = int(before[number, at])
    return path


def _times_within(words: Sequence[HeardWord], first_s: float, last_s: float) -> list[tuple[float, float]]:
    """The times of all words of a stretch of voice, which begins and ends at these times."""
    starts = np.clip([word.start_s for word in words], first_s, last_s)
    ends = np.clip([word.end_s for word in words], first_s, last_s)
    if words[0].start_s - first_s < _FAR_S or words[0].start_s >= last_s:
        starts[0] = first_s
    if last_s - words[-1].end_s < _FAR_S or words[-1].end_s <= first_s:
        ends[-1] = last_s
    shortest = min(_SHORTEST_S, (last_s - first_s) / len(words))
    for number in range(1, len(words)):  # none before the one before it
        starts[number] = max(starts[number], starts[number - 1] + shortest)
    latest = last_s
    for number in range(len(words) - 1, -1, -1):
        starts[number] = min(starts[number], latest - shortest)
        latest = starts[number]
    following = np.append(starts[1:], last_s)
    ends = np.minimum(np.maximum(ends, starts + shortest), following)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
