"""What is spoken at each frame's time, or at each point of a grid: a row of words or utterances, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from storyframes.array_roles import MaskRule
from storyframes.clips.grid import Grid
from storyframes.clips.input_readers import Batch, Clip, Field, InputReader, RowPart, rows_of, some_rows
from storyframes.clips.speakers import Speakers
from storyframes.store.feature_store import FeatureStore
from storyframes.times import PER_SECOND, TrackClock, spoken_rows, ticks


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
