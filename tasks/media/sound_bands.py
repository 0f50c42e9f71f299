"""The loudness of a recording's sound over time, in a few frequency bands: what two recordings of one room share.

The waveforms of two microphones differ (their distance, their filters, their clocks); the times at which syllables
begin do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from storyframes.times import Clock
from tasks.media.container import FIRST_STREAMS, StreamChoice
from tasks.media.sound import read_audio

RATE = 8000  # samples per second
_HOP = 32  # samples from one moment to the next: 4 ms
HOP_S = _HOP / RATE
_WINDOW = 128  # samples: 16 ms
_EDGES_HZ = (250, 500, 1000, 2000, 3700)  # above hum, below what telephones and old cameras leave out
_BLOCK = 1 << 16  # samples that are transformed at once

_SILENT_DB = -95.0  # less is digital silence: a gate, a muted microphone
_MUTED_S = 60.0  # so much digital silence is a muted microphone; less may be a gate between two sentences
_GATED = 0.1  # the share of digital silence from which on a microphone has a gate, and its noise cannot be heard
_GATE_DB = 15.0  # below the softest speech of such a microphone its noise is thought to be
_PAUSE_ROWS = 10  # of a step in which pauses are looked for: 40 ms
_EVEN_DB, _EVEN_STEPS = 1.7, 8  # in so many steps the level changes as in the steps before: no speech
_FEWEST_PAUSES, _VARYING_DB = 10, 3.0


@dataclass(frozen=True)
class SoundBands:
    """The powers of a recording's sound."""

    start_s: float  # the first moment, seconds of the recording
    power: np.ndarray  # (n, bands) float32, one row each :data:`HOP_S` seconds
    # (start, stop) seconds without sound, where its timestamps jump or its packets do not decode
    holes: tuple[tuple[float, float], ...] = ()
    damaged: int = 0  # packets that do not decode

    HOP_S: ClassVar[float] = _HOP / RATE  # from one row to the next

    @staticmethod
    def read(path: Path, zero_s: float | None, *, streams: StreamChoice = FIRST_STREAMS) -> SoundBands:
        """The powers in the bands; the sound itself is never in memory as a whole (an hour of powers takes 15 MB).

        Args:
            zero_s, streams: as of :func:`tasks.media.sound.read_audio`.

        Raises:
            NoAudioError: there is no sound.
            RecordingError: it cannot be decoded.
        """
        powers: list[np.ndarray] = []
        kept: list[np.ndarray] = []
        holes: list[tuple[float, float]] = []
        count, start_s, damaged = 0, None, 0
        for block in read_audio(path, RATE, zero_s, streams=streams):
            start_s = block.time if start_s is None else start_s
            damaged += block.damaged
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
        return SoundBands((start_s or 0.0) + middle_s, np.concatenate(powers), tuple(holes), damaged)

    @property
    def seconds(self) -> float:
        return len(self.power) * HOP_S

    def levels(self, device: Clock, own: Clock, steps: int, step_s: float) -> np.ndarray:
        """(steps,) the loudness of a microphone in each step, dB of full scale; NaN where it has no sound or is muted.

        Args:
            device: the clock of the microphone.
            own: the clock of the steps: step k is from ``k * step_s`` on.
        """

        def placed(device_s: np.ndarray) -> np.ndarray:
            return np.floor(own.to_device(device.to_session(device_s)) / step_s).astype(np.int64)

        rows = placed(self.start_s + HOP_S * np.arange(len(self.power)))
        is_inside = (rows >= 0) & (rows < steps)
        rows, power = rows[is_inside], self.power[is_inside].sum(axis=1, dtype=np.float64)
        count = np.bincount(rows, minlength=steps)
        mean = np.bincount(rows, power, steps) / np.maximum(count, 1)
        levels = np.where(count >= step_s / HOP_S / 2, 10 * np.log10(np.maximum(mean, 1e-10)), np.nan)
        for start, stop in self.holes:
            first, last = np.clip(placed(np.array([start, stop])), 0, steps).tolist()
            levels[first : last + 1] = np.nan
        edges = np.flatnonzero(np.diff(np.concatenate([[False], levels < _SILENT_DB, [False]])))
        for first, stop in edges.reshape(-1, 2).tolist():
            if (stop - first) * step_s >= _MUTED_S:
                levels[first:stop] = np.nan
        return levels

    @staticmethod
    def over_floor(levels: np.ndarray) -> np.ndarray:
        """(steps,) dB over the microphone's noise, the hundredth of the steps that is softest; NaN as the levels.

        A monologue has such pauses as well. The noise is at most 15 dB softer than the softest tenth, which sound from
        before a microphone is plugged in may be, and with a gate, which leaves no noise in pauses, just so soft.
        """
        heard = levels[levels >= _SILENT_DB]
        if not len(heard):
            return np.full(len(levels), np.nan)
        softest, soft = np.percentile(heard, [1, 10])
        is_gated = np.mean(levels[~np.isnan(levels)] < _SILENT_DB) > _GATED
        return levels - (soft - _GATE_DB if is_gated else max(softest, soft - _GATE_DB))

    @property
    def has_varying_noise(self) -> bool:
        """Whether the noise in pauses differs by more than 3 dB, as it does with automatic gain.

        Pauses are what is even for 0.4 s, or becomes louder evenly; speech hardly ever is.
        """
        rows = self.power[: len(self.power) // _PAUSE_ROWS * _PAUSE_ROWS].sum(axis=1, dtype=np.float64)
        levels = 10 * np.log10(np.maximum(rows.reshape(-1, _PAUSE_ROWS).mean(axis=1), 1e-10))
        levels[levels < _SILENT_DB] = np.nan
        is_even = np.abs(np.diff(levels, 2, append=[np.nan] * (_EVEN_STEPS + 2))) < _EVEN_DB
        is_pause = np.lib.stride_tricks.sliding_window_view(is_even, _EVEN_STEPS).all(axis=1)
        pauses = levels[np.flatnonzero(is_pause) + 1 + _EVEN_STEPS // 2]
        return len(pauses) >= _FEWEST_PAUSES and bool(np.ptp(np.percentile(pauses, [10, 75])) > _VARYING_DB)


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
