"""The curves and heat maps of any feature, from its description in the store.

Each of a few columns is a curve. Of many columns, the change from row to row is: it shows where something happens, and
where nothing does. They are also a heat map of columns spread evenly over the array. A heat map shows stored columns by
their names, because a mean of neighbouring columns would be a number that the feature does not have. The scores of a
model's head are curves of their own kind, of many labels those with the highest scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from storyframes.array_roles import column_names
from storyframes.spec import MAIN_ARRAY, Axis
from storyframes.times import last_frame_end_s, usual_step_s
from tasks.inspect.session_curves import ArrayCurves, HeatMap, ScoreCurves
from tasks.inspect.stored_feature import CLOCKS, StoredFeature

MOST_COLUMNS = 12
MOST_SHOWN, MOST_CELLS = 48, 320  # of a heat map: columns, and cells of time
_BLOCK = 128  # rows read at once, so that memory never holds a long session's 2048 columns


def read_array_curves(feature: StoredFeature, frame_time: np.ndarray) -> Iterator[ArrayCurves]:
    """The curves of every array of values; not those of times and offsets.

    Args:
        feature: its per-frame arrays have a row for each frame.
        frame_time: (T,) seconds of the frames.

    Raises:
        StoreError: an array cannot be read.
    """
    for name, spec in feature.spec.arrays.items():
        if name in CLOCKS or spec.axis is Axis.FRAME_EDGE:
            continue
        unit = re.split("[,;]", spec.units)[0]  # without its explanation
        if name == MAIN_ARRAY and _has_scores_alone(feature):
            continue
        if int(np.prod(spec.shape)) <= MOST_COLUMNS:
            blocks = list(_value_blocks(feature, name))
            values = np.concatenate(blocks) if blocks else np.empty((0, max(1, int(np.prod(spec.shape)))))
            names = tuple(column_names(spec) or [name])
        else:
            names, unit, values = ("change",), "", row_change(feature, name)[:, None]
        yield ArrayCurves(feature.name, name, names, unit, _row_times(feature, name, frame_time), values)


def _score_columns(feature: StoredFeature) -> np.ndarray:
    """The numbers of the columns that are scores of a model's head."""
    model = feature.attributes.get("model")
    if not isinstance(model, dict) or "activation" not in model:
        return np.empty(0, int)
    columns, groups = np.arange(len(feature.spec.columns)), feature.spec.groups
    hidden = groups["hidden"].stop if "hidden" in groups else 0  # there is no group of scores beside a label 'scores'
    return columns[groups.get("scores", slice(hidden, None))]


def _has_scores_alone(feature: StoredFeature) -> bool:
    return 0 < len(feature.spec.columns) == len(_score_columns(feature))


def read_scores(feature: StoredFeature, frame_time: np.ndarray) -> Iterator[ScoreCurves]:
    """The scores of a model's head, if the feature has any, of at most ``MOST_COLUMNS`` labels: the highest first.

    Args:
        feature: its per-frame arrays have a row for each frame.
        frame_time: (T,) seconds of the frames.

    Raises:
        StoreError: an array cannot be read.
    """
    columns = _score_columns(feature)
    starts = _row_times(feature, MAIN_ARRAY, frame_time) if len(columns) else None
    if starts is None or not len(starts):
        return
    spec = feature.spec.arrays[MAIN_ARRAY]
    shown = columns
    if len(columns) > MOST_COLUMNS:
        largest = np.full(len(columns), -np.inf)
        for block in _value_blocks(feature, MAIN_ARRAY):
            largest = np.fmax(largest, np.fmax.reduce(block[:, columns]))
        shown = columns[np.argsort(-largest, kind="stable")[:MOST_COLUMNS]]
    values = np.concatenate([block[:, shown] for block in _value_blocks(feature, MAIN_ARRAY)])
    order = np.argsort(starts, kind="stable")
    starts, values = starts[order], values[order]
    end = np.append(starts[1:], last_frame_end_s(starts))
    if "end" in feature.spec.arrays and (len(starts) == 1 or "time" not in feature.spec.arrays):  # a part, or words
        starts, stops = feature.read("start")[order], feature.read("end")[order]
        end = np.append(np.minimum(end[:-1], stops[:-1]), stops[-1])
    elif spec.axis is Axis.WINDOW:  # its time is its middle
        half_s = usual_step_s(starts) / 2
        starts, end = starts - half_s, end - half_s
    names = tuple(feature.spec.columns[number] for number in shown)
    activation = str(feature.attributes["model"]["activation"])
    unit = re.split("[,;]", spec.units)[0]
    yield ScoreCurves(feature.name, MAIN_ARRAY, names, unit, starts, values, end, activation, len(columns))


