"""Readers: each fills one clip's place in the arrays of a batch with rows of the store.

A reader tells which arrays (fields) it fills and the shape that a clip has in them. That is the same for every clip:
what varies in length is padded with zeros, with its length and a mask beside it. Masks are True where a row is a value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from storyframes.clips.lengths import rows_before_sound
from storyframes.store.feature_store import FeatureStore
from storyframes.ticks import ticks

Batch = Mapping[str, np.ndarray]
"""The arrays of a batch by field; the first dimension counts clips."""


class Clip(NamedTuple):
    """What readers need of one row of the clip index."""

    session_id: str
    story_id: str
    start_frame: int
    stop_frame: int
    start_s: float
    stop_s: float
    audio_start: int
    audio_stop: int
    empathy: int


@dataclass(frozen=True)
class Field:
    """One array of a clip.

    Attributes:
        shape: of one clip, without the batch's dimension.
        dtype: numpy dtype.
        columns: a name for each entry of the last dimension, or empty.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    columns: tuple[str, ...] = ()


class InputReader(ABC):
    """Fills its fields for one clip at a time."""

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
    """The clip's rows of one or several per-frame arrays side by side."""

    name: str
    field: Field
    parts: tuple[FramePart, ...]

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: self.field}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        target, filled = batch[self.name][place], 0
        for part in self.parts:
            rows = store.view(clip.session_id, part.feature, clip.start_frame, clip.stop_frame, array=part.array)
            if part.columns:
                filled = _copy_columns(rows, part.columns, target, filled)
            else:
                target[...] = rows

    def will_need(self, store: FeatureStore, clip: Clip) -> None:
        for part in self.parts:
            store.will_need(clip.session_id, part.feature, clip.start_frame, clip.stop_frame, array=part.array)


def _copy_columns(rows: np.ndarray, columns: tuple[slice, ...], target: np.ndarray, filled: int = 0) -> int:
    """Copy columns behind those that are filled already; returns how many are filled then."""
    for piece in columns:
        width = piece.stop - piece.start
        target[:, filled : filled + width] = rows[:, piece]
        filled += width
    return filled


@dataclass(frozen=True)
class FrameMask(InputReader):
    """A per-frame array that is 1 where the frame's row of its feature is a value."""

    name: str
    frames: int
    feature: str
    array: str

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: Field((self.frames,), np.dtype(bool))}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        rows = store.view(clip.session_id, self.feature, clip.start_frame, clip.stop_frame, array=self.array)
        batch[self.name][place] = self._is_value(rows)

    def _is_value(self, rows: np.ndarray) -> np.ndarray:
        return rows


class NotNanMask(FrameMask):
    """Where the rows of a per-frame array are not NaN throughout."""

    def _is_value(self, rows: np.ndarray) -> np.ndarray:
        return ~np.isnan(rows).all(axis=1)


# --- as many rows as the clip has, padded ----------------------------------------------------------------------------


