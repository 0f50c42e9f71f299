"""Planted conversations: voices of espeak-ng at known times, in one room, with each other's sound in every microphone.

All is decided by a seed: who speaks when, how loud which microphone hears whom, noise, bangs, and the mouths.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tasks.media.sound import read_audio
from tasks.media.speech import STEP_S

RATE = 8000
FPS = 25.0
_HOP = round(RATE * STEP_S)
_SENTENCES = (
    "well I think we should begin with the first one",
    "yes",
    "and what did you do then, when nobody was at home?",
    "I never thought about it in this way, to be honest",
    "mhm, right",
    "it was a long summer, we went to the sea with all the children and their friends",
    "no, not really",
    "could you say a little more about how that felt for you",
)
FITTED_VOICES = ("en-us", "en-gb+f3", "de+m3", "fr-fr+f2", "es", "nl+f4", "pl+m5", "en-us+f1")
CHECKED_VOICES = ("en-gb-scotland", "it+f5", "sv", "pt-br+f2", "en-us-nyc+m7", "cs+f3")


@dataclass(frozen=True)
class Conversation:
    """What was recorded, and what is true."""

    microphones: list[np.ndarray]  # (n,) float32 in [-1, 1] at 8 kHz, one for each person
    room: np.ndarray  # (n,) one microphone that hears all
    mouths: list[np.ndarray]  # (frames,) how far each person's lips are apart, in heights of the face, 25 a second
    speaks: np.ndarray  # (persons, steps) bool
    loudness: np.ndarray  # (persons, steps) the root mean square of each voice


@cache
def phrases(voice: str) -> tuple[np.ndarray, ...]:
    """The sentences of one voice, (n,) float32 each with a peak of 1."""
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for sentence in _SENTENCES:
            path = Path(folder) / "said.wav"
            subprocess.run(["espeak-ng", "-v", voice, "-w", str(path), sentence], check=True, capture_output=True)
            samples = np.concatenate([block.samples for block in read_audio(path, RATE)])
            said.append(samples / np.abs(samples).max())
    return tuple(said)


def plant(
    seed: int,
    voices: Sequence[str],
    *,
    seconds: float = 60.0,
    crosstalk_db: float | None = None,
    snr_db: float | None = None,
    silent: Sequence[int] = (),
) -> Conversation:
    """A conversation of these voices.

    Args:
        crosstalk_db: how loud a microphone hears another person, beside its own (-6 to -20 where it is None).
        snr_db: of speech over the noise (8 to 35 where it is None).
        silent: the numbers of persons who say nothing.
    """
    generator = np.random.default_rng(seed)
    persons, count = len(voices), round(seconds * RATE)
    crosstalk = generator.uniform(-20, -6) if crosstalk_db is None else crosstalk_db
    snr = generator.uniform(8, 35) if snr_db is None else snr_db
    voice = np.zeros((persons, count), np.float32)
    at, speaker = generator.uniform(0.5, 3), int(generator.integers(persons))
    while at < seconds - 1:
        phrase = phrases(voices[speaker])[generator.integers(len(_SENTENCES))]
        if speaker not in silent:
            first = round(at * RATE)
            piece = phrase[: count - first] * 10 ** (generator.normal(0, 2) / 20)
            voice[speaker, first : first + len(piece)] += 0.15 * piece
        others = [person for person in range(persons) if person != speaker]
        pause = generator.choice(
            [generator.uniform(-1.2, -0.1), generator.exponential(0.7), generator.uniform(3, 8)], p=[0.2, 0.68, 0.12]
        )
        at = max(0.0, at + len(phrase) / RATE + pause)
        speaker = int(generator.choice(others)) if others and generator.random() < 0.7 else speaker
    bangs = add_bangs(generator, count)
    level = np.sqrt(np.mean(voice[np.abs(voice) > 0.01] ** 2)) if (voice != 0).any() else 0.05
    noise = 10 ** (-snr / 20) * level
    gains = np.where(
        np.eye(persons, dtype=bool), 1.0, 10 ** ((crosstalk + generator.normal(0, 1.5, (persons, persons))) / 20)
    )
    microphones = [
        _recorded(generator, voice, gain, bangs, noise * 10 ** (generator.normal(0, 2) / 20)) for gain in gains
    ]
    distances = 10 ** (generator.uniform(-4, 4, persons) / 20)
    room = _recorded(generator, voice, distances, bangs, noise * 10 ** (generator.normal(0, 2) / 20))
    mouths = [plant_mouth(generator, of_one) for of_one in voice]
    speaks, loudness = np.stack([_truth(v) for v in voice]), np.stack([_loudness(v, _HOP) for v in voice])
    return Conversation(microphones, room, mouths, speaks, loudness)


def _recorded(
    generator: np.random.Generator, voice: np.ndarray, gains: np.ndarray, bangs: np.ndarray, noise: float
) -> np.ndarray:
    """What a microphone of any sensitivity hears, with the room's echo."""
    sound = np.zeros(voice.shape[1], np.float32)
    for of_one, gain in zip(voice, gains, strict=True):
        delay = int(generator.integers(8, 80)) if gain != 1 else 0
        sound += gain * np.roll(of_one, delay)
    length = round(generator.uniform(0.1, 0.4) * RATE)
    tail = generator.normal(size=length) * np.exp(-6.9 * np.arange(length) / length)
    tail *= 10 ** (-12 / 20) / np.linalg.norm(tail)
    size = 1 << (len(sound) + length).bit_length()
    sound += np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(tail, size), size)[: len(sound)].astype(np.float32)
    white = generator.normal(size=len(sound))
    spectrum = np.fft.rfft(white)
    spectrum *= (1 + np.arange(len(spectrum)) / 200) ** -generator.uniform(0, 1)  # white to pink
    coloured = np.fft.irfft(spectrum, len(sound))
    sound += bangs + (noise * coloured / coloured.std()).astype(np.float32)
    return np.clip(sound * 10 ** (generator.uniform(-14, 2) / 20), -1, 1)


