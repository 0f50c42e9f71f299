"""Conversations composed from recorded utterances, in which it is known who says what, and when.

Each utterance is cut to its voice and made equally loud, and planted at a known time. Each person has a microphone,
which hears the others softer and later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RATE = 16_000
_STEP = RATE // 100
_LEVEL_DB = -26.0  # of every utterance's loud half, dB of full scale
_BELOW_PEAK_DB, _OVER_NOISE_DB = 32.0, 10.0
_STEADY = 5  # steps


@dataclass(frozen=True)
class Spoken:
    """A recorded utterance.

    Attributes:
        text: what is said.
        samples: (n,) float32 at 16 kHz.
    """

    text: str
    samples: np.ndarray

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


@dataclass(frozen=True)
class Planted:
    """An utterance at its time in a scene.

    Attributes:
        person: the number of who says it.
        turn: the number of the turn that it is a part of.
        start_s, end_s: of its voice.
    """

    person: int
    turn: int
    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Scene:
    """What was recorded, and what is true.

    Attributes:
        microphones: (n,) float32 each, one for each person.
        room: (n,) one microphone that hears all persons as loud.
        planted: all utterances in the order of their start.
    """

    microphones: tuple[np.ndarray, ...]
    room: np.ndarray
    planted: tuple[Planted, ...]

    @property
    def seconds(self) -> float:
        return len(self.room) / RATE

    def of_person(self, person: int) -> list[Planted]:
        """What one person says."""
        return [each for each in self.planted if each.person == person]


def voiced(samples: np.ndarray) -> np.ndarray:
    """The sound from where voice begins to where it ends, to 10 ms.

    Voice is at most 32 dB softer than the loudest 10 ms, at least 10 dB louder than the softest tenth of the recording,
    and so for at least 50 ms: single clicks and breaths before the first word are no voice.
    """
    levels = step_levels_db(samples)
    is_loud = levels >= max(levels.max() - _BELOW_PEAK_DB, np.percentile(levels, 10) + _OVER_NOISE_DB)
    begins = np.flatnonzero(np.convolve(is_loud, np.ones(_STEADY), "valid") == _STEADY)
    return samples[begins[0] * _STEP : (begins[-1] + _STEADY) * _STEP] if len(begins) else samples[:0]


def step_levels_db(samples: np.ndarray) -> np.ndarray:
    """The level of each 10 ms, dB of full scale."""
    steps = samples[: len(samples) // _STEP * _STEP].reshape(-1, _STEP).astype(np.float64)
    return 10 * np.log10(np.maximum(np.mean(steps**2, axis=1), 1e-12))


def as_loud(samples: np.ndarray, level_db: float = _LEVEL_DB) -> np.ndarray:
    """The sound with the mean power of its louder half at ``level_db``."""
    levels = step_levels_db(samples)
    loud = levels[levels >= np.median(levels)]
    now_db = 10 * np.log10(np.mean(10 ** (loud / 10)))
    return (samples * 10 ** ((level_db - now_db) / 20)).astype(np.float32)


def compose(
    persons: Sequence[Sequence[Spoken]],
    turns: int,
    seed: int,
    *,
    parts: int = 1,
    gap_s: tuple[float, float] = (0.3, 1.2),
    pause_s: tuple[float, float] = (0.3, 0.8),
    crosstalk_db: float = -12.0,
    delay_s: float = 0.004,
    echo_s: float = 0.0,
    gains_db: Sequence[float] = (),
    noise_db: float = -66.0,
    lead_s: float = 0.5,
) -> Scene:
    """A conversation in which the persons take turns.

    Args:
        persons: the utterances of each, which are taken in their order, and from the first again when all are used.
        turns: how many in all.
        seed: of gaps, pauses and noise.
        parts: how many utterances a turn has.
        gap_s: the least and the longest gap between two turns; a negative one is an overlap.
        pause_s: the same of the pauses within a turn.
        crosstalk_db: by how much a microphone hears the others softer than its own person.
        delay_s: by how much it hears them later.
        echo_s: the time in which the room's echo of the others falls by 60 dB; half of their power is echo. 0: none.
        gains_db: of each microphone.
        noise_db: of each microphone's own noise, dB of full scale.
        lead_s: from the beginning to the first voice, and from the last voice to the end.
    """
    random = np.random.default_rng(seed)
    taken = [0] * len(persons)
    planted: list[Planted] = []
    sounds: list[np.ndarray] = []
    at = lead_s
    for turn in range(turns):
        person = turn % len(persons)
        for part in range(parts):
            if turn or part:
                at = planted[-1].end_s + random.uniform(*(pause_s if part else gap_s))
            spoken = persons[person][taken[person] % len(persons[person])]
            taken[person] += 1
            sound = as_loud(voiced(spoken.samples))
            first = round(max(at, 0.0) * RATE)
            planted.append(Planted(person, turn, spoken.text, first / RATE, (first + len(sound)) / RATE))
            sounds.append(sound)
    length = round((max(each.end_s for each in planted) + lead_s) * RATE)
    tracks = np.zeros((len(persons), length), np.float32)
    for each, sound in zip(planted, sounds, strict=True):
        first = round(each.start_s * RATE)
        tracks[each.person, first : first + len(sound)] += sound
    delay, softer = round(delay_s * RATE), 10 ** (crosstalk_db / 20)
    late = np.pad(tracks, ((0, 0), (delay, 0)))[:, :length]
    noise = random.standard_normal((len(persons) + 1, length)) * 10 ** (noise_db / 20)
    gains = 10 ** (np.array([*gains_db] or [0.0] * len(persons)) / 20)
    heard = [
        gains[person] * (own + softer * in_room(late.sum(axis=0) - late[person], echo_s, random)) + noise[person]
        for person, own in enumerate(tracks)
    ]
    microphones = tuple(sound.astype(np.float32) for sound in heard)
    return Scene(microphones, (tracks.sum(axis=0) + noise[-1]).astype(np.float32), tuple(planted))


def in_room(sound: np.ndarray, echo_s: float, random: np.random.Generator, echo_db: float = 0.0) -> np.ndarray:
    """The sound with an echo that falls by 60 dB in these seconds, with the same power.

    Args:
        echo_db: the power of the echo, compared with the direct sound.
    """
    if not echo_s:
        return sound
    echo = 1 / (1 + 10 ** (-echo_db / 10))
    time = np.arange(round(echo_s * RATE)) / RATE
    response = random.standard_normal(len(time)) * 10 ** (-3 * time / echo_s)
    response *= np.sqrt(echo / np.sum(response**2))
    response[0] += np.sqrt(1 - echo)
    size = 1 << (len(sound) + len(response)).bit_length()
    return np.asarray(np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(response, size), size)[: len(sound)])
