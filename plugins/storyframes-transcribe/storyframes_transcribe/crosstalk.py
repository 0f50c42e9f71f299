"""Crosstalk: words of another person, which a microphone heard as well, only softer.

Loudness alone decides, that of all microphones at the time of the word: a microphone often hears a neighbour's words
as other words, and at other times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from storyframes.times import SESSION_CLOCK, Clock
from storyframes_transcribe.words import HeardWord
from tasks.media.sound_bands import read_bands
from tasks.media.speech import over_floor, step_levels

CROSSTALK_RULES = 1
"""Number of the rules of this module. Raise it where they change: crosstalk is then found again."""
STEP_S = 0.04
_AUDIBLE_DB = 10.0  # over the noise of a microphone: softer steps say nothing
_REMOVED, _CLEAR = 0.8, 0.5  # shares of a word's audible steps
_OWN_STEPS = 3  # 0.12 s: who is louder for so long says something


@dataclass(frozen=True)
class Microphone:
    """The sound of one microphone of a session.

    Attributes:
        path: of its file.
        zero_s: when its second 0 is, as of :func:`tasks.media.sound.read_audio`.
        clock: from its seconds to the session's.
    """

    path: Path
    zero_s: float | None
    clock: Clock


@dataclass(frozen=True)
class Crosstalk:
    """What was found on the microphones of a session.

    Attributes:
        is_crosstalk: by microphone, (n,) bool for its words.
        is_uncertain: the same, of those that are kept though another microphone is about as loud.
    """

    is_crosstalk: Mapping[str, np.ndarray]
    is_uncertain: Mapping[str, np.ndarray]

    @classmethod
    def of_marks(cls, words: Mapping[str, Sequence[HeardWord]]) -> Crosstalk:
        """As it was found before, by the marks of the words."""
        return cls(
            {name: np.array([word.is_crosstalk for word in of_one], bool) for name, of_one in words.items()},
            {name: np.array([word.is_uncertain for word in of_one], bool) for name, of_one in words.items()},
        )

    def marked(self, name: str, words: Sequence[HeardWord]) -> list[HeardWord]:
        """The words of a microphone with these marks."""
        marks = zip(words, self.is_crosstalk[name].tolist(), self.is_uncertain[name].tolist(), strict=True)
        return [replace(word, is_crosstalk=removed, is_uncertain=doubtful) for word, removed, doubtful in marks]


def session_levels(microphones: Mapping[str, Microphone]) -> dict[str, np.ndarray]:
    """By microphone, (steps,) how loud it is in each :data:`STEP_S` of the session, dB; NaN where it has no sound.

    Raises:
        RecordingError: one cannot be decoded.
    """
    bands = {name: read_bands(one.path, one.zero_s) for name, one in microphones.items()}
    ends = [float(one.clock.to_session(bands[name].start_s + bands[name].seconds)) for name, one in microphones.items()]
    steps = max(math.ceil(max(ends, default=0.0) / STEP_S), 0)
    return {
        name: step_levels(bands[name], one.clock, SESSION_CLOCK, steps, STEP_S) for name, one in microphones.items()
    }


def find_crosstalk(
    words: Mapping[str, Sequence[HeardWord]], levels: Mapping[str, np.ndarray], softer_db: float
) -> Crosstalk:
    """Which words are of another microphone's person.

    A word is, where its own microphone is softer than another one by at least ``softer_db`` in four of five of its
    audible steps, and louder by as much in less than 0.12 s of it. It is uncertain where its own is louder in fewer
    than half of them.

    Args:
        words: by microphone, in seconds of the session.
        levels: of all microphones, see :func:`session_levels`.
    """
    is_audible = np.any([over_floor(one) >= _AUDIBLE_DB for one in levels.values()], axis=0)
    is_crosstalk, is_uncertain = {}, {}
    for name, of_one in words.items():
        others = [one for other, one in levels.items() if other != name]
        over_db = levels[name] - np.fmax.reduce(others) if others else np.full(len(is_audible), np.nan)
        counts = [
            _counted(of_one, steps & is_audible)
            for steps in (~np.isnan(over_db), over_db <= -softer_db, over_db >= softer_db)
        ]
        known, softer, louder = counts
        is_crosstalk[name] = (known > 0) & (softer >= _REMOVED * known) & (louder < _OWN_STEPS)
        is_uncertain[name] = (known > 0) & ~is_crosstalk[name] & (louder < _CLEAR * known)
    return Crosstalk(is_crosstalk, is_uncertain)


def _counted(words: Sequence[HeardWord], steps: np.ndarray) -> np.ndarray:
    """(n,) how many of these steps each word has."""
    total = np.concatenate([[0], np.cumsum(steps)])
    first = np.array([math.floor(word.start_s / STEP_S) for word in words], np.int64)
    stop = np.array([math.ceil(word.end_s / STEP_S) for word in words], np.int64)
    first, stop = np.clip(first, 0, len(steps)), np.clip(np.maximum(stop, first + 1), 0, len(steps))
    return np.asarray(total[stop] - total[first])
