"""The measures of one utterance, by Praat (praat-parselmouth), with Praat's names and settings.

Pitch, intensity, jitter, shimmer and harmonics-to-noise ratio are what Praat's commands give. Syllables are counted as
de Jong, N. H. and Wempe, T. (2009), "Praat script to detect syllable nuclei and measure speech rate automatically",
Behavior Research Methods 41(2), 385-390, describe: peaks of the intensity that are voiced, high enough, and preceded by
a dip.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import parselmouth
from parselmouth.praat import call

Frequency = TypeVar("Frequency", float, np.ndarray)
RATE = 16_000
SILENCE_DB, DIP_DB, PAUSE_S, SOUNDING_S = -25.0, 2.0, 0.3, 0.1
"""Silence is so far below the loudest sound; a nucleus is preceded by such a dip; the shortest pause and sound."""
_NUCLEI = (0.02, 30, 4, "no", 0.03, 0.25, 0.01, 0.35, 0.25, 450)
"""How the pitch is measured that says whether a nucleus is voiced: To Pitch (ac)."""
_NUCLEI_FLOOR = 50  # Hz, of the intensity that nuclei are found in
_LOUDEST = 0.99  # the quantile of the intensity that counts as the loudest: single bursts are no speech
_PERIODS = (0.0001, 0.02, 1.3)
"""Shortest and longest period (s) and the largest ratio of two, of jitter and shimmer."""
_AMPLITUDE = 1.6
_LEAST_FRAMES = 50  # voiced, from which on a person's own range is known


def as_sound(samples: np.ndarray) -> parselmouth.Sound:
    """(n,) samples at :data:`RATE` as Praat's object."""
    return parselmouth.Sound(samples.astype(np.float64), RATE)


def timing_of(sound: parselmouth.Sound) -> dict[str, float]:
    """The syllables a second and the pauses of an utterance, by their columns."""
    intensity = sound.to_intensity(_NUCLEI_FLOOR, None, True)
    least, most = (call(intensity, f"Get {which}", 0, 0, "Parabolic") for which in ("minimum", "maximum"))
    loudest = call(intensity, "Get quantile", 0, 0, _LOUDEST)
    spans = []
    if most > 0:  # dB: no digital silence
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", parselmouth.PraatWarning)  # a word is often about as loud everywhere
            threshold_db = SILENCE_DB - (most - loudest)
            grid = call(intensity, "To TextGrid (silences)", threshold_db, PAUSE_S, SOUNDING_S, "silent", "sounding")
        spans = [
            [call(grid, f"Get {edge} time of interval", 1, number) for edge in ("start", "end")]
            for number in range(1, call(grid, "Get number of intervals", 1) + 1)
            if call(grid, "Get label of interval", 1, number) == "sounding"
        ]
    pitch, times = call(sound, "To Pitch (ac)", *_NUCLEI), intensity.xs()
    syllables = sum(
        math.isfinite(pitch.get_value_at_time(time)) and any(start <= time < end for start, end in spans)
        for time in times[peaks(intensity.values[0], max(loudest + SILENCE_DB, least), DIP_DB)]
    )
    pauses = [after - before for (_, before), (after, _) in pairwise(spans)]
    phonation_s, length_s = sum(end - start for start, end in spans), sound.get_total_duration()
    return {
        "syllables_per_s": syllables / length_s,
        "articulation_rate": syllables / phonation_s if phonation_s else math.nan,
        "pauses": len(pauses),
        "pause_s": sum(pauses),
        "longest_pause_s": max(pauses, default=0.0),
        "pause_share": sum(pauses) / length_s,
    }


def peaks(levels: np.ndarray, least_db: float, dip_db: float) -> list[int]:
    """The maxima above ``least_db`` that are more than ``dip_db`` above the lowest level since the maximum before.

    The first one needs no dip: before an utterance is silence.

    Example:
        >>> peaks(np.array([40.0, 60, 59, 61, 50, 62, 30, 45, 30]), 50.0, 2.0)
        [1, 5]
    """
    around = np.concatenate([[-np.inf], levels, [np.inf]])
    maxima = np.flatnonzero((levels > around[:-2]) & (levels >= around[2:]) & (levels > least_db)).tolist()
    return maxima[:1] + [row for last, row in pairwise(maxima) if levels[row] - levels[last:row].min() > dip_db]


def voiced_hz(sound: parselmouth.Sound, floor_hz: float, ceiling_hz: float) -> np.ndarray:
    """(k,) Praat's pitch of the voiced frames."""
    frequency = sound.to_pitch(None, floor_hz, ceiling_hz).selected_array["frequency"]
    return frequency[frequency > 0]


def own_range(frequencies: Sequence[np.ndarray], floor_hz: float, ceiling_hz: float) -> tuple[float, float]:
    """A person's floor and ceiling: 0.75 times the lower and 1.5 times the upper quartile of what the wide range gives.

    So a pitch is seldom halved or doubled: De Looze, C. and Hirst, D. (2008), "Detecting changes in key and range for
    the automatic modelling and coding of intonation", Speech Prosody. With little voice it stays the wide range.

    Args:
        frequencies: the voiced frames of the person's utterances, measured from ``floor_hz`` to ``ceiling_hz``.
    """
    together = np.concatenate(frequencies) if len(frequencies) else np.empty(0)
    if len(together) < _LEAST_FRAMES:
        return floor_hz, ceiling_hz
    lower, upper = np.percentile(together, [25, 75])
    return max(0.75 * float(lower), 0.75 * floor_hz), min(1.5 * float(upper), 1.5 * ceiling_hz)


def voice_of(
    sound: parselmouth.Sound, floor_hz: float, ceiling_hz: float, least_voiced_s: float
) -> tuple[dict[str, float], np.ndarray]:
    """The measures of pitch, loudness and voice quality by their columns, and the voiced frames' frequencies.

    Without at least ``least_voiced_s`` of voice there are only the intensity and the voiced share.
    """
    pitch = sound.to_pitch(None, floor_hz, ceiling_hz)
    frequency, times = pitch.selected_array["frequency"], pitch.xs()
    is_voiced = frequency > 0
    measures = {
        "intensity_db": call(sound.to_intensity(floor_hz, None, True), "Get mean", 0, 0, "energy"),
        "voiced_share": float(is_voiced.mean()),
    }
    if is_voiced.sum() * pitch.dt < least_voiced_s:
        return measures, frequency[is_voiced]
    low, median, high = (call(pitch, "Get quantile", 0, 0, share, "Hertz") for share in (0.05, 0.5, 0.95))
    points = call(sound, "To PointProcess (periodic, cc)", floor_hz, ceiling_hz)
    harmonicity = sound.to_harmonicity_cc(0.01, floor_hz, 0.1, 1.0)
    measures |= {
        "f0_median_hz": median,
        "f0_range_st": semitones(high, low),
        "f0_slope_st_s": float(np.polyfit(times[is_voiced], semitones(frequency[is_voiced], median), 1)[0]),
        "jitter_local": call(points, "Get jitter (local)", 0, 0, *_PERIODS),
        "shimmer_local": call([sound, points], "Get shimmer (local)", 0, 0, *_PERIODS, _AMPLITUDE),
        "hnr_db": call(harmonicity, "Get mean", 0, 0),
    }
    return measures, frequency[is_voiced]


def semitones(frequency: Frequency, reference: Any) -> Frequency:
    """How many semitones above the reference.

    Example:
        >>> float(semitones(440.0, 220.0))
        12.0
    """
    return 12 * np.log2(frequency / reference)
