"""The times of the rows of a session's features, and the rows nearest to the points of a grid over the session.

A grid begins at the session's second 0 and ends with its own frames or, without a video, with the last of its
features. So all features of a session have the same points, whichever of them are read.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from storyframes.array_roles import CLOCKS, END, FRAME_ROW, START
from storyframes.features import CLOCK, STORIES
from storyframes.label_curves import NEAREST, Between, CurveRule
from storyframes.pooling import rows_during
from storyframes.spec import MAIN, Axis, feature_and_track, is_label_curve, of_track
from storyframes.store.clip_table import clocks_of
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.layout import CLIPS, StoreError
from storyframes.store.storage import Storage
from storyframes.store.table_files import read_table
from storyframes.times import (
    PER_SECOND,
    SESSIONS_OWN,
    StoredClocks,
    TrackClock,
    grid_points,
    last_frame_end_s,
    spoken_rows,
    ticks,
    track_clock,
    usual_step,
)


def stored_clocks(store: FeatureReader) -> StoredClocks:
    """The clocks of tracks, from the clip index; empty for a store without one.

    Raises:
        StoreError: the clip index is damaged.
    """
    return clocks_of_storage(store.storage)


def clocks_of_storage(storage: Storage) -> StoredClocks:
    """The same of a store that is not opened."""
    content = read_table(storage, CLIPS)
    return {} if content is None else clocks_of(content)


def row_step(store: FeatureReader, session_id: str, feature: str, time: np.ndarray) -> float:
    """How far rows with these times usually are apart, ticks; 0 for a single row.

    The only window of a recording has the stride that the feature's attributes say, or else its own length.

    Raises:
        ValueError: a row is earlier than the one before it.
    """
    step = usual_step(time, f"{session_id}/{feature}")
    arrays = store.spec(session_id, feature).arrays
    if len(time) != 1 or any(name not in arrays or arrays[name].axis is not Axis.WINDOW for name in (START, END)):
        return step
    stride_s = store.attributes(session_id, feature).get("stride_s")
    if isinstance(stride_s, int | float) and 0 < stride_s < math.inf:
        return float(stride_s * PER_SECOND)
    start_s, end_s = (float(store.view(session_id, feature, array=name)[0]) for name in (START, END))
    return (end_s - start_s) * PER_SECOND


class SessionTimes:
    """The times of one session.

    Args:
        session_id: the session, or ``stories``, which has no times.
        clocks: of the tracks, where they were read before; None reads the clip index when it is needed.
    """

    stored_clocks = staticmethod(stored_clocks)

    def __init__(self, store: FeatureReader, session_id: str, clocks: StoredClocks | None = None) -> None:
        self._store, self._session_id, self._clocks = store, session_id, clocks
        self._rows: dict[tuple[str, Axis, float], np.ndarray] = {}
        self._points: dict[float, np.ndarray] = {}
        self._next_rows: dict[tuple[str, Axis, float], tuple[np.ndarray, np.ndarray]] = {}

    def is_clock(self, feature: str) -> bool:
        """Whether it is the feature that has the times of frames."""
        return feature_and_track(feature)[0] == CLOCK

    def clock(self, feature: str) -> TrackClock | None:
        """The clock of a feature's track; None where the store does not know it."""
        track = feature_and_track(feature)[1]
        if track == MAIN:
            return SESSIONS_OWN
        if self._clocks is None:
            self._clocks = stored_clocks(self._store)
        own = {key: clocks for key, clocks in self._clocks.items() if key == self._session_id}
        clock = track_clock(own, track)
        return clock if clock.is_known(self._session_id) else None

    def of_rows(self, feature: str, axis: Axis) -> dict[str, np.ndarray]:
        """(n,) ``time`` of a feature's rows, on the clock of its own device.

        Of rows that last it is when they begin, with ``end`` beside it; of windows their middle, with ``start`` and
        ``end``.

        Empty where the rows have no times.

        Raises:
            StoreError: the feature has a row for each frame, and the frames' times are more or fewer.
        """
        arrays = self._store.spec(self._session_id, feature).arrays
        if axis is Axis.FRAME:
            return self._of_frames(feature)
        times = {}
        begin = START if axis is Axis.WINDOW else "time"
        for name, array in (("time", "time"), (begin, START), (END, END)):
            if axis in CLOCKS and array in arrays and arrays[array].axis is axis:
                times[name] = np.asarray(self._store.view(self._session_id, feature, array=array), np.float64)
        return times

    def _of_frames(self, feature: str) -> dict[str, np.ndarray]:
        clock = of_track(CLOCK, feature_and_track(feature)[1])
        if not self._store.has(self._session_id, clock):
            return {}
        time = np.asarray(self._store.view(self._session_id, clock, array="time"), np.float64)
        arrays = self._store.spec(self._session_id, feature).arrays
        name = next(name for name, array in arrays.items() if array.axis is Axis.FRAME)
        rows = self._store.describe(self._session_id, feature, name).shape[0]
        if rows != len(time):
            raise StoreError(
                f"{self._session_id}/{feature} has {rows} frames, but {clock} says when {len(time)} are: they are of "
                "different versions of the recording; extract both again"
            )
        return {"time": time}

    def can_be_on_a_grid(self, feature: str, axis: Axis) -> bool:
        """Whether the rows of a feature have times."""
        if self._session_id == STORIES:
            return False
        return bool(self._frame_row(feature, axis)) or "time" in self.of_rows(feature, axis)

    def points(self, rate: float) -> np.ndarray:
        """(k,) the points of the session's grid, in ticks."""
        if rate not in self._points:
            end = ticks(self._end_s)
            points = grid_points(math.ceil(int(end) * rate / PER_SECOND) + 1, rate)
            self._points[rate] = points[points < end]
        return self._points[rate]

    def rows_at(self, feature: str, axis: Axis, rate: float) -> np.ndarray:
        """(k,) int64: the row of a feature at each point, -1 where none is near enough.

        Raises:
            StoreError: the clock of the track is not known, or its times do not rise.
        """
        key = feature, axis, rate
        if key not in self._rows:
            self._rows[key] = self._rows_at(feature, axis, rate)
        return self._rows[key]

    def _rows_at(self, feature: str, axis: Axis, rate: float) -> np.ndarray:
        clock = self.clock(feature)
        if clock is None:
            raise StoreError(f"{self._session_id}/{feature} cannot be put on a grid: {unknown_clock(feature)}")
        points = self.points(rate)
        if not clock.is_the_sessions(self._session_id):
            points = clock.device_ticks(self._session_id, points / PER_SECOND)
        if frame_row := self._frame_row(feature, axis):
            frames = self._nearest(feature, Axis.FRAME, points, rate)
            rows = self._store.view(self._session_id, feature, array=frame_row)
            return np.where(frames >= 0, rows[np.maximum(frames, 0)], -1) if len(rows) else frames
        if axis in FRAME_ROW:
            times = self.of_rows(feature, axis)
            return spoken_rows(ticks(times["time"]), ticks(times["end"]), points).astype(np.int64)
        return self._nearest(feature, axis, points, rate)

    def rows_during(self, feature: str, axis: Axis, spoken: str, spoken_axis: Axis) -> np.ndarray:
        """(n, 2) int64: of each word or utterance, the first row of a feature during it and the one after the last.

        Args:
            axis: of the feature's rows.
            spoken: the feature of words or utterances, maybe of another track.
            spoken_axis: which of the two.

        Raises:
            StoreError: rows have no times, or these do not rise; or the clock of a track is not known.
        """
        of_rows, of_spoken = self.clock(feature), self.clock(spoken)
        if of_rows is None or of_spoken is None:
            why = unknown_clock(feature if of_rows is None else spoken)
            raise StoreError(f"{self._session_id}/{feature} cannot be pooled over {spoken}: {why}")
        time, during = self.of_rows(feature, axis).get("time"), self.of_rows(spoken, spoken_axis)
        if time is None or not {"time", "end"} <= {*during}:
            which = feature if time is None else spoken
            raise StoreError(f"{self._session_id}/{which} does not say when its rows are: {feature} cannot be pooled")
        start, end = (
            of_rows.device_ticks(self._session_id, of_spoken.to_session(self._session_id, during[name]))
            for name in ("time", "end")
        )
        try:
            return rows_during(ticks(time), start, end, f"{self._session_id}/{feature}")
        except ValueError as error:
            raise StoreError(str(error)) from None

    def rows_between(self, feature: str, axis: Axis, start_s: float, stop_s: float) -> np.ndarray:
        """(n,) int64: the rows that a clip with these seconds of the session has, in their stored order.

        Frames, sound, moments and words belong to it that begin in [start_s, stop_s); utterances that overlap it, and
        windows that lie in it. Times are compared as whole microseconds of the feature's own device.

        Raises:
            StoreError: the rows have no times, or the clock of the track is not known.
        """
        clock, device = self.clock(feature), self.of_rows(feature, axis)
        where = f"{self._session_id}/{feature}"
        if clock is None:
            raise StoreError(f"{where} has no seconds of the session: {unknown_clock(feature)}")
        if "time" not in device:
            raise StoreError(f"{where}: the store does not say when its rows are; take them by number, [0:120]")
        first, stop = clock.device_ticks(self._session_id, np.array([start_s, stop_s]))
        begin = ticks(device.get(START, device["time"]))
        if axis is Axis.WINDOW and END in device:
            chosen = (begin >= first) & (ticks(device[END]) <= stop)
        elif axis is Axis.UTTERANCE and END in device:
            chosen = (ticks(device[END]) > first) & (begin < stop)
        else:
            chosen = (begin >= first) & (begin < stop)
        return np.flatnonzero(chosen)

    def next_rows_at(self, feature: str, axis: Axis, rate: float) -> tuple[np.ndarray, np.ndarray] | None:
        """(k,) int64 and float32 for a curve that is linear between its moments: the row after each point, and how far
        the point is from the row of :meth:`rows_at` to that one, 0 to 1. None for all other features.
        """
        self.rows_at(feature, axis, rate)
        return self._next_rows.get((feature, axis, rate))

    def _nearest(self, feature: str, axis: Axis, points: np.ndarray, rate: float) -> np.ndarray:
        times = {name: ticks(of_rows) for name, of_rows in self.of_rows(feature, axis).items()}
        time = times["time"]
        if not len(time):
            return np.full(len(points), -1)
        try:
            where = f"{self._session_id}/{feature}"
            step = row_step(self._store, self._session_id, feature, time)
            is_curve = axis is Axis.MOMENT and is_label_curve(feature_and_track(feature)[0])
            rule = CurveRule.of(self._store.attributes(self._session_id, feature), where) if is_curve else NEAREST
        except ValueError as error:
            raise StoreError(str(error)) from None
        end = None if START in times else times.get(END)  # a window's time is its middle
        neighbours = rule.neighbours(time, points, (PER_SECOND / rate, step), end)
        if rule.between is Between.LINEAR:
            self._next_rows[feature, axis, rate] = (
                np.where(neighbours.is_near, neighbours.right, -1),
                neighbours.share.astype(np.float32),
            )
        return np.where(neighbours.is_near, neighbours.left, -1)

    def _frame_row(self, feature: str, axis: Axis) -> str:
        """The array with the word or utterance of each frame; empty where the feature has none."""
        arrays = self._store.spec(self._session_id, feature).arrays
        name = FRAME_ROW.get(axis, "")
        return name if name in arrays and arrays[name].axis is Axis.FRAME and self._of_frames(feature) else ""

    @cached_property
    def _end_s(self) -> float:
        """The end of the session: of its own frames, or else of the last of its features."""
        if self._store.has(self._session_id, CLOCK):
            return last_frame_end_s(self._store.view(self._session_id, CLOCK, array="time"))
        ends = [0.0]
        for track in self._store.tracks(self._session_id):
            for feature in (of_track(name, track) for name in self._store.features(self._session_id, track)):
                clock = self.clock(feature)
                for axis in {array.axis for array in self._store.spec(self._session_id, feature).arrays.values()}:
                    times = self.of_rows(feature, axis)
                    if clock is None or "time" not in times or not len(times["time"]):
                        continue
                    end = times["end"].max() if "end" in times else last_frame_end_s(times["time"])
                    ends.append(float(clock.to_session(self._session_id, end)))
        return max(ends)


def unknown_clock(feature: str) -> str:
    """A message: the clip index does not have the clock of a track."""
    track = feature_and_track(feature)[1]
    return (
        f"the store does not say how the clock of the track {track!r} runs; 'storyframes index STUDY STORE' writes "
        "it into the clip index"
    )
