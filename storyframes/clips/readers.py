"""Readers: each fills one clip's place in the arrays of a batch with rows of the store.

A reader tells which arrays (fields) it fills and the shape that a clip has in them. That is the same for every clip:
what varies in length is padded with zeros, with its length and a mask beside it. Masks are True where a row is a
measurement.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from storyframes.array_roles import MaskRule
from storyframes.clips.grid import Grid
from storyframes.clips.inputs import Clip
from storyframes.clips.row_finders import RowFinder, Speakers
from storyframes.features import STORIES
from storyframes.label_curves import mixed
from storyframes.spec import MAIN_ARRAY, shown_names
from storyframes.store.feature_store import FeatureStore
from storyframes.times import PER_SECOND, TrackClock, spoken_rows, ticks

Batch = Mapping[str, np.ndarray]
"""The arrays of a batch by field; the first dimension counts clips."""


@dataclass(frozen=True)
class Field:
    """One array of a clip.

    Attributes:
        shape: of one clip, without the batch's dimension.
        dtype: numpy dtype.
        columns: a name for each entry of the last dimension, or empty.
        names: what the numbers 0, 1, … stand for, where they are names; else empty.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        columns, names = shown_names(", columns ", self.columns), shown_names(", names ", self.names)
        return f"Field({self.shape}, {self.dtype}{columns}{names})"


class InputReader(ABC):
    """Fills its fields for one clip at a time.

    Attributes:
        of_window: all clips of one window have the same in them; what else a clip is decides nothing.
    """

    of_window: ClassVar[bool] = False

    @property
    @abstractmethod
    def fields(self) -> dict[str, Field]:
        """What it fills."""

    @abstractmethod
    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        """Fill ``batch[field][place]`` of each field."""

    def will_need(self, store: FeatureStore, clip: Clip) -> None:  # noqa: B027 - most have too little to announce
        """Have what :meth:`read` will read fetched from the disk meanwhile."""


# --- one row per video frame -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FramePart:
    """A per-frame array, and the columns taken of it; without columns, all of it as it is."""

    feature: str
    array: str = "values"
    columns: tuple[slice, ...] = ()


@dataclass(frozen=True)
class FrameRows(InputReader):
    """The clip's rows of one or several per-frame arrays side by side, or those at the points of a grid.

    Attributes:
        grid: its points have the rows nearest to them, and ``fill`` where none is near; without it frames have theirs.
    """

    name: str
    field: Field
    parts: tuple[FramePart, ...]
    grid: Grid | None = None
    fill: float | int = math.nan
    of_window: ClassVar[bool] = True

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: self.field}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        target, filled = batch[self.name][place], 0
        span, chosen, there = rows_of(self.grid, clip)
        for part in self.parts:
            rows = store.view(clip.session_id, part.feature, span.start, span.stop, array=part.array)
            if len(rows) == 0:  # of a grid, where nothing is near
                continue
            if part.columns:
                filled = _copy_columns(rows, part.columns, target, filled, chosen)
            elif chosen is None:
                target[...] = rows
            else:
                np.take(rows, chosen, axis=0, out=target, mode="clip")  # checked; "raise" would make a copy first
        if there is not None:
            target[~there] = self.fill

    def will_need(self, store: FeatureStore, clip: Clip) -> None:
        span, _, _ = rows_of(self.grid, clip)
        for part in self.parts:
            store.will_need(clip.session_id, part.feature, span.start, span.stop, array=part.array)


@dataclass(frozen=True)
class CurveRows(InputReader):
    """A curve at the points of a grid, by what it has between its moments, and where it has a value.

    Attributes:
        name: of the mask, without ``_mask``.
        parts: by field, the field and the array of the feature.
        fills: by field, what stands where there is nothing.
    """

    name: str
    feature: str
    parts: Mapping[str, tuple[Field, str]]
    fills: Mapping[str, float | int]
    grid: Grid
    of_window: ClassVar[bool] = True

    @property
    def fields(self) -> dict[str, Field]:
        mask = Field((len(self.grid),), np.dtype(bool))
        return {name: field for name, (field, _) in self.parts.items()} | {f"{self.name}_mask": mask}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        found = self.grid.find(clip)
        there = np.ones(len(self.grid), bool) if found.there is None else found.there

        def at_points(array: str, fill: float | int) -> np.ndarray:
            rows = store.view(clip.session_id, self.feature, found.span.start, found.span.stop, array=array)
            if not len(rows) or not there.any():
                return np.full(len(there), fill, rows.dtype)
            left = np.arange(len(there)) if found.rows is None else found.rows.astype(np.int64)
            values = rows[np.minimum(left, len(rows) - 1)]
            if found.share is not None:
                values = mixed(values, rows[np.minimum(left + 1, len(rows) - 1)], found.share)
            return np.where(there, values, fill)

        for name, (_, array) in self.parts.items():
            batch[name][place] = at_points(array, self.fills[name])
        batch[f"{self.name}_mask"][place] = ~np.isnan(at_points(MAIN_ARRAY, math.nan))

    def will_need(self, store: FeatureStore, clip: Clip) -> None:
        span = self.grid.find(clip).span
        for _, array in self.parts.values():
            store.will_need(clip.session_id, self.feature, span.start, span.stop, array=array)


