"""Readers: each fills one clip's place in the arrays of a batch with rows of the store.

A reader says which arrays (fields) it fills and the shape that a clip has in them. The shape is the same for every
clip: rows whose number varies are padded with zeros, with a length and a mask beside them. A mask is True where a row
is a measurement.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from storyframes.array_roles import MaskRule
from storyframes.clips.grid import Grid, RowsOfClip, rows_of
from storyframes.clips.inputs import Batch, Clip, Field
from storyframes.clips.row_finders import RowFinder, Speakers, SpokenFinder
from storyframes.label_curves import mixed
from storyframes.pooling import pool
from storyframes.spec import MAIN_ARRAY
from storyframes.store.feature_store import FeatureStore


class InputReader(ABC):
    """Fills its fields for one clip at a time.

    Attributes:
        of_window: whether all clips of one window have the same values in its fields.
    """

    of_window: ClassVar[bool] = False

    @property
    @abstractmethod
    def fields(self) -> dict[str, Field]:
        """The fields that it fills."""

    @abstractmethod
    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        """Fill ``batch[field][place]`` of each field."""

    def read_all(self, store: FeatureStore, clips: Sequence[Clip], batch: Batch, places: Sequence[int]) -> None:
        """The same of several clips, each at its place."""
        for clip, place in zip(clips, places, strict=True):
            self.read(store, clip, batch, place)

    def will_need(self, store: FeatureStore, clip: Clip) -> None:  # noqa: B027 - most have too little to announce
        """Start fetching from the disk what :meth:`read` will read."""


# --- rows of a feature -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldPart:
    """An array of a feature, or some of its columns, as a field or as neighbouring columns of one.

    Attributes:
        field: one row of the field.
        columns: the columns that are taken; empty takes the array as it is.
        fill: the value where a clip has no row.
        first: the column of the field at which the part begins.
    """

    name: str
    field: Field
    feature: str
    array: str
    columns: tuple[slice, ...] = ()
    fill: float | int = math.nan
    first: int = 0

    def copy(self, rows: np.ndarray, target: np.ndarray, chosen: np.ndarray | None = None) -> None:
        """Copy all rows of the array, or those that ``chosen`` numbers, into the clip's rows of the field."""
        if not self.columns:
            if chosen is None:
                target[...] = rows
            else:
                np.take(rows, chosen, axis=0, out=target, mode="clip")  # checked; "raise" would make a copy first
            return
        first = self.first
        for piece in self.columns:
            width = piece.stop - piece.start
            values = rows[..., piece]
            target[..., first : first + width] = values if chosen is None else values[chosen]
            first += width