def row_change(feature: StoredFeature, array: str) -> np.ndarray:
    """The distance of each row from the one before, relative to the rows' mean norm: (n,) float64.

    NaN for the first row and where one of the two is no measurement; columns that only one of them has are left out.
    Where only every n-th row is a measurement (``every_n_frames``), it is the distance from the row n before, and the
    rows between the two have the same value.
    """
    rows = feature.rows(array)
    is_measured = _is_measured(feature, array)
    step = _usual_step(is_measured)
    change = np.full(rows, np.nan)
    norms, measured, position = 0.0, 0, 0
    for values in _value_blocks(feature, array, overlap=step):
        values[np.isinf(values)] = np.nan  # an infinite mean norm would make the whole session seem still
        repeated = min(step, position)  # rows of the block before, which the first block does not have
        first = position - repeated + step
        steps = _norms(values[step:] - values[:-step])
        change[first : first + len(steps)] = steps
        row_norms = _norms(values[repeated:])
        norms += float(np.nansum(row_norms))
        measured += int(np.isfinite(row_norms).sum())
        position += len(row_norms)
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
    """The most frequent number of rows from one measurement to the next; 1 where there are not two."""
    steps = np.diff(np.flatnonzero(is_measured))
    return int(np.bincount(steps).argmax()) if len(steps) else 1


def _norms(rows: np.ndarray) -> np.ndarray:
    """The norm of each row over its finite values; NaN where it has none."""
    norms = np.linalg.norm(rows, axis=1)
    gaps = np.flatnonzero(np.isnan(norms))
    some = gaps[~np.isnan(rows[gaps]).all(axis=1)]
    norms[some] = np.sqrt(np.nansum(np.square(rows[some]), axis=1))
    return norms


def _value_blocks(feature: StoredFeature, array: str, *, overlap: int = 0) -> Iterator[np.ndarray]:
    """The array in blocks (n, columns) of floats; NaN in rows without a measurement, and for integers below 0 that the
    array has in place of missing values."""
    mask, fill = feature.mask_of(array), feature.spec.arrays[array].fill
    masks = feature.blocks(mask, _BLOCK, overlap=overlap) if mask else None
    for block in feature.blocks(array, _BLOCK, overlap=overlap):
        exact = np.float32 if block.dtype in (np.float16, np.float32) else np.float64
        values = block.reshape(len(block), -1).astype(exact)
        if block.dtype.kind == "i" and fill < 0:
            values[values == fill] = np.nan
        if masks is not None:
            values[next(masks) == 0] = np.nan
        yield values


def _row_times(feature: StoredFeature, array: str, frame_time: np.ndarray) -> np.ndarray | None:
    """The time of each row of an array in seconds; None where the store has none."""
    if feature.spec.arrays[array].axis is Axis.FRAME:
        return frame_time
    times = feature.time_array(array)
    return feature.read(times) if times else None


def read_heat_map(feature: StoredFeature, frame_time: np.ndarray) -> HeatMap | None:
    """The heat map of a feature's main array; None where it has few columns, or rows without times or at no rate.

    Args:
        feature: its per-frame arrays have a row for each frame.
        frame_time: (T,) seconds of the frames.

    Raises:
        StoreError: an array cannot be read.
    """
    spec = feature.spec.arrays.get(MAIN_ARRAY)
    if _has_scores_alone(feature):
        return None
    has_rate = spec is not None and spec.axis in (Axis.FRAME, Axis.AUDIO_FRAME, Axis.WINDOW)
    if spec is None or not has_rate or int(np.prod(spec.shape)) <= MOST_COLUMNS:
        return None
    time = _row_times(feature, MAIN_ARRAY, frame_time)
    if time is None or not len(time):
        return None
    columns = int(np.prod(spec.shape))
    shown = np.unique(np.linspace(0, columns - 1, min(columns, MOST_SHOWN)).round().astype(int))
    names = column_names(spec) or [str(number) for number in range(columns)]
    rows = -(-len(time) // MOST_CELLS)
    means = np.full((-(-len(time) // rows), len(shown)), np.nan)
    total, squares, counts = np.zeros(len(shown)), np.zeros(len(shown)), np.zeros(len(shown))
    rest, cell = np.empty((0, len(shown))), 0
    for block in _value_blocks(feature, MAIN_ARRAY):
        block = block[:, shown].astype(np.float64)
        is_finite = np.isfinite(block)
        values = np.where(is_finite, block, 0.0)
        total, squares, counts = total + values.sum(0), squares + np.square(values).sum(0), counts + is_finite.sum(0)
        rest = np.concatenate([rest, block])
        whole = len(rest) // rows
        means[cell : cell + whole] = _means(rest[: whole * rows].reshape(whole, rows, len(shown)))
        rest, cell = rest[whole * rows :], cell + whole
    if len(rest):
        means[cell] = _means(rest[None])[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / counts
        deviation = np.sqrt(np.maximum(squares / counts - np.square(mean), 0.0))
        scores = (means - mean) / np.where(deviation > 0, deviation, np.nan)
    shown_names = tuple(names[number] for number in shown)
    # the time of a window is its middle; one without has its start
    is_middle = spec.axis is Axis.WINDOW and feature.time_array(MAIN_ARRAY) == "time"
    half_s = usual_step_s(time) / 2 if is_middle else 0.0
    starts = time[::rows] - (half_s if rows > 1 else 0.0)
    return HeatMap(feature.name, shown_names, columns, starts, scores, rows, last_frame_end_s(time) - half_s)


def _means(cells: np.ndarray) -> np.ndarray:
    """The means over rows of (m, rows, columns), of the finite values; NaN where a cell has none."""
    is_finite = np.isfinite(cells)
    with np.errstate(invalid="ignore"):
        return np.where(is_finite, cells, 0.0).sum(1) / is_finite.sum(1)
