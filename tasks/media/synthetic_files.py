"""Writing made-up recordings: a moving square before noise, with the sound that is given."""

from __future__ import annotations

import math
import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

SAMPLE_RATE = 16_000


def random_background(size: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    """(height, width, 3) uint8 of squares of 8 pixels, for a width and a height."""
    width, height = size
    squares = random.integers(0, 120, (height // 8, width // 8, 3), dtype=np.uint8)
    return squares.repeat(8, axis=0).repeat(8, axis=1)


def write_video(
    path: Path, frames: int, fps: int, size: tuple[int, int], background: np.ndarray, samples: np.ndarray
) -> None:
    """An AVI of so many frames of this width and height, and of as much of the sound as belongs to them.

    The sound is (n,) int16 at :data:`SAMPLE_RATE`.
    """
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