@dataclass(frozen=True)
class FeatureReader(InputReader):
    """Fills the fields of a feature's arrays, and ``<name>_mask``.

    Attributes:
        feature: whose mask is read.
        parts: what its fields are made of.
        rows: of a clip, in each field.
        has_feature: (clips of the dataset,) bool, which clips have the feature; None where all have it.
    """

    name: str
    feature: str
    parts: tuple[FieldPart, ...]
    rows: int
    has_feature: np.ndarray | None = field(default=None, kw_only=True, repr=False, compare=False)
    of_window: ClassVar[bool] = True
    pads: ClassVar[bool] = False
    """Whether a row of a clip that is none of the feature's is 0, and not the array's own value for that."""

    @property
    def fields(self) -> dict[str, Field]:
        fields = {part.name: replace(part.field, shape=(self.rows, *part.field.shape)) for part in self.parts}
        return fields | {f"{self.name}_mask": Field((self.rows,), np.dtype(bool))}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        if self.has_feature is None or self.has_feature[clip.row]:
            self.read_rows(store, clip, batch, place)
            return
        for name in self.fields:
            batch[name][place] = 0
        for part in () if self.pads else self.parts:
            batch[part.name][place] = part.fill

    @abstractmethod
    def read_rows(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        """The same of a clip that has the feature."""

    def will_need(self, store: FeatureStore, clip: Clip) -> None:
        if self.has_feature is None or self.has_feature[clip.row]:
            self.will_need_rows(store, clip)

    def will_need_rows(self, store: FeatureStore, clip: Clip) -> None:
        """The same of a clip that has the feature."""


_UNKNOWN = 2


@dataclass(frozen=True)
class FrameRows(FeatureReader):
    """The rows of a clip's frames, or those nearest to the points of a grid.

    Attributes:
        grid: None where the feature's frames are the clip's.
    """

    mask: MaskRule
    grid: Grid | None = None
    # By session, a byte a row for as long as the dataset: the versions that its store reads do not change.
    _masks: dict[str, np.ndarray] = field(default_factory=dict, init=False, repr=False, compare=False)

    def read_rows(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        rows = rows_of(self.grid, clip)
        for part in self.parts:
            self._copy(part, store, clip, batch[part.name][place], rows)
        is_measured = False
        if self._judged:
            name, column = self._judged
            first = batch[name][place][column]
            is_measured = bool(np.logical_and.reduce(first == first))  # only NaN is not equal to itself
        self._write_mask(store, clip, batch[f"{self.name}_mask"][place], rows, is_measured=is_measured)

    def read_all(self, store: FeatureStore, clips: Sequence[Clip], batch: Batch, places: Sequence[int]) -> None:
        if self.has_feature is not None:
            super().read_all(store, clips, batch, places)
            return
        # Step by step for all clips: what is done once for a batch is cheap.
        found = [rows_of(self.grid, clip) for clip in clips]
        for part in self.parts:
            target = batch[part.name]
            for clip, place, rows in zip(clips, places, found, strict=True):
                self._copy(part, store, clip, target[place], rows)
        mask = batch[f"{self.name}_mask"]
        measured = [False] * len(clips)
        if self._judged:  # for all clips at once this takes a tenth of searching NaN clip by clip
            name, column = self._judged
            first = batch[name][(slice(None), *column)][np.asarray(places, np.intp)]
            measured = (first == first).all(axis=1).tolist()
        for clip, place, rows, is_measured in zip(clips, places, found, measured, strict=True):
            self._write_mask(store, clip, mask[place], rows, is_measured=is_measured)

    def _copy(self, part: FieldPart, store: FeatureStore, clip: Clip, target: np.ndarray, of_clip: RowsOfClip) -> None:
        span, chosen, has_row = of_clip
        rows = store.view(clip.session_id, part.feature, span.start, span.stop, array=part.array)
        if len(rows):  # without any, no row is near a point of the grid
            part.copy(rows, target, chosen)
        if has_row is not None:
            target[~has_row] = part.fill

    @cached_property
    def _judged(self) -> tuple[str, tuple[Any, ...]] | None:
        """A field by which the mask is judged, and its first column; None where it is judged by another array.

        A clip whose rows all begin with a number there has only measurements.
        """
        if self.mask.array or self.mask.min_confidence is not None:
            return None
        of_feature = (part for part in self.parts if part.feature == self.feature)
        part = next((part for part in of_feature if part.array in self.mask.values), None)
        if part is None:
            return None
        shape = part.field.shape
        column = (*(0,) * (len(shape) - 1), part.first) if shape else ()  # columns are of the last dimension
        return part.name, (slice(None), *column)

    def _write_mask(
        self, store: FeatureStore, clip: Clip, mask: np.ndarray, of_clip: RowsOfClip, *, is_measured: bool
    ) -> None:
        """Fill a clip's mask; ``is_measured``: all its rows begin with a number."""
        if is_measured and of_clip[2] is None:
            mask[...] = True
        else:
            self._fill_mask(store, clip, mask, *of_clip)

    def _fill_mask(
        self,
        store: FeatureStore,
        clip: Clip,
        mask: np.ndarray,
        span: slice,
        chosen: np.ndarray | None,
        has_row: np.ndarray | None,
    ) -> None:
        if has_row is not None and not has_row.any():
            mask[...] = False
            return

        def view(array: str) -> np.ndarray:
            return store.view(clip.session_id, self.feature, span.start, span.stop, array=array)

        if self.mask.array or not self.mask.values:
            measured = self.mask.of(view)
        else:  # searching all values for NaN takes longer than copying them: once for each row
            rows = self._of_session(store, clip.session_id)[span]
            if (rows == _UNKNOWN).any():
                rows[...] = self.mask.of(view)
            measured = rows
        mask[...] = measured[chosen] if chosen is not None and isinstance(measured, np.ndarray) else measured
        if has_row is not None:
            mask &= has_row

    def _of_session(self, store: FeatureStore, session_id: str) -> np.ndarray:
        """Of each row of the feature whether it is a measurement, 0 or 1; or :data:`_UNKNOWN`."""
        rows = self._masks.get(session_id)
        if rows is None:
            count = store.describe(session_id, self.feature, self.mask.values[0]).shape[0]
            rows = self._masks.setdefault(session_id, np.full(count, _UNKNOWN, np.uint8))
        return rows

    def will_need_rows(self, store: FeatureStore, clip: Clip) -> None:
        span = rows_of(self.grid, clip)[0]
        for part in self.parts:
            store.will_need(clip.session_id, part.feature, span.start, span.stop, array=part.array)
        if store.is_far:
            for array in self.mask.arrays:
                store.will_need(clip.session_id, self.feature, span.start, span.stop, array=array)


@dataclass(frozen=True)
class CurveRows(FeatureReader):
    """A curve at the points of a grid, by the curve's rule for what is between its moments; masked where it is NaN."""

    grid: Grid

    def read_rows(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        span, nearest, has_row, share = self.grid.find(clip)
        has_value = np.ones(len(self.grid), bool) if has_row is None else has_row

        def at_points(array: str, fill: float | int) -> np.ndarray:
            rows = store.view(clip.session_id, self.feature, span.start, span.stop, array=array)
            if not len(rows) or not has_value.any():
                return np.full(len(has_value), fill, rows.dtype)
            left = np.arange(len(has_value)) if nearest is None else nearest.astype(np.int64)
            values = rows[np.minimum(left, len(rows) - 1)]
            if share is not None:
                values = mixed(values, rows[np.minimum(left + 1, len(rows) - 1)], share)
            return np.where(has_value, values, fill)

        for part in self.parts:
            batch[part.name][place] = at_points(part.array, part.fill)
        batch[f"{self.name}_mask"][place] = ~np.isnan(at_points(MAIN_ARRAY, math.nan))

    def will_need_rows(self, store: FeatureStore, clip: Clip) -> None:
        span = self.grid.find(clip).span
        for part in self.parts:
            store.will_need(clip.session_id, self.feature, span.start, span.stop, array=part.array)


@dataclass(frozen=True)
class SpokenPerFrame(FeatureReader):
    """The word or utterance that is spoken at each frame or point; 0 where none is.

    Attributes:
        speakers: whose rows count; a frame at which another speaks has none. None takes everybody's.
    """

    mask: MaskRule
    finder: SpokenFinder
    speakers: Speakers | None = None
    pads: ClassVar[bool] = True

    def read_rows(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        row = self.finder.find(store, clip)
        spoken = row >= 0
        if self.speakers:
            spoken[spoken] = self.speakers.have(store, clip.session_id, row[spoken])

        def take(array: str) -> np.ndarray:
            return _some_rows(store, clip.session_id, self.feature, array, row[spoken])

        for part in self.parts:
            values = batch[part.name][place]
            values[~spoken] = 0
            rows = take(part.array)
            chosen = [rows[..., piece] for piece in part.columns]
            values[spoken] = np.concatenate(chosen, axis=-1) if chosen else rows
        mask = batch[f"{self.name}_mask"][place]
        mask[...] = spoken
        mask[spoken] = self.mask.of(take)


@dataclass(frozen=True)
class _Padded(FeatureReader):
    """Rows whose number varies, padded; with ``<name>_length``."""

    mask: MaskRule
    pads: ClassVar[bool] = True

    @property
    def fields(self) -> dict[str, Field]:
        return super().fields | {f"{self.name}_length": Field((), np.dtype(np.int64))}


@dataclass(frozen=True)
class PaddedRows(_Padded):
    """The rows that belong to a clip, as many as it has."""

    finder: RowFinder

    def read_rows(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        rows, before = self.finder.find(store, clip)
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        before = before if count else 0
        length = before + count
        taken: dict[str, np.ndarray] = {}  # the mask looks at what has just been copied

        def take(array: str) -> np.ndarray:
            if array not in taken:
                taken[array] = _some_rows(store, clip.session_id, self.feature, array, rows)
            return taken[array]

        for part in self.parts:
            target = batch[part.name][place]
            target[length:] = 0
            target[:before] = part.fill
            part.copy(take(part.array), target[before:length])
        mask = batch[f"{self.name}_mask"][place]
        mask[:before], mask[length:] = False, False
        mask[before:length] = self.mask.of(take)
        batch[f"{self.name}_length"][place] = length

    def stored_rows(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        """The numbers of the feature's rows that a clip has, (length,) int64; -1 before the first row of the sound."""
        if self.has_feature is not None and not self.has_feature[clip.row]:
            return np.zeros(0, np.int64)
        rows, before = self.finder.find(store, clip)
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        return np.concatenate([np.full(before if len(numbers) else 0, -1, np.int64), numbers])

    def will_need_rows(self, store: FeatureStore, clip: Clip) -> None:
        rows = self.finder.long_run(clip)
        if rows is None and store.is_far:  # always worth it there; their times were read at opening
            rows = _span(self.finder.find(store, clip)[0])
        if rows is not None:
            for part in self.parts:
                store.will_need(clip.session_id, self.feature, rows.start, rows.stop, array=part.array)


@dataclass(frozen=True)
class PooledRows(_Padded):
    """A row for each of a clip's words: the functionals of the feature's rows during it.

    Attributes:
        spoken: finds the words.
        functionals: what is computed of each column.
        spans: by session, of each word the first of the feature's rows and the one after the last, (words, 2).
    """

    spoken: RowFinder
    functionals: tuple[str, ...]
    spans: Mapping[str, np.ndarray]

    def read_rows(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        spans = self.spans[clip.session_id][self.spoken.find(store, clip)[0]]
        count = len(spans)
        first, stop = _from_to(spans)

        def take(array: str) -> np.ndarray:
            return store.view(clip.session_id, self.feature, first, stop, array=array)

        measured = np.array(np.broadcast_to(self.mask.of(take), stop - first))
        for part in self.parts:
            rows = take(part.array)
            if part.columns:
                rows = np.concatenate([rows[..., piece] for piece in part.columns], axis=-1)
            target = batch[part.name][place]
            target[:count] = pool(rows, measured, spans - first, self.functionals)
            target[count:] = 0
        mask = batch[f"{self.name}_mask"][place]
        mask[count:] = False
        before = np.append(0, np.cumsum(measured))
        mask[:count] = before[spans[:, 1] - first] > before[spans[:, 0] - first]
        batch[f"{self.name}_length"][place] = count

    def will_need_rows(self, store: FeatureStore, clip: Clip) -> None:
        first, stop = _from_to(self.spans[clip.session_id][self.spoken.find(store, clip)[0]])
        for part in self.parts:
            store.will_need(clip.session_id, part.feature, first, stop, array=part.array)


def _from_to(spans: np.ndarray) -> tuple[int, int]:
    """The first of all rows and the one after the last."""
    return (int(spans[:, 0].min()), int(spans[:, 1].max())) if len(spans) else (0, 0)


def _some_rows(store: FeatureStore, session_id: str, feature: str, array: str, rows: slice | np.ndarray) -> np.ndarray:
    """The given rows of an array; the few between them are read too."""
    span = _span(rows)
    values = store.view(session_id, feature, span.start, span.stop, array=array)
    return values if isinstance(rows, slice) else values[rows - span.start]


def _span(rows: slice | np.ndarray) -> slice:
    """From the first to the last of some rows."""
    if isinstance(rows, slice):
        return rows
    return slice(int(rows.min()), int(rows.max()) + 1) if len(rows) else slice(0, 0)