def add_bangs(generator: np.random.Generator, count: int) -> np.ndarray:
    """Knocks, coughs and chairs, which every microphone hears alike."""
    sound = np.zeros(count, np.float32)
    for at in generator.uniform(0, count - RATE, generator.poisson(count / RATE / 20)).astype(int):
        length = int(generator.uniform(0.03, 0.4) * RATE)
        sound[at : at + length] += generator.uniform(0.02, 0.15) * generator.normal(size=length) * np.hanning(length)
    return sound


def _loudness(voice: np.ndarray, hop: int) -> np.ndarray:
    whole = len(voice) // hop
    return np.sqrt((voice[: whole * hop].reshape(whole, hop) ** 2).mean(axis=1))


def _truth(voice: np.ndarray) -> np.ndarray:
    """(steps,) bool: whether the person speaks; pauses of up to 0.3 s belong to what is said."""
    speaks = _loudness(voice, _HOP) > 0.15 * 10 ** (-35 / 20)
    return fill_pauses(speaks)


def fill_pauses(speaks: np.ndarray) -> np.ndarray:
    """(steps,) bool: the same with pauses of up to 0.3 s between two steps with speech."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], speaks, [True]])))
    for first, stop in edges.reshape(-1, 2).tolist():
        speaks[first:stop] |= first > 0 and stop < len(speaks) and stop - first <= 3
    return speaks


def plant_mouth(generator: np.random.Generator, voice: np.ndarray) -> np.ndarray:
    """How far the lips are apart: with the syllables, with smiles and yawns, and with the tracker's noise."""
    opening = np.sqrt(_loudness(voice, round(RATE / FPS)) / 0.15)
    syllables = generator.uniform(0.03, 0.15) * opening * generator.uniform(0.4, 1, len(opening))
    for at in generator.uniform(0, len(opening), generator.poisson(len(opening) / FPS / 10)).astype(int):
        length = int(generator.uniform(0.4, 3) * FPS)
        piece = syllables[at : at + length]
        piece += generator.uniform(0.01, 0.12) * np.hanning(length)[: len(piece)]
    return np.abs(syllables + generator.normal(0, 10 ** generator.uniform(-3.2, -2.2), len(opening)) + 0.004)