@dataclass(frozen=True)
class PaddedRows(InputReader):
    """Rows that a clip has more or fewer of: fields ``name``, ``name_mask`` and ``name_length``."""

    name: str
    field: Field

    @property
    def fields(self) -> dict[str, Field]:
        return {
            self.name: self.field,
            f"{self.name}_mask": Field(self.field.shape[:1], np.dtype(bool)),
            f"{self.name}_length": Field((), np.dtype(np.int64)),
        }

    def _pad(self, batch: Batch, place: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows and the mask to fill, with everything behind them padded."""
        values, mask = batch[self.name][place], batch[f"{self.name}_mask"][place]
        values[length:] = 0
        mask[:length], mask[length:] = True, False
        batch[f"{self.name}_length"][place] = length
        return values[:length], mask[:length]


@dataclass(frozen=True)
class AudioRows(PaddedRows):
    """The openSMILE rows of the clip's time, each at its own place: where sound begins inside the clip, NaN before."""

    columns: tuple[slice, ...]

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        rows = store.view(clip.session_id, "opensmile", clip.audio_start, clip.audio_stop)
        before = self._rows_before(store, clip) if len(rows) else 0
        values, mask = self._pad(batch, place, before + len(rows))
        values[:before], mask[:before] = np.nan, False
        _copy_columns(rows, self.columns, values[before:])

    def _rows_before(self, store: FeatureStore, clip: Clip) -> int:
        if clip.audio_start > 0:  # there is sound before the clip, so its first row is within a row of the clip's start
            return 0
        (first_s,) = store.view(clip.session_id, "opensmile", 0, 1, array="time")
        return int(rows_before_sound(first_s, clip.start_s))

    def will_need(self, store: FeatureStore, clip: Clip) -> None:
        store.will_need(clip.session_id, "opensmile", clip.audio_start, clip.audio_stop)


@dataclass(frozen=True)
class WordRows(PaddedRows):
    """The vectors of the words that start in the clip, in the order of their starts; masked where unknown."""

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        start = store.view(clip.session_id, "glove", array="start")
        begins = ticks(start)
        rows = _in_order((begins >= ticks(clip.start_s)) & (begins < ticks(clip.stop_s)), start)
        values, mask = self._pad(batch, place, len(rows))
        values[...] = _vectors(store, clip.session_id, "glove", rows)
        mask[...] = store.view(clip.session_id, "glove", array="known")[rows]


@dataclass(frozen=True)
class UtteranceRows(PaddedRows):
    """The vectors of the utterances that overlap the clip, in the order of their starts."""

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        start = store.view(clip.session_id, "sbert", array="start")
        end = store.view(clip.session_id, "sbert", array="end")
        rows = _in_order((ticks(start) < ticks(clip.stop_s)) & (ticks(end) > ticks(clip.start_s)), start)
        values, _ = self._pad(batch, place, len(rows))
        values[...] = _vectors(store, clip.session_id, "sbert", rows)


def _in_order(chosen: np.ndarray, start: np.ndarray) -> np.ndarray:
    rows = np.flatnonzero(chosen)
    return rows[np.argsort(start[rows], kind="stable")]


def _vectors(store: FeatureStore, session_id: str, feature: str, rows: np.ndarray) -> np.ndarray:
    """The given rows of ``values``; those between them are read too, they are few."""
    if len(rows) == 0:
        return store.view(session_id, feature, 0, 0)
    first = int(rows.min())
    return store.view(session_id, feature, first, int(rows.max()) + 1)[rows - first]


# --- what is spoken at each frame's time -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SpokenPerFrame(InputReader):
    """The vector of the word or utterance spoken at each frame's time: ``name`` and ``name_mask``; 0 where none is.

    Attributes:
        feature: glove or sbert.
        frame_row: its array that names each frame's row, -1 none.
        known: its array that is 1 where a row is a value, if it has one.
    """

    name: str
    field: Field
    feature: str
    frame_row: str
    known: str | None = None

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: self.field, f"{self.name}_mask": Field(self.field.shape[:1], np.dtype(bool))}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        values, mask = batch[self.name][place], batch[f"{self.name}_mask"][place]
        row = store.view(clip.session_id, self.feature, clip.start_frame, clip.stop_frame, array=self.frame_row)
        mask[...] = row >= 0
        values[~mask] = 0
        values[mask] = _vectors(store, clip.session_id, self.feature, row[mask])
        if self.known:
            mask[mask] = store.view(clip.session_id, self.feature, array=self.known)[row[mask]]


# --- one value a clip ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoryVector(InputReader):
    """The vector of the story that the clip's rating is about.

    Attributes:
        rows: of each story in the stories' features.
    """

    name: str
    field: Field
    rows: Mapping[str, int]

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: self.field}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        row = self.rows[clip.story_id]
        store.read("stories", "sbert", row, row + 1, out=batch[self.name][place : place + 1])


@dataclass(frozen=True)
class Label(InputReader):
    """The rating, 1 to 5."""

    name: str

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: Field((), np.dtype(np.int64))}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        batch[self.name][place] = clip.empathy
