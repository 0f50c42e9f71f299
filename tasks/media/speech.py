"""How likely a person speaks, step by step: by how loud her microphone is, over its noise and over the others.

The probability is a logistic model of this evidence. Its coefficients are fitted, and its probabilities checked, on
conversations of recorded voices by ``python -m benchmarks.extracting.speaking``; docs/speaking.md has the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

STEP_S = 0.1
"""Seconds from one step to the next."""

_AROUND = 3  # steps on both sides of the means that are evidence as well

_LOUDEST_DB, _FURTHEST_DB = 40.0, 20.0
_LEAST_DB, _MOST_DB = -10.0, 30.0  # over the expected crosstalk
_QUIET = 0.6  # 6 dB, as scaled: speech is as loud as this, where there is any
_LOUD_DB = 15.0  # below its loudest steps a microphone hears speech well enough to measure how others hear it
_LEAST_CROSSTALK_DB = -5.0  # the most that a microphone can be thought to hear of another person
_FEWEST_FRAMES = 5  # with a face, in 0.7 s: fewer do not show whether a mouth moves
_NEAR_S = 0.3  # steps so far from a turn have its voice
_MOUTH_STILL = 0.005  # of the face's height: what a mouth moves that is shut, as trackers see it

MODELS: Mapping[str, Sequence[float]] = json.loads(Path(__file__).with_suffix(".json").read_text())
"""By the kinds of evidence of a step, the coefficients of :func:`probability`."""


def evidence(own: np.ndarray, others: Sequence[np.ndarray], mouth: np.ndarray | None) -> np.ndarray:
    """(steps, 4) float32: dB over the noise, over the loudest other microphone and over the expected crosstalk, and the
    movement of the mouth; NaN: unknown.

    Args:
        own: (steps,) dB over its noise of the person's microphone.
        others: of those of the others.
        mouth: (steps,) how much her mouth moves, in heights of the face.
    """
    # NaN where any of them is: what is heard could be of the person whose microphone does not record.
    loudest = np.max(others, axis=0) if len(others) else np.full(len(own), np.nan)
    expected = np.max([_crosstalk(own, other) for other in others], axis=0) if len(others) else loudest
    moves = np.full(len(own), np.nan) if mouth is None else mouth
    return np.stack([own, own - loudest, own - 10 * np.log10(1 + expected), moves], axis=1).astype(np.float32)


def _crosstalk(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(steps,) the power that the own microphone hears of another person, as a multiple of its noise.

    It is that of the other microphone, softer by what the own one is softer in the tenth of the steps with loud speech
    in which it is softest: there the other person speaks alone, if ever.
    """
    is_known = ~np.isnan(own + other)
    loud = is_known & (other > np.percentile(other[is_known], 95) - _LOUD_DB) if is_known.any() else is_known
    softer_db = min(np.percentile((own - other)[loud], 10), _LEAST_CROSSTALK_DB) if loud.any() else _LEAST_CROSSTALK_DB
    return np.maximum(10 ** (other / 10) - 1, 0.0) * 10 ** (softer_db / 10)


def probability(evidence: np.ndarray, *, of_anybody: bool) -> np.ndarray:
    """(steps,) float32: how likely the person speaks, 0 to 1; NaN where nothing says so.

    Args:
        evidence: (steps, 4), see :func:`evidence`.
        of_anybody: whether the loudness of one microphone is enough: it does not say who of several persons speaks.
    """
    has = ~np.isnan(evidence)
    result = np.full(len(evidence), np.nan, np.float32)
    for name, coefficients in MODELS.items():
        rows = (has == kinds_of(name)).all(axis=1)
        if not rows.any() or (name == "floor" and not of_anybody):
            continue
        logits = terms(evidence, kinds_of(name))[rows] @ np.asarray(coefficients)
        result[rows] = 1 / (1 + np.exp(-logits))
    return result


def kinds_of(name: str) -> np.ndarray:
    """(4,) which columns of the evidence a model is of; its name is theirs, with ``+``."""
    return np.array([kind in name.split("+") for kind in ("floor", "others", "others", "mouth")])


