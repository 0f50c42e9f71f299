"""Sound that is made like speech, and what a microphone with a clock of its own records of it."""

from __future__ import annotations

import numpy as np

RATE = 16_000


def speech(seconds: float, seed: int) -> np.ndarray:
    """(n,) float32 syllables with harmonics, formants and pauses, at :data:`RATE`."""
    random = np.random.default_rng(seed)
    sound = np.zeros(int(seconds * RATE), np.float32)
    at = 0.3
    while at < seconds - 1:
        length = random.uniform(0.08, 0.3)
        time = np.arange(int(length * RATE)) / RATE
        pitch, formants = random.uniform(90, 240), random.uniform(300, 3000, 2)
        if random.random() < 0.3:
            voice = random.normal(0, 1, len(time))
        else:
            harmonics = pitch * np.arange(1, int(3500 / pitch))
            loud = np.exp(-(((harmonics[:, None] - formants) / 300) ** 2)).sum(axis=1) + 0.05
            phases = random.uniform(0, 6.28, len(harmonics))
            voice = loud @ np.sin(2 * np.pi * harmonics[:, None] * time + phases[:, None])
        rise, fall = random.uniform(0.005, 0.05), random.uniform(0.01, 0.08)
        shape = np.clip(np.minimum(time / rise, (length - time) / fall), 0, 1)
        first = int(at * RATE)
        sound[first : first + len(time)] += voice * shape * random.uniform(0.2, 1)
        at += length + (random.exponential(0.08) if random.random() < 0.85 else random.uniform(0.4, 2.5))
    return sound / np.abs(sound).max()


def recorded(
    sound: np.ndarray,
    start_s: float,
    seconds: float,
    seed: int,
    *,
    ppm: float = 0.0,
    snr: float = 30.0,
    rate: int = RATE,
    channels: int = 1,
    gain: float = 0.5,
    filtered: bool = True,
) -> np.ndarray:
    """What a device records that begins at ``start_s`` of ``sound`` and whose clock is ``ppm`` fast.

    Args:
        sound: (n,) of the room, at :data:`RATE`.
        start_s: where it begins.
        seconds: how long it records, by its own clock.
        seed: of its filter and noise.
        ppm: millionths by which its seconds are too many.
        snr: of its own noise, dB.
        rate: samples per second it writes.
        channels: how many; each has noise of its own.
        gain: of a full scale.
        filtered: whether the microphone (or the room) has a response of its own, of 8 ms.

    Returns:
        (n, channels) int16.
    """
    random = np.random.default_rng(seed)
    time = start_s + np.arange(int(seconds * rate)) / rate / (1 + ppm * 1e-6)
    heard = np.interp(time * RATE, np.arange(len(sound)), sound, left=0, right=0)
    if filtered:
        response = random.normal(0, 1, rate // 125) * np.exp(-np.arange(rate // 125) / (rate / 640))
        heard = np.convolve(heard, response)[: len(heard)]
    noise = random.normal(0, max(heard.std(), 1e-4) * 10 ** (-snr / 20), (len(heard), channels))
    samples = heard[:, None] + noise
    return (samples / np.abs(samples).max() * gain * 32_767).astype(np.int16)