def rows_of(grid: Grid | None, clip: Clip) -> tuple[slice, np.ndarray | None, np.ndarray | None]:
    """A clip's rows: from which to which, which of them for each point, and where there is one (None: all)."""
    return (slice(clip.start_frame, clip.stop_frame), None, None) if grid is None else grid.find(clip)[:3]


def _copy_columns(
    rows: np.ndarray, columns: tuple[slice, ...], target: np.ndarray, filled: int = 0, chosen: np.ndarray | None = None
) -> int:
    """Copy columns of all rows, or the chosen, behind those that are filled already; returns how many are then."""
    for piece in columns:
        width = piece.stop - piece.start
        values = rows[..., piece]
        target[..., filled : filled + width] = values if chosen is None else values[chosen]
        filled += width
    return filled


@dataclass(frozen=True)
class FrameMask(InputReader):
    """True where a frame's row of a feature, or the row at a point of a grid, is a measurement."""

    name: str
    frames: int
    feature: str
    rule: MaskRule
    grid: Grid | None = None
    of_window: ClassVar[bool] = True

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: Field((self.frames,), np.dtype(bool))}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        span, chosen, there = rows_of(self.grid, clip)

        def rows(array: str) -> np.ndarray:
            return store.view(clip.session_id, self.feature, span.start, span.stop, array=array)

        target = batch[self.name][place]
        if there is not None and not there.any():
            target[...] = False
            return
        mask = self.rule.of(rows)
        target[...] = mask[chosen] if chosen is not None and isinstance(mask, np.ndarray) else mask
        if there is not None:
            target &= there

    def will_need(self, store: FeatureStore, clip: Clip) -> None:
        if store.is_far:
            span, _, _ = rows_of(self.grid, clip)
            for array in self.rule.arrays:
                store.will_need(clip.session_id, self.feature, span.start, span.stop, array=array)


# --- as many rows as the clip has, padded ----------------------------------------------------------------------------


@dataclass(frozen=True)
class RowPart:
    """An array whose rows are not frames, and the columns taken of it; without columns, all of it as it is.

    Attributes:
        name: of the field.
        field: the field; its first dimension is the most rows that a clip has.
        array: the feature's.
        columns: taken of it.
        fill: stands where there is no row.
    """

    name: str
    field: Field
    array: str
    columns: tuple[slice, ...]
    fill: float | int


@dataclass(frozen=True)
class PaddedRows(InputReader):
    """Rows that a clip has more or fewer of: a field for each part, ``name_mask`` and ``name_length``."""

    name: str
    feature: str
    parts: tuple[RowPart, ...]
    mask: MaskRule
    finder: RowFinder
    of_window: ClassVar[bool] = True

    @property
    def fields(self) -> dict[str, Field]:
        return {
            **{part.name: part.field for part in self.parts},
            f"{self.name}_mask": Field(self.parts[0].field.shape[:1], np.dtype(bool)),
            f"{self.name}_length": Field((), np.dtype(np.int64)),
        }

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        rows, before = self.finder.find(store, clip)
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        before = before if count else 0
        length = before + count
        taken: dict[str, np.ndarray] = {}  # the mask looks at what has just been copied

        def take(array: str) -> np.ndarray:
            if array not in taken:
                taken[array] = some_rows(store, clip.session_id, self.feature, array, rows)
            return taken[array]

        for part in self.parts:
            target = batch[part.name][place]
            target[length:] = 0
            target[:before] = part.fill
            if part.columns:
                _copy_columns(take(part.array), part.columns, target[before:length])
            else:
                target[before:length] = take(part.array)
        mask = batch[f"{self.name}_mask"][place]
        mask[:before], mask[length:] = False, False
        mask[before:length] = self.mask.of(take)
        batch[f"{self.name}_length"][place] = length

    def rows(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        """Which of the feature's rows a clip's are, (length,) int64; -1 before the first that there is."""
        found, before = self.finder.find(store, clip)
        found = np.arange(found.start, found.stop) if isinstance(found, slice) else found
        return np.concatenate([np.full(before if len(found) else 0, -1, np.int64), found])

    def will_need(self, store: FeatureStore, clip: Clip) -> None:
        rows = self.finder.long_run(clip)
        if rows is None and store.is_far:  # always worth it there; their times were read at opening
            rows = _span(self.finder.find(store, clip)[0])
        if rows is not None:
            for part in self.parts:
                store.will_need(clip.session_id, self.feature, rows.start, rows.stop, array=part.array)


def some_rows(store: FeatureStore, session_id: str, feature: str, array: str, rows: slice | np.ndarray) -> np.ndarray:
    """The given rows of an array; those between them are read too, they are few."""
    span = _span(rows)
    values = store.view(session_id, feature, span.start, span.stop, array=array)
    return values if isinstance(rows, slice) else values[rows - span.start]


def _span(rows: slice | np.ndarray) -> slice:
    """From the first to the last of some rows."""
    if isinstance(rows, slice):
        return rows
    return slice(int(rows.min()), int(rows.max()) + 1) if len(rows) else slice(0, 0)


# --- one value a clip ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoryVector(InputReader):
    """The vector of the story that the clip's rating is about.

    Attributes:
        feature: of the story texts.
        rows: of each story in it.
    """

    name: str
    field: Field
    feature: str
    rows: Mapping[str, int]

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: self.field}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        row = self.rows[clip.story_id]
        store.read(STORIES, self.feature, row, row + 1, out=batch[self.name][place : place + 1])


