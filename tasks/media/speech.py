"""How likely a person speaks, step by step: by how loud her microphone is, over its noise and over the others.

The probability is a logistic model of this evidence. Its coefficients are fitted, and its probabilities checked, on
planted conversations by ``python -m benchmarks.extracting.speaking``; docs/performance.md has the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

STEP_S = 0.1
"""Seconds from one step to the next."""

_AROUND = 3  # steps on both sides of the means that are evidence as well

_LOUDEST_DB, _FURTHEST_DB = 40.0, 20.0
_QUIET = 0.6  # 6 dB, as scaled: speech is as loud as this, where there is any
_FEWEST_FRAMES = 5  # with a face, in 0.7 s: fewer do not show whether a mouth moves
_MOUTH_STILL = 0.005  # of the face's height: what a mouth moves that is shut, as trackers see it

MODELS: Mapping[str, Sequence[float]] = {
    "floor": (-5.277, -1.195, 1.581, -7.128, 1.6, 37.61, -23.287),
    "floor+others": (-6.126, -0.904, 0.51, 1.265, -4.356, 2.358, 0.623, 0.111, 25.994, -13.145),
    "floor+mouth": (-5.569, -0.203, 0.392, -4.283, -1.153, 14.457, 0.134, -12.478, 17.741, -12.033),
    "floor+others+mouth": (
        -6.92,
        -0.172,
        0.806,
        1.48,
        -4.569,
        -4.173,
        1.934,
        13.691,
        0.574,
        -0.047,
        -10.741,
        24.552,
        -11.388,
    ),
}
"""By the kinds of evidence of a step, the coefficients of :func:`probability`."""


def evidence(own: np.ndarray, others: Sequence[np.ndarray], mouth: np.ndarray | None) -> np.ndarray:
    """(steps, 3) float32: dB over the noise, dB over the loudest other microphone, movement of the mouth; NaN: unknown.

    Args:
        own: (steps,) dB over its noise of the person's microphone.
        others: of those of the others.
        mouth: (steps,) how much her mouth moves, in heights of the face.
    """
    # NaN where any of them is: what is heard could be of the person whose microphone does not record.
    loudest = np.max(others, axis=0) if len(others) else np.full(len(own), np.nan)
    moves = np.full(len(own), np.nan) if mouth is None else mouth
    return np.stack([own, own - loudest, moves], axis=1).astype(np.float32)


def probability(evidence: np.ndarray, *, of_anybody: bool) -> np.ndarray:
    """(steps,) float32: how likely the person speaks, 0 to 1; NaN where nothing says so.

    Args:
        evidence: (steps, 3), see :func:`evidence`.
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
    """(3,) which of the three kinds of evidence a model is of; its name is theirs, with ``+``."""
    return np.array([kind in name.split("+") for kind in ("floor", "others", "mouth")])


def terms(evidence: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """(steps, terms) what the coefficients are of.

    They are 1 and the loudness of the recording's loudest steps; each kind of evidence, its mean over 0.7 s, and its
    square; and how loud that mean is beside the loudest steps, which tells soft speech from loud noise.
    """
    scaled = np.stack(
        [
            np.clip(evidence[:, 0], 0, _LOUDEST_DB) / 10,
            np.clip(evidence[:, 1], -_FURTHEST_DB, _FURTHEST_DB) / 10,
            np.clip(np.log10(np.maximum(evidence[:, 2], 1e-6) / _MOUTH_STILL), -1.0, 1.3),
        ],
        axis=1,
    )[:, kinds]
    around = np.stack([_mean_around(column) for column in scaled.T], axis=1)
    measured = scaled[~np.isnan(scaled[:, 0]), 0]
    loudest = max(float(np.percentile(measured, 95)), _QUIET) if len(measured) else _QUIET
    constant = np.ones(len(evidence))
    of_loudest = around[:, :1] / loudest
    return np.concatenate(
        [np.stack([constant, constant / loudest], axis=1), scaled, around, around**2, of_loudest, of_loudest**2], axis=1
    )


def _mean_around(values: np.ndarray) -> np.ndarray:
    """The mean of each value and its neighbours that are no NaN."""
    has = ~np.isnan(values)

    def total(of: np.ndarray) -> np.ndarray:
        return np.convolve(of, np.ones(2 * _AROUND + 1))[_AROUND : _AROUND + len(of)]

    return total(np.where(has, values, 0.0)) / np.maximum(total(has.astype(np.float64)), 1)


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
