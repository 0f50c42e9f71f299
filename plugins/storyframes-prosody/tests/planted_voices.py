"""Planted voices: tones with harmonics, in studies with transcripts."""

from __future__ import annotations

import json
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

RATE = 16_000


def tone(hz: float | np.ndarray, seconds: float, *, odd: float = 1.0, softer: float = 0.0) -> np.ndarray:
    """(n,) a voice of this pitch.

    Args:
        hz: one number, or one for each sample.
        odd: the amplitude of odd harmonics; with nearly none, Praat's pitch is doubled.
        softer: by which share every second period is softer; then the pitch is halved.
    """
    count = round(seconds * RATE)
    phase = 2 * np.pi * np.cumsum(np.broadcast_to(hz, count)) / RATE
    highest = int(3000 / np.max(hz))
    sound = sum((odd if k % 2 else 1.0) / k * np.sin(k * phase + k) for k in range(1, highest + 1))
    sound = sound * (1 - softer * (np.floor(phase / (2 * np.pi)) % 2))
    return np.asarray(0.3 * sound / np.abs(sound).max())


def syllables(count: int, rate: float, hz: float = 120.0) -> np.ndarray:
    """(n,) so many bumps of a voice, so many a second, each with silence around it."""
    sound = tone(hz, count / rate)
    time = np.arange(len(sound)) / RATE
    return sound * np.clip(np.sin(np.pi * (time * rate % 1)), 0.003, 1)


def write_wav(path: Path, sound: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.round(sound * 32767).astype("<i2").tobytes())


def place(spans: Sequence[tuple[float, np.ndarray]], seconds: float) -> np.ndarray:
    """Sounds at their times, with soft noise under all of it."""
    sound = np.random.default_rng(1).normal(0, 1e-4, round(seconds * RATE))
    for at, piece in spans:
        sound[round(at * RATE) : round(at * RATE) + len(piece)] += piece
    return sound


def transcript(*said: tuple[str, float, float, str]) -> str:
    """Of (speaker, start, end, text)."""
    keys = ("speaker", "start_s", "end_s", "text")
    return json.dumps({"utterances": [dict(zip(keys, each, strict=True)) for each in said]})


def write_study(folder: Path, sound: np.ndarray, words: str) -> Path:
    """A study of one session ``s``: a sound file and its transcript."""
    folder.mkdir(parents=True, exist_ok=True)
    write_wav(folder / "s.wav", sound)
    (folder / "s.json").write_text(words)
    (folder / "sessions.csv").write_text("session_id,participant_id,audio,transcript\ns,p,s.wav,s.json\n")
    return folder
