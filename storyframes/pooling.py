"""Rows of frames or of sound pooled over intervals: the times of words, or of utterances.

A row lasts until the next one, at most one and a half of the usual steps, so that a stretch of lost frames has no row.
It belongs to every interval with which it shares more than 10 microseconds, as in CMU-MultimodalSDK's ``align``. Only
rows that are measurements count, and of these, in each column, only those that have a value in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.times import ROUNDING, ticks, usual_step

Functional = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _mean(rows: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.nansum(rows, axis=0) / count


def _std(rows: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.sqrt(np.nansum((rows - _mean(rows, count)) ** 2, axis=0) / count)


def _max(rows: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.fmax.reduce(rows, axis=0)


FUNCTIONALS: Mapping[str, Functional] = {"mean": _mean, "std": _std, "max": _max}
"""What can be computed over the rows of an interval; std is that of the rows themselves: 0 where there is one."""
MEAN = ("mean",)
POOLED_OVER: Mapping[Axis, str] = {Axis.WORD: "glove", Axis.UTTERANCE: "sbert"}
"""The features that say when words and utterances are, unless another is named."""
_SHARED = ticks(10e-6)


def check_functionals(functionals: Sequence[str]) -> None:
    """Refuse unknown functionals.

    Raises:
        TypeError: they are one string.
        ValueError: one is unknown or named twice, or there is none.
    """
    if isinstance(functionals, str):
        raise TypeError(f"functionals={functionals!r} is one string; give a sequence of names: [{functionals!r}]")
    known = ", ".join(FUNCTIONALS)
    if unknown := [name for name in functionals if name not in FUNCTIONALS]:
        raise ValueError(f"functionals={list(functionals)} has {unknown[0]!r}: there are {known}")
    if not functionals or len(set(functionals)) < len(functionals):
        raise ValueError(f"functionals={list(functionals)}: name at least one, and each once, of {known}")


def rows_during(time: np.ndarray, start: np.ndarray, end: np.ndarray, where: str) -> np.ndarray:
    """(n, 2) int64: of each interval the first of its rows, and the row after the last.

    Args:
        time: (rows,) ticks at which each row begins.
        start: (n,) ticks of the intervals, on the clock of ``time``, as is ``end``.
        where: the array of these times, for the message.

    Raises:
        ValueError: a row begins earlier than the one before it.
    """
    step = usual_step(time, where)
    longest = np.int64(1.5 * step) + ROUNDING if step else np.int64(0)
    until = np.minimum(np.append(time[1:], time[-1:] + np.int64(step)), time + longest)
    first = np.searchsorted(until, start + _SHARED, side="right")
    stop = np.searchsorted(time, end - _SHARED, side="left")
    return np.stack([first, np.where(end - start > _SHARED, np.maximum(stop, first), first)], axis=1).astype(np.int64)


def pool(rows: np.ndarray, measured: np.ndarray, spans: np.ndarray, functionals: Sequence[str]) -> np.ndarray:
    """(n, …, columns x functionals) float64: the functionals of each span of rows, NaN where none has a value.

    Args:
        rows: (m, …, columns) of a kind of float, or (m,).
        measured: (m,) bool.
        spans: (n, 2) places in ``rows``.
        functionals: names of :data:`FUNCTIONALS`; the columns of each follow those of the one before.
    """
    shape = rows.shape[1:]
    pooled = np.full((len(spans), len(functionals), *shape), np.nan)
    for place, (first, stop) in enumerate(spans):
        chosen = rows[first:stop][measured[first:stop]].astype(np.float64)
        if not len(chosen):
            continue
        count = (~np.isnan(chosen)).sum(axis=0)
        with np.errstate(invalid="ignore"):  # a column without a value is 0 / 0: NaN
            for number, name in enumerate(functionals):
                pooled[place, number] = FUNCTIONALS[name](chosen, count)
    if len(functionals) == 1:
        return pooled[:, 0]
    return np.concatenate(np.moveaxis(pooled, 1, 0), axis=-1) if shape else pooled


def pooled_spec(array: ArraySpec, axis: Axis, functionals: Sequence[str]) -> ArraySpec:
    """What an array is after pooling: columns keep their names for means, else they are ``<column>.<functional>``.

    Args:
        axis: what the intervals are.
    """
    dtype = "float32" if array.dtype == "float16" else array.dtype
    shape, dims, columns = array.shape, array.dims, array.columns
    if len(functionals) > 1:
        shape = (*shape[:-1], shape[-1] * len(functionals)) if shape else (len(functionals),)
        dims = dims or ("functional",)
    if tuple(functionals) != MEAN:
        named = columns or (() if array.shape else ("",))
        columns = tuple(f"{column}.{name}".lstrip(".") for name in functionals for column in named)
        columns = columns if shape else ()
    about = f"{', '.join(functionals)} over each {axis}: {array.about}"
    return replace(array, axis=axis, dtype=dtype, about=about, shape=shape, dims=dims, columns=columns, fill=math.nan)


def pools(spec: FeatureSpec) -> bool:
    """Whether a feature's rows are pooled where words or utterances are asked: those of frames or sound alone are."""
    axes = {array.axis for array in spec.arrays.values()}
    return bool(axes & {Axis.FRAME, Axis.AUDIO_FRAME}) and not axes & {Axis.MOMENT, *POOLED_OVER}


def can_be_pooled(array: ArraySpec) -> bool:
    """Whether an array has numbers with a mean: those of whole numbers (classes, counts, rows) are left out."""
    return np.dtype(array.dtype).kind == "f"
