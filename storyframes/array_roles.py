"""The roles of a feature's arrays: times of rows, rows of frames, masks, speakers; and the names of values and columns.

Columns are chosen by their names (``AU12_r``) or by the name of a group of them (``gaze``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from storyframes.mistakes import unknown
from storyframes.spec import MAIN_ARRAY, ArraySpec, Axis, FeatureSpec, shown_names

CLOCKS: Mapping[Axis, tuple[str, ...]] = {
    Axis.AUDIO_FRAME: ("time",),
    Axis.WINDOW: ("time", "start", "end"),
    Axis.WORD: ("start",),
    Axis.UTTERANCE: ("start", "end"),
    Axis.MOMENT: ("time",),
}
"""The arrays with the times of rows, for rows that are not frames."""
START, END = "start", "end"
"""The arrays with the beginnings and ends of rows that last: words, utterances, windows, and moments that have an end,
which begin at their ``time``."""
FRAME_ROW: Mapping[Axis, str] = {Axis.WORD: "frame_word", Axis.UTTERANCE: "frame_utterance"}
"""For rows that are words or utterances: the array with the row of each frame, -1 for none."""
PER_FRAME = "per_frame"
"""For rows that are steps of the sound: the array with a row for each frame."""
SPEAKER = "speaker"
"""The array with the number of each row's speaker; the attribute ``speakers`` has their names."""
LEVEL = "pcm_RMSenergy_sma"
"""openSMILE's column with the root mean square of the sound; 1 is full scale."""
CONFIDENCE = "confidence"
"""The array that says how certain each row is, 0 to 1; NaN where that is not known."""

IN_REGION = "in_region"
"""The mask of a feature of a region of a picture that has no other; where it is 0, all arrays have their fill value."""


LOUDNESS = "loudness"
"""The name of a curve that is no column: the level of the sound in dB."""


class Curve(NamedTuple):
    """One column of a feature over the session's seconds.

    Attributes:
        time: (n,) float64.
        values: (n,) float64; NaN where the row is no measurement.
    """

    name: str
    unit: str
    time: np.ndarray
    values: np.ndarray


def loudness_db(level: np.ndarray) -> np.ndarray:
    """The loudness of :data:`LEVEL` in dB, 0 at full scale and -100 in silence."""
    return 20 * np.log10(np.maximum(level, 1e-5))


@dataclass(frozen=True)
class MaskRule:
    """Which rows of a feature are measurements.

    Attributes:
        array: the array that is 1 where a row is a measurement; empty where the feature has no such array.
        values: without such an array, a row is a measurement unless all its values in these arrays are NaN; empty
            where every row is one.
        min_confidence: a row whose confidence is lower is none; one without a confidence is not judged by it.
    """

    array: str
    values: tuple[str, ...] = ()
    min_confidence: float | None = None

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that the rule reads."""
        arrays = (self.array,) if self.array else self.values
        return arrays if self.min_confidence is None else (*arrays, CONFIDENCE)

    def of(self, rows: Callable[[str], np.ndarray]) -> np.ndarray | bool:
        """The mask of some rows; ``rows`` gives those of an array."""
        measured = self._measured(rows)
        if self.min_confidence is None:
            return measured
        return measured & ~(rows(CONFIDENCE) < float(self.min_confidence))  # NaN is not lower

    def _measured(self, rows: Callable[[str], np.ndarray]) -> np.ndarray | bool:
        if self.array:
            return rows(self.array) != 0
        if not self.values:
            return True
        mask = _is_not_nan(rows(self.values[0]))
        for name in self.values[1:]:
            mask |= _is_not_nan(rows(name))
        return mask


def mask_rule(spec: FeatureSpec, arrays: Sequence[str]) -> MaskRule:
    """The mask of rows of these arrays, which have one axis."""
    if spec.mask and spec.arrays[spec.mask].axis is spec.arrays[arrays[0]].axis:
        return MaskRule(spec.mask)
    return MaskRule("", tuple(name for name in arrays if np.dtype(spec.arrays[name].dtype).kind == "f"))


def column_names(spec: ArraySpec) -> list[str]:
    """A name for each value of a row, in the order of the flattened row: ``left.wrist.x``; empty for a single value."""
    axes = [[str(number) for number in range(size)] for size in spec.shape]
    if spec.columns:
        axes[-1] = list(spec.columns)
    if spec.joints:
        axes[-2] = list(spec.joints)
    return [".".join(names) for names in product(*axes)] if axes else []


def value_names(spec: FeatureSpec, array: str) -> list[str]:
    """The same, unique among the feature's arrays: ``AU12_r``, ``body_2d.head.x``, ``confidence``."""
    names = column_names(spec.arrays[array])
    if not names:
        return [array]
    return names if array in (MAIN_ARRAY, PER_FRAME) else [f"{array}.{name}" for name in names]


