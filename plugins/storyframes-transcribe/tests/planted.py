"""Words that espeak-ng says at known times, and who hears them.

``Ears`` stand in for the model's knowledge of words alone: when they are said, it hears for itself in the sound that it
is given, and the words are those that were planted, in their order.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from storyframes_transcribe.voices import RATE, Piece
from storyframes_transcribe.words import Heard, HeardWord

from tasks.media.sound import read_audio

_QUIET, _GAP_S = 0.004, 0.3


@cache
def said(word: str, voice: str = "en-us") -> np.ndarray:
    """(n,) float32 at 16 kHz: the word, from its very beginning on, at most 0.5."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "word.wav"
        subprocess.run(["espeak-ng", "-v", voice, "-w", str(path), word], check=True, capture_output=True)
        sound = np.concatenate([block.samples for block in read_audio(path, RATE, None)])
    loud = np.flatnonzero(np.abs(sound) > 0.01)
    return 0.5 * sound[loud[0] : loud[-1]] / np.abs(sound).max()


def planted(words: Sequence[tuple[str, float]], seconds: float, voice: str = "en-us", gain: float = 1.0) -> np.ndarray:
    """(n,) float32: the words, each at its second, and a faint hiss."""
    sound = 1e-4 * np.random.default_rng(0).standard_normal(round(seconds * RATE))
    for word, start_s in words:
        one = said(word, voice)
        first = round(start_s * RATE)
        sound[first : first + len(one)] += gain * one[: len(sound) - first]
    return sound.astype(np.float32)


def as_int16(sound: np.ndarray) -> np.ndarray:
    return np.round(sound * 32767).astype(np.int16)


class Ears:
    """Hears bursts of sound in stretches of voice, and knows which words they are, in order.

    Attributes:
        languages: the probabilities of languages in what is listened to, in order; the last ones for all that follows.
        heard_in: the language of each piece that was heard.
    """

    def __init__(self, *words: str, languages: Sequence[Mapping[str, float]] = ({"en": 0.9},)) -> None:
        self.words, self.calls = list(words), 0
        self.languages, self.heard_in = list(languages), list[str | None]()

    def listen(self, samples: np.ndarray) -> Mapping[str, float]:
        return self.languages.pop(0) if len(self.languages) > 1 else self.languages[0]

    def hear(self, piece: Piece, language: str | None) -> Heard:
        self.calls += 1
        self.heard_in.append(language)
        heard = []
        for first, stop in piece.stretches:
            for start, end in _bursts(piece.samples[first:stop]):
                start_s, end_s = (piece.start_s + first / RATE + time for time in (start, end))
                heard.append(HeardWord(self.words.pop(0), start_s, end_s, confidence=0.75))
        return Heard(tuple(heard), language or "en", 0.9)


def _bursts(samples: np.ndarray) -> list[tuple[float, float]]:
    step = RATE // 100
    levels = np.sqrt(np.square(samples[: len(samples) // step * step]).reshape(-1, step).mean(axis=1))
    loud = np.flatnonzero(levels > _QUIET) / 100
    if not len(loud):
        return []
    breaks = np.flatnonzero(np.diff(loud) > _GAP_S)
    return list(zip(loud[[0, *(breaks + 1)]].tolist(), (loud[[*breaks, -1]] + 0.01).tolist(), strict=True))
