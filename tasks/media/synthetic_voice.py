"""Sound that is made like speech: syllables and pauses that never come again."""

from __future__ import annotations

import numpy as np

from tasks.media.synthetic_files import SAMPLE_RATE


def voice(seconds: float, random: np.random.Generator) -> np.ndarray:
    """(n,) float32 in [-1, 1]: two to six syllables in a second, of changing pitch, and pauses of up to 3 s."""
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
        place = sound[first : first + len(time)]
        place += (tone * shape * random.uniform(0.2, 1) / loud.sum())[: len(place)]
        at += length + (random.exponential(0.08) if random.random() < 0.8 else random.uniform(0.4, 3))
    return sound
