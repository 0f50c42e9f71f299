"""The curves of a feature of which nothing is known but what the store says.

Few columns are drawn each; of many, which nobody could tell apart, the change from row to row is: it shows where
something happens, and where nothing does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from storyframes.array_roles import column_names
from storyframes.spec import ArraySpec, Axis
from tasks.inspect.curves.session_curves import ArrayCurves
from tasks.inspect.stored_feature import CLOCKS, StoredFeature

MOST_COLUMNS = 12
_BLOCK = 2048  # rows read at once: a long session's 2048 columns never lie in memory together


def read_array_curves(feature: StoredFeature, frame_time: np.ndarray) -> Iterator[ArrayCurves]:
    """The curves of every array whose rows mean something by themselves.

    Args:
        feature: as the store has it; its per-frame arrays have a row for each frame.
        frame_time: (T,) seconds, of the frames.

    Raises:
        StoreError: an array cannot be read.
    """
    for name, spec in feature.spec.arrays.items():
        if name in CLOCKS or spec.axis is Axis.FRAME_EDGE:
            continue
        unit = re.split("[,;]", spec.units)[0]  # what follows explains it
        if int(np.prod(spec.shape)) <= MOST_COLUMNS:
            names, values = tuple(column_names(spec) or [name]), _columns(feature, name, spec)
        else:
            names, unit, values = ("change",), "", row_change(feature, name)[:, None]
        yield ArrayCurves(feature.name, name, names, unit, row_times(feature, name, frame_time), values)


def row_change(feature: StoredFeature, array: str) -> np.ndarray:
    """How far each row lies from the one before, relative to the rows' mean norm: (n,) float64.

    NaN where one of the two is no measurement, as for the first; what only one of the two has is left out. Where every
    n-th row alone is a measurement (``every_n_frames``), it is how far that lies from the one n rows before, and the
    rows between the two have the same.
    """
    rows = feature.rows(array)
    spec = feature.spec.arrays[array]
    is_measured = _is_measured(feature, array)
    step = _usual_step(is_measured)
    change = np.full(rows, np.nan)
    norms, measured, position = 0.0, 0, 0
    for block, missing in _measured_blocks(feature, array, overlap=step):
        values = _numbers(block, spec)
        values[missing] = np.nan
        values[np.isinf(values)] = np.nan  # else the mean norm is infinite too, and the whole session would seem still
        of_before = min(step, position)  # rows that came with the block, save for the first one
        first = position - of_before + step
        steps = _norms(values[step:] - values[:-step])
        change[first : first + len(steps)] = steps
        fresh = values[of_before:]
        of_rows = _norms(fresh)
        norms += float(np.nansum(of_rows))
        measured += int(np.isfinite(of_rows).sum())
        position += len(fresh)
    ends = np.flatnonzero(np.isfinite(change))
    for before in range(1, step):
        between = ends[~is_measured[ends - before]] - before
        change[between] = change[between + before]
    return change / (norms / measured) if norms else change


def _is_measured(feature: StoredFeature, array: str) -> np.ndarray:
    """(n,) which rows are measurements."""
    mask = feature.mask_of(array)
    return feature.read(mask) != 0 if mask else np.ones(feature.rows(array), bool)


def _usual_step(is_measured: np.ndarray) -> int:
    """How many rows lie most often from one measurement to the next; 1 of no two."""
    steps = np.diff(np.flatnonzero(is_measured))
    return int(np.bincount(steps).argmax()) if len(steps) else 1


def _norms(rows: np.ndarray) -> np.ndarray:
    """The norm of each row over what is there; NaN where nothing is."""
    norms = np.linalg.norm(rows, axis=1)
    gaps = np.flatnonzero(np.isnan(norms))
    some = gaps[~np.isnan(rows[gaps]).all(axis=1)]
    norms[some] = np.sqrt(np.nansum(np.square(rows[some]), axis=1))
    return norms


def _columns(feature: StoredFeature, array: str, spec: ArraySpec) -> np.ndarray:
    parts = []
    for block, missing in _measured_blocks(feature, array):
        values = _numbers(block, spec)
        values[missing] = np.nan
        parts.append(values)
    return np.concatenate(parts) if parts else np.empty((0, max(1, int(np.prod(spec.shape)))))


def _measured_blocks(
    feature: StoredFeature, array: str, *, overlap: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The array in blocks, and which of their rows are no measurements."""
    mask = feature.mask_of(array)
    masks = feature.blocks(mask, _BLOCK, overlap=overlap) if mask else None
    for block in feature.blocks(array, _BLOCK, overlap=overlap):
        yield block, np.zeros(len(block), bool) if masks is None else next(masks) == 0


def _numbers(block: np.ndarray, spec: ArraySpec) -> np.ndarray:
    """(n, columns) floats, NaN where the array has what stands for no value (a whole number below 0)."""
    exact = np.float32 if block.dtype in (np.float16, np.float32) else np.float64
    values = block.reshape(len(block), -1).astype(exact)
    if block.dtype.kind == "i" and spec.fill < 0:
        values[values == spec.fill] = np.nan
    return values


def column_blocks(feature: StoredFeature, array: str, columns: np.ndarray) -> Iterator[np.ndarray]:
    """Some columns of an array, block by block: (n, columns) float64, NaN where there is no measurement."""
    for block, missing in _measured_blocks(feature, array):
        values = _numbers(block, feature.spec.arrays[array])[:, columns].astype(np.float64)
        values[missing] = np.nan
        yield values


def row_times(feature: StoredFeature, array: str, frame_time: np.ndarray) -> np.ndarray | None:
    """When each row of an array is, in seconds; None where the store does not say."""
    if feature.spec.arrays[array].axis is Axis.FRAME:
        return frame_time
    times = feature.time_array(array)
    return feature.read(times) if times else None