def terms(evidence: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """(steps, terms) what the coefficients are of.

    They are 1 and the loudness of the recording's loudest steps. Of each kind of evidence its value, and with its
    square its mean over 0.7 s and the most that it is before and after the step, which bridges short pauses. Of the
    loudness these two beside the loudest steps as well, which tells soft speech from loud noise.
    """
    scaled = np.stack(
        [
            np.clip(evidence[:, 0], 0, _LOUDEST_DB) / 10,
            np.clip(evidence[:, 1], -_FURTHEST_DB, _FURTHEST_DB) / 10,
            np.clip(evidence[:, 2], _LEAST_DB, _MOST_DB) / 10,
            np.clip(np.log10(np.maximum(evidence[:, 3], 1e-6) / _MOUTH_STILL), -1.0, 1.3),
        ],
        axis=1,
    )[:, kinds]
    around = np.stack([_mean_around(column) for column in scaled.T], axis=1)
    bridged = np.stack([_bridged(column) for column in scaled.T], axis=1)
    measured = scaled[~np.isnan(scaled[:, 0]), 0]
    loudest = max(float(np.percentile(measured, 95)), _QUIET) if len(measured) else _QUIET
    constant = np.ones((len(evidence), 1))
    smooth = np.concatenate([around, bridged, around[:, :1] / loudest, bridged[:, :1] / loudest], axis=1)
    return np.concatenate([constant, constant / loudest, scaled, smooth, smooth**2], axis=1)


def _bridged(values: np.ndarray) -> np.ndarray:
    """The less of the largest values in the 0.3 s before and after each step, itself included; NaN is left out."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, _AROUND, constant_values=np.nan), 2 * _AROUND + 1)
    before, after = (np.fmax.reduce(part, axis=1) for part in (windows[:, : _AROUND + 1], windows[:, _AROUND:]))
    return np.asarray(np.minimum(before, after))


def _mean_around(values: np.ndarray) -> np.ndarray:
    """The mean of each value and its neighbours that are no NaN."""
    has = ~np.isnan(values)

    def total(of: np.ndarray) -> np.ndarray:
        return np.convolve(of, np.ones(2 * _AROUND + 1))[_AROUND : _AROUND + len(of)]

    return total(np.where(has, values, 0.0)) / np.maximum(total(has.astype(np.float64)), 1)


def voice_probability(spans: np.ndarray, likely: np.ndarray, voices: int, time_s: np.ndarray) -> np.ndarray:
    """(steps,) how likely a voice is a person's, if there is one; NaN where it is not known whose it is.

    It is that of the turn that the step is in or next to, and where two voices speak, the person's own. Further from
    any turn all voices are as likely.

    Args:
        spans: (k, 2) start and end of the turns of all voices, seconds.
        likely: (k,) how likely each turn is the person's; NaN: not known.
        voices: how many there are.
        time_s: (steps,) seconds, ascending.
    """
    result, distance = np.full(len(time_s), 1 / voices), np.full(len(time_s), np.inf)
    for turn in np.argsort(np.nan_to_num(likely, nan=0.5), kind="stable"):  # the person's own last
        start_s, end_s = spans[turn]
        steps = slice(*np.searchsorted(time_s, [start_s - _NEAR_S, end_s + _NEAR_S]))
        away = np.maximum(np.maximum(start_s - time_s[steps], time_s[steps] - end_s), 0.0)
        is_nearer = away <= distance[steps]
        result[steps][is_nearer], distance[steps][is_nearer] = likely[turn], away[is_nearer]
    return result


def mouth_movement(time: np.ndarray, opening: np.ndarray, steps: int) -> np.ndarray:
    """(steps,) the standard deviation of a mouth's opening over the 0.7 s around each step, NaN with under 5 frames.

    Args:
        time: (T,) seconds of the frames, ascending, on the clock of the steps.
        opening: (T,) how far the lips are apart in each, in heights of the face; NaN where there is no face.
    """
    has = ~np.isnan(opening)
    time, opening = time[has], opening[has]
    middles = (np.arange(steps) + 0.5) * STEP_S
    first = np.searchsorted(time, middles - (_AROUND + 0.5) * STEP_S)
    stop = np.searchsorted(time, middles + (_AROUND + 0.5) * STEP_S)
    count = stop - first
    sums = np.concatenate([[0.0], np.cumsum(opening)])
    squares = np.concatenate([[0.0], np.cumsum(opening**2)])
    mean = (sums[stop] - sums[first]) / np.maximum(count, 1)
    variance = (squares[stop] - squares[first]) / np.maximum(count, 1) - mean**2
    return np.where(count >= _FEWEST_FRAMES, np.sqrt(np.maximum(variance, 0.0)), np.nan)
