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

from storyframes import Clock
from storyframes_transcribe.words import HeardWord
from tasks.media import SoundBands, StreamChoice

CROSSTALK_RULES = 3
"""Number of the rules of this module. Raise it where they change: crosstalk is then found again."""
STEP_S = 0.04
_AUDIBLE_DB = 10.0  # over the noise of a microphone: softer steps say nothing


@dataclass(frozen=True)
class Microphone:
    """The sound of one microphone of a session.

    Attributes:
        path: of its file.
        zero_s: when its second 0 is, as of :func:`tasks.media.sound.read_audio`.
        clock: from its seconds to the session's.
        streams: which sound of a file that has several.
    """

    path: Path
    zero_s: float | None
    clock: Clock
    streams: StreamChoice = StreamChoice.FIRST


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
    bands = {name: SoundBands.read(one.path, one.zero_s, streams=one.streams) for name, one in microphones.items()}
    ends = [float(one.clock.to_session(bands[name].start_s + bands[name].seconds)) for name, one in microphones.items()]
    steps = max(math.ceil(max(ends, default=0.0) / STEP_S), 0)
    return {name: bands[name].levels(one.clock, Clock("session"), steps, STEP_S) for name, one in microphones.items()}


def find_crosstalk(
    words: Mapping[str, Sequence[HeardWord]], levels: Mapping[str, np.ndarray], softer_db: float
) -> Crosstalk:
    """Which words are of another microphone's person.

    A word is, where its own microphone has less power during the word than another one, by ``softer_db`` or by half of
    what it usually hears the others softer, whichever is more. It is uncertain where it has not more by ``softer_db``.

    Args:
        words: by microphone, in seconds of the session.
        levels: of all microphones, see :func:`session_levels`.
    """
    is_audible = np.any([SoundBands.over_floor(one) >= _AUDIBLE_DB for one in levels.values()], axis=0)
    is_crosstalk, is_uncertain = {}, {}
    for name, of_one in words.items():
        others = [one for other, one in levels.items() if other != name]
        loudest = np.fmax.reduce(others) if others else np.full(len(is_audible), np.nan)
        over_db = levels[name] - loudest
        is_known = is_audible & ~np.isnan(over_db)
        silent = over_db[is_known & (over_db <= -softer_db)]  # most steps in which its person says nothing
        removed_db = max(softer_db, -float(np.median(silent)) / 2) if len(silent) else softer_db
        own, other = (
            _power_during(of_one, np.where(is_known, 10 ** (one / 10), 0.0)) for one in (levels[name], loudest)
        )
        has_power = (own > 0) & (other > 0)
        difference_db = 10 * np.log10(np.where(has_power, own, 1.0) / np.where(has_power, other, 1.0))
        is_crosstalk[name] = has_power & (difference_db <= -removed_db)
        is_uncertain[name] = has_power & ~is_crosstalk[name] & (difference_db < softer_db)
    return Crosstalk(is_crosstalk, is_uncertain)


def _power_during(words: Sequence[HeardWord], power: np.ndarray) -> np.ndarray:
    """(n,) the sum of the power in the steps of each word."""
    total = np.concatenate([[0.0], np.cumsum(power)])
    first = np.array([math.floor(word.start_s / STEP_S) for word in words], np.int64)
    stop = np.array([math.ceil(word.end_s / STEP_S) for word in words], np.int64)
    first, stop = np.clip(first, 0, len(power)), np.clip(np.maximum(stop, first + 1), 0, len(power))
    return np.asarray(total[stop] - total[first])