def _is_not_nan(rows: np.ndarray) -> np.ndarray:
    """(n,) where a row is not NaN throughout; looks at whole rows only where they begin with NaN."""
    begin: tuple[Any, ...] = (slice(None), *(0,) * (rows.ndim - 1))
    first = rows[begin]
    mask = first == first  # only NaN is not equal to itself; two steps of numpy less than its opposite
    if not mask.all():
        flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
        mask[~mask] = ~np.isnan(flat[~mask]).all(axis=1)
    return mask


@dataclass(frozen=True)
class ChosenColumns:
    """Columns of an array, in the order they were asked for.

    Attributes:
        pieces: their places, neighbours together.
    """

    names: tuple[str, ...]
    pieces: tuple[slice, ...]


@dataclass(frozen=True)
class ColumnTable:
    """The columns of an array, and its groups of columns.

    Attributes:
        groups: by name, the columns of a group.

    Example:
        >>> columns = ColumnTable(("pitch", "yaw", "AU12_r"), {"pose": slice(0, 2)})
        >>> columns
        ColumnTable(pitch yaw AU12_r; groups pose)
        >>> "pose" in columns
        True
    """

    names: tuple[str, ...]
    groups: Mapping[str, slice] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ColumnTable({shown_names('', self.names)}{shown_names('; groups ', tuple(self.groups))})"

    def __contains__(self, name: object) -> bool:
        return name in self.groups or name in self.names

    def choose(self, requested: Sequence[str] | None) -> ChosenColumns:
        """The columns and groups that ``requested`` names; None is all columns.

        Raises:
            ValueError: a name is unknown, a column is named twice, or none is named.
        """
        if requested is None:
            return ChosenColumns(self.names, (slice(0, len(self.names)),))
        pieces = [self._piece(name) for name in requested]
        names = tuple(chain.from_iterable(self.names[piece] for piece in pieces))
        if not names:
            raise ValueError("columns is empty: name a column or a group, or leave it out for all columns")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"column {twice!r} is chosen twice by columns={list(requested)}")
        return ChosenColumns(names, _joined(pieces))

    def _piece(self, name: str) -> slice:
        if name in self.groups:
            return self.groups[name]
        if name in self.names:
            place = self.names.index(name)
            return slice(place, place + 1)
        raise ValueError(unknown("", "column or group", name, (*self.groups, *self.names)))


def _joined(pieces: Sequence[slice]) -> tuple[slice, ...]:
    joined = [pieces[0]]
    for piece in pieces[1:]:
        if piece.start == joined[-1].stop:
            joined[-1] = slice(joined[-1].start, piece.stop)
        else:
            joined.append(piece)
    return tuple(joined)


def side_by_side(specs: Sequence[FeatureSpec]) -> ColumnTable:
    """The columns of ``values`` of several features as one table, with the groups of each and each one's name."""
    names: list[str] = []
    groups: dict[str, slice] = {}
    for spec in specs:
        first = len(names)
        groups |= {name: slice(first + group.start, first + group.stop) for name, group in spec.groups.items()}
        groups[spec.name] = slice(first, first + len(spec.columns))
        names += spec.columns
    return ColumnTable(tuple(names), groups)
