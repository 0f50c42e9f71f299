"""Arrays of many columns as a heat map: what each column does over a session, beside the others.

Some hundred columns are as many as an eye can take in, so columns spread evenly over the array are shown, each as it is
and by its name: a mean of neighbours would be a number that the feature does not have.
"""

from __future__ import annotations

import numpy as np

from storyframes.array_roles import column_names
from storyframes.spec import MAIN_ARRAY, Axis
from storyframes.times import last_frame_end_s
from tasks.inspect.curves.array_curves import MOST_COLUMNS, column_blocks, row_times
from tasks.inspect.curves.session_curves import HeatMap
from tasks.inspect.stored_feature import StoredFeature

MOST_SHOWN, MOST_CELLS = 48, 400  # columns, and cells of time
_AXES = (Axis.FRAME, Axis.AUDIO_FRAME)  # whose rows follow each other at a rate


def read_heat_map(feature: StoredFeature, frame_time: np.ndarray) -> HeatMap | None:
    """The heat map of a feature's main array; None where it has few columns, no times or rows at no rate.

    Args:
        feature: as the store has it; its per-frame arrays have a row for each frame.
        frame_time: (T,) seconds, of the frames.

    Raises:
        StoreError: an array cannot be read.
    """
    spec = feature.spec.arrays.get(MAIN_ARRAY)
    if spec is None or spec.axis not in _AXES or int(np.prod(spec.shape)) <= MOST_COLUMNS:
        return None
    time = row_times(feature, MAIN_ARRAY, frame_time)
    if time is None or not len(time):
        return None
    columns = int(np.prod(spec.shape))
    shown = np.unique(np.linspace(0, columns - 1, min(columns, MOST_SHOWN)).round().astype(int))
    names = column_names(spec) or [str(number) for number in range(columns)]
    rows = -(-len(time) // MOST_CELLS)
    means = np.full((-(-len(time) // rows), len(shown)), np.nan)
    total, squares, counts = np.zeros(len(shown)), np.zeros(len(shown)), np.zeros(len(shown))
    left, cell = np.empty((0, len(shown))), 0
    for block in column_blocks(feature, MAIN_ARRAY, shown):
        there = np.isfinite(block)
        values = np.where(there, block, 0.0)
        total, squares, counts = total + values.sum(0), squares + np.square(values).sum(0), counts + there.sum(0)
        left = np.concatenate([left, block])
        whole = len(left) // rows
        means[cell : cell + whole] = _means(left[: whole * rows].reshape(whole, rows, len(shown)))
        left, cell = left[whole * rows :], cell + whole
    if len(left):
        means[cell] = _means(left[None])[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / counts
        deviation = np.sqrt(np.maximum(squares / counts - np.square(mean), 0.0))
        scores = (means - mean) / np.where(deviation > 0, deviation, np.nan)
    chosen, end_s = tuple(names[place] for place in shown), last_frame_end_s(time)
    return HeatMap(feature.name, chosen, columns, time[::rows], scores, rows, end_s)


def _means(cells: np.ndarray) -> np.ndarray:
    """Of (m, rows, columns) the mean over rows of what is there; NaN where nothing is."""
    there = np.isfinite(cells)
    with np.errstate(invalid="ignore"):
        return np.where(there, cells, 0.0).sum(1) / there.sum(1)
