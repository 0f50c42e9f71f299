"""Synthetic recordings: a moving square in front of noise, and sound that resembles speech."""

from __future__ import annotations

import math
import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

SAMPLE_RATE = 16_000


def random_background(size: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    """(height, width, 3) uint8 of squares of 8 pixels; ``size`` is width and height."""
    width, height = size
    squares = random.integers(0, 120, (height // 8, width // 8, 3), dtype=np.uint8)
    return squares.repeat(8, axis=0).repeat(8, axis=1)


def write_video(
    path: Path, frames: int, fps: int, size: tuple[int, int], background: np.ndarray, samples: np.ndarray
) -> None:
    """An AVI of ``frames`` frames and the sound of the same time; ``samples`` is (n,) int16 at :data:`SAMPLE_RATE`."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=fps)
        video.width, video.height, video.pix_fmt = *size, "yuv420p"
        audio = container.add_stream("pcm_s16le", rate=SAMPLE_RATE, layout="mono")
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(_picture(background, number / fps), format="rgb24")
            container.mux(video.encode(frame))
            first, stop = (round(SAMPLE_RATE * edge / fps) for edge in (number, number + 1))
            if len(samples) > first:
                sound = av.AudioFrame.from_ndarray(samples[None, first:stop], format="s16", layout="mono")
                sound.sample_rate, sound.pts, sound.time_base = SAMPLE_RATE, first, Fraction(1, SAMPLE_RATE)
                container.mux(audio.encode(sound))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))


def write_sound(path: Path, samples: np.ndarray) -> None:
    """A WAV of (n,) int16 at :data:`SAMPLE_RATE`."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.astype("<i2").tobytes())


def _picture(background: np.ndarray, second: float) -> np.ndarray:
    picture = background.copy()
    height, width = background.shape[:2]
    size = height // 3
    x = round((width - size) * (0.5 + 0.5 * math.sin(second)))
    y = round((height - size) * (0.5 + 0.5 * math.cos(second / 2)))
    picture[y : y + size, x : x + size] = (220, 180, 150)
    return picture


def voice(seconds: float, random: np.random.Generator) -> np.ndarray:
    """(n,) float32 in [-1, 1]: two to six syllables a second, of changing pitch, and pauses of up to 3 s."""
    sound = np.zeros(round(seconds * SAMPLE_RATE), np.float32)
    at = random.uniform(0, 0.5)
    while at < seconds:
        length = random.uniform(0.08, 0.3)
        time = np.arange(round(length * SAMPLE_RATE)) / SAMPLE_RATE
        pitch, formant = random.uniform(90, 240), random.uniform(300, 3000)
        harmonics = pitch * np.arange(1, int(3600 / pitch))
        loud = np.exp(-(((harmonics - formant) / 400) ** 2)) + 0.1
        tone = loud @ np.sin(2 * np.pi * harmonics[:, None] * time + random.uniform(0, 6.28, (len(harmonics), 1)))
        rise, fall = random.uniform(0.005, 0.05), random.uniform(0.01, 0.08)
        shape = np.clip(np.minimum(time / rise, (length - time) / fall), 0, 1)
        first = round(at * SAMPLE_RATE)
        part = sound[first : first + len(time)]
        part += (tone * shape * random.uniform(0.2, 1) / loud.sum())[: len(part)]
        at += length + (random.exponential(0.08) if random.random() < 0.8 else random.uniform(0.4, 3))
    return sound
