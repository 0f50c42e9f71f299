"""The loudness of a recording's sound over time, in a few frequency bands: what two recordings of one room share.

The waveforms of two microphones differ (their distance, their filters, their clocks); the times at which syllables
begin do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.media.sound import read_audio

RATE = 8000  # samples per second
_HOP = 32  # samples from one moment to the next: 4 ms
HOP_S = _HOP / RATE
_WINDOW = 128  # samples: 16 ms
_EDGES_HZ = (250, 500, 1000, 2000, 3700)  # above hum, below what telephones and old cameras leave out
_BLOCK = 1 << 16  # samples that are transformed at once
_STEADY = 0.03  # of the logarithm of power, 0.13 dB: a steady tone
_EMPTY = 1e-10  # power of a band (a full-scale sine has about 1): less is a resampler's rounding


@dataclass(frozen=True)
class SoundBands:
    """The powers of a recording's sound."""

    start_s: float  # the first moment, seconds of the recording
    power: np.ndarray  # (n, bands) float32, one row each :data:`HOP_S` seconds
    holes: tuple[tuple[float, float], ...] = ()  # (start, stop) seconds without sound, where its timestamps jump

    @property
    def seconds(self) -> float:
        return len(self.power) * HOP_S


def read_bands(path: Path, zero_s: float | None) -> SoundBands:
    """The powers in the bands; the sound itself is never in memory as a whole (an hour of powers takes 15 MB).

    Args:
        zero_s: as of :func:`tasks.media.sound.read_audio`.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: it cannot be decoded.
    """
    powers: list[np.ndarray] = []
    kept: list[np.ndarray] = []
    holes: list[tuple[float, float]] = []
    count, start_s = 0, None
    for block in read_audio(path, RATE, zero_s):
        start_s = block.time if start_s is None else start_s
        if block.silence_s:
            holes.append((block.time, block.time + block.silence_s))
        kept.append(block.samples)
        count += len(block.samples)
        if count >= _BLOCK:
            samples = np.concatenate(kept)
            powers.append(_powers(samples))
            kept = [samples[len(powers[-1]) * _HOP :]]
            count = len(kept[0])
    powers.append(_powers(np.concatenate(kept)))
    middle_s = _WINDOW / 2 / RATE
    return SoundBands((start_s or 0.0) + middle_s, np.concatenate(powers), tuple(holes))


def _powers(samples: np.ndarray) -> np.ndarray:
    """The powers of all whole windows in these samples."""
    bands = len(_EDGES_HZ) - 1
    if len(samples) < _WINDOW:
        return np.empty((0, bands), np.float32)
    taper = np.hanning(_WINDOW).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(samples, _WINDOW)[::_HOP]
    spectrum = np.fft.rfft(windows * (2 * taper / taper.sum()), axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    edges = [round(edge * _WINDOW / RATE) for edge in _EDGES_HZ]
    return np.add.reduceat(power, edges, axis=1)[:, :bands].astype(np.float32)


def changes(power: np.ndarray, hop_s: float) -> np.ndarray:
    """The changes of loudness at each moment, in each band: (n, bands) float32, 0 in a band that is steady.

    Slow changes and the overall loudness of each band are removed.
    """
    changed = np.zeros(power.shape, np.float32)
    width = max(1, round(0.25 / hop_s))
    for band in range(power.shape[1]):
        of_band = power[:, band]
        floor = max(_EMPTY, float(np.percentile(of_band, 20)), 1e-4 * float(of_band.mean()))
        level = np.log(of_band + floor)
        level -= _running_mean(level, width)
        spread = float(level.std())
        if spread > _STEADY:
            changed[:, band] = np.clip(level / spread, -3, 3)
    return changed


def _running_mean(values: np.ndarray, reach: int) -> np.ndarray:
    """The mean of each value and its ``reach`` neighbours on both sides, fewer at the ends."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    centres = np.arange(len(values))
    first, stop = np.maximum(centres - reach, 0), np.minimum(centres + reach + 1, len(values))
    return ((total[stop] - total[first]) / (stop - first)).astype(np.float32)


def coarser(bands: SoundBands, times: int) -> np.ndarray:
    """The mean powers of every ``times`` consecutive moments: (n // times, bands)."""
    whole = len(bands.power) // times
    return bands.power[: whole * times].reshape(whole, times, -1).mean(axis=1)