@dataclass(frozen=True, eq=False)
class Labels(InputReader):
    """One value of each clip.

    Attributes:
        name: of the field.
        field: the field; a clip has a single number.
        values: (clips of the dataset,) of the field's dtype.
    """

    name: str
    field: Field
    values: np.ndarray

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: self.field}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        batch[self.name][place] = self.values[clip.row]


class SpokenRows(ABC):
    """Says which row of a feature is spoken at each of a clip's frames or points."""

    @abstractmethod
    def find(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        """(k,) the rows, -1 where there is none."""


@dataclass(frozen=True)
class SpokenAtFrames(SpokenRows):
    """As the feature says of each frame.

    Attributes:
        feature: the feature.
        frame_row: the array that says which row each frame has, -1 for none.
        grid: points that have what is spoken at the frame nearest to each; without it the clip's frames.
    """

    feature: str
    frame_row: str
    grid: Grid | None = None

    def find(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        span, nearest, there = rows_of(self.grid, clip)
        row = store.view(clip.session_id, self.feature, span.start, span.stop, array=self.frame_row)
        if there is not None and not there.any():
            return np.full(len(there), -1, np.int32)
        row = row if nearest is None else row[nearest]
        return row if there is None else np.where(there, row, -1)


@dataclass(frozen=True)
class SpokenAtPoints(SpokenRows):
    """By when each row begins and ends, where nothing says it of frames: those of a microphone without a video.

    Of several that are spoken at once a point has the one that began last, as frames have.

    Attributes:
        feature: the feature.
        offsets: (k,) of the points from a clip's start, ticks.
        device: whose seconds its times are.
    """

    feature: str
    offsets: np.ndarray
    device: TrackClock

    def find(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        start, end = (ticks(store.view(clip.session_id, self.feature, array=name)) for name in ("start", "end"))
        of_session = ticks(clip.start_s) + self.offsets
        points = self.device.device_ticks(clip.session_id, of_session / PER_SECOND)
        found = spoken_rows(start, end, points)
        found[of_session >= ticks(clip.stop_s)] = -1
        return found


@dataclass(frozen=True)
class SpokenPerFrame(InputReader):
    """The row of the word or utterance spoken at each frame or point: its fields and ``name_mask``; 0 where none is.

    Attributes:
        rows: which these are.
        speakers: whose rows; a frame that has another's has none. None takes everybody's.
    """

    name: str
    feature: str
    parts: tuple[RowPart, ...]
    mask: MaskRule
    rows: SpokenRows
    speakers: Speakers | None = None
    of_window: ClassVar[bool] = True

    @property
    def fields(self) -> dict[str, Field]:
        mask = Field(self.parts[0].field.shape[:1], np.dtype(bool))
        return {**{part.name: part.field for part in self.parts}, f"{self.name}_mask": mask}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        row = self.rows.find(store, clip)
        spoken = row >= 0
        if self.speakers:
            spoken[spoken] = self.speakers.have(store, clip.session_id, row[spoken])

        def take(array: str) -> np.ndarray:
            return some_rows(store, clip.session_id, self.feature, array, row[spoken])

        for part in self.parts:
            values = batch[part.name][place]
            values[~spoken] = 0
            rows = take(part.array)
            chosen = [rows[..., piece] for piece in part.columns]
            values[spoken] = np.concatenate(chosen, axis=-1) if chosen else rows
        mask = batch[f"{self.name}_mask"][place]
        mask[...] = spoken
        mask[spoken] = self.mask.of(take)
