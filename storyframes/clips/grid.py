"""Clips on a grid: points at one rate from each clip's start, or its frames, and the row nearest to each of them.

Points and rows are compared as whole microseconds (:mod:`storyframes.ticks`). A row is near enough to stand for a point
if it is no further off than half a step of the coarser of both, and a millisecond, to which containers round. Of two
that are equally far, the earlier one is taken. Clips and points are in seconds of the session; rows of another track
have those of its device, so the points are looked up there as its clock has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from storyframes.clips.input_readers import Clip
from storyframes.clocks import SESSIONS_OWN, TrackClock
from storyframes.features import CLOCK
from storyframes.store.feature_store import FeatureStore
from storyframes.ticks import PER_SECOND, ticks

ROUNDING = PER_SECOND // 1000
"""Ticks by which two times may be off because a container counts milliseconds, as Matroska does."""
LENGTHS = 0.05
"""Share by which clips on one grid may differ in length: frames come irregularly, and some are lost."""
_AT_ONCE = 4096  # windows that are looked up together


class Nearest(NamedTuple):
    """The rows of a clip's points.

    Attributes:
        span: the rows from the first to the last of them.
        rows: (k,) of each point its row, counted from the span's start; None where the span is just these.
        there: (k,) whether there is a row near enough; None where there is one for every point.
    """

    span: slice
    rows: np.ndarray | None
    there: np.ndarray | None


@dataclass(frozen=True)
class Grid:
    """Finds the rows of clips' points.

    Attributes:
        offsets: (k,) of the points from a clip's start, ticks.
        timed_by: the feature whose array ``time`` says when each row is.
        device: whose seconds these are.
        tolerance: by session, how far off a row may be, ticks.
        runs: by session, by the first frame of a window whose rows are neighbours, one for each point: the first one.
    """

    offsets: np.ndarray
    timed_by: str
    device: TrackClock
    tolerance: Mapping[str, int]
    runs: Mapping[str, Mapping[int, int]]
    _last: list[tuple[tuple[str, int], Nearest]] = field(
        default_factory=lambda: [(("", -1), Nearest(slice(0, 0), None, None))], repr=False
    )

    def __len__(self) -> int:
        return len(self.offsets)

    def run(self, clip: Clip) -> slice | None:
        """The rows of a clip, where they are neighbours, one for each point."""
        first = self.runs[clip.session_id].get(clip.start_frame)
        return None if first is None else slice(first, first + len(self))

    def find(self, store: FeatureStore, clip: Clip) -> Nearest:
        """The rows of a clip's points."""
        if run := self.run(clip):
            return Nearest(run, None, None)
        key, nearest = self._last[0]
        if key != (clip.session_id, clip.start_frame):  # rows and their mask are asked for one after the other
            nearest = self._look_up(store, clip)
            self._last[0] = (clip.session_id, clip.start_frame), nearest  # another thread's costs a look-up, no more
        return nearest

    def _look_up(self, store: FeatureStore, clip: Clip) -> Nearest:
        time = store.view(clip.session_id, self.timed_by, array="time")
        points, stop = self._points(store, clip), ticks(clip.stop_s)
        on_device = _on_device(self.device, clip.session_id, points)
        begin, end = np.searchsorted(time, on_device[[0, -1]] / PER_SECOND).tolist()
        begin, end = max(begin - 2, 0), end + 2
        if len(time[begin:end]) == 0:
            return Nearest(slice(0, 0), None, np.zeros(len(self), bool))
        rows, there = nearest_rows(ticks(time[begin:end]), on_device, self.tolerance[clip.session_id])
        there &= points < stop
        first, last = int(rows[0]), int(rows[-1])
        return Nearest(slice(begin + first, begin + last + 1), rows - first, None if there.all() else there)

    def _points(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        """The points of a clip, ticks of the session."""
        return ticks(clip.start_s) + self.offsets


@dataclass(frozen=True)
class FrameGrid(Grid):
    """The points are the moments at which the clip's own frames are shown; ``offsets`` only says how many.

    Attributes:
        frames: the feature whose ``time`` says when the frames are that the clips count.
        camera: whose seconds these are.
    """

    frames: str = CLOCK
    camera: TrackClock = SESSIONS_OWN

    def _points(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        shown = store.view(clip.session_id, self.frames, clip.start_frame, clip.stop_frame, array="time")
        return ticks(self.camera.to_session(clip.session_id, shown))


def open_frame_grid(
    store: FeatureStore,
    clips: pd.DataFrame,
    frames: int,
    timed_by: str,
    device: TrackClock = SESSIONS_OWN,
    clips_of: tuple[str, TrackClock] = (CLOCK, SESSIONS_OWN),
) -> FrameGrid:
    """The grid of the clips' own frames, for rows that have times of their own.

    Args:
        store: the store; it has the frames' times of every session.
        clips: the clips that will be read.
        frames: of each of them.
        timed_by: the feature whose ``time`` says when each row is.
        device: whose seconds these are.
        clips_of: the same two of the frames that the clips count.

    Raises:
        ValueError: a session's times do not rise.
    """
    tolerance = {}
    for session in clips["session_id"].unique():
        own = _step(store, session, clips_of[0])
        tolerance[session] = int(max(own, _step(store, session, timed_by)) / 2) + ROUNDING
    runs: dict[str, dict[int, int]] = {session: {} for session in tolerance}
    offsets = np.zeros(frames, np.int64)
    return FrameGrid(offsets, timed_by, device, tolerance, runs, frames=clips_of[0], camera=clips_of[1])


def open_grid(
    store: FeatureStore,
    clips: pd.DataFrame,
    index: pd.DataFrame,
    rate: float,
    timed_by: str,
    name: str,
    device: TrackClock = SESSIONS_OWN,
) -> Grid:
    """The grid of a dataset's clips.

    Args:
        store: the store.
        clips: the clips that will be read.
        index: the whole clip index: clips of other datasets get as many points.
        rate: points a second.
        timed_by: the feature whose ``time`` says when each row is.
        name: of the input, for messages.
        device: whose seconds these are.

    Raises:
        ValueError: the clips differ in length, no point lies in one, or a session's times do not rise.
    """
    offsets = grid_offsets(clips, index, rate, name)
    tolerance, runs = {}, {}
    for session, windows in clips.drop_duplicates(["session_id", "start_frame"]).groupby("session_id"):
        time = ticks(store.view(session, timed_by, array="time"))
        tolerance[session] = int(max(PER_SECOND / rate, _step(store, session, timed_by)) / 2) + ROUNDING
        runs[session] = _runs(time, windows, offsets, tolerance[session], device)
    return Grid(offsets, timed_by, device, tolerance, runs)


def _step(store: FeatureStore, session: str, timed_by: str) -> float:
    """From one row to the next, as it usually is: ticks; 0 of a single row."""
    steps = np.diff(ticks(store.view(session, timed_by, array="time")))
    if (steps < 0).any():
        row = int(np.argmax(steps < 0)) + 1
        raise ValueError(f"{session}/{timed_by}/time: row {row} is earlier than the one before it: extract it again")
    return float(np.median(steps)) if len(steps) else 0.0


def grid_offsets(clips: pd.DataFrame, index: pd.DataFrame, rate: float, name: str) -> np.ndarray:
    """(k,) ticks from a clip's start to each of its points; arguments and errors are those of :func:`open_grid`."""
    seconds = _length_s(clips, index, name)
    count = round(seconds * rate)
    if count < 1:
        raise ValueError(f"rate={rate:g} of {name!r} gives no point in a clip of {seconds:g} s")
    return np.rint(np.arange(count) * (PER_SECOND / rate)).astype(np.int64)


def _on_device(device: TrackClock, session_id: str, points: np.ndarray) -> np.ndarray:
    """Ticks of the session as the device counts them."""
    if device.is_the_sessions(session_id):
        return points
    return device.device_ticks(session_id, points / PER_SECOND)


def nearest_rows(time: np.ndarray, points: np.ndarray, tolerance: int) -> tuple[np.ndarray, np.ndarray]:
    """The row nearest to each point, and whether it is near enough.

    Args:
        time: (n,) of the rows, in order, at least one; ticks.
        points: of any shape, ticks.
        tolerance: how far off a row may be.

    Returns:
        int64 and bool of the points' shape.
    """
    after = np.searchsorted(time, points)
    before = np.maximum(after - 1, 0)
    after = np.minimum(after, len(time) - 1)
    rows = np.where(np.abs(points - time[before]) <= np.abs(time[after] - points), before, after)
    return rows, np.abs(points - time[rows]) <= tolerance


def _runs(
    time: np.ndarray, windows: pd.DataFrame, offsets: np.ndarray, tolerance: int, device: TrackClock
) -> dict[int, int]:
    found: dict[int, int] = {}
    if len(time) < len(offsets):
        return found
    session_id = str(windows["session_id"].iloc[0])
    for first in range(0, len(windows), _AT_ONCE):
        some = windows.iloc[first : first + _AT_ONCE]
        start, stop = (ticks(some[column])[:, None] for column in ("start_s", "stop_s"))
        rows, there = nearest_rows(time, _on_device(device, session_id, start + offsets), tolerance)
        there &= start + offsets < stop
        neighbours = (rows == rows[:, :1] + np.arange(len(offsets))).all(axis=1) & there.all(axis=1)
        found |= dict(zip(some["start_frame"][neighbours].tolist(), rows[neighbours, 0].tolist(), strict=True))
    return found


def _length_s(clips: pd.DataFrame, index: pd.DataFrame, name: str) -> float:
    """Seconds of a clip: as they usually are in the index, or else in these clips."""
    lengths = (clips["stop_s"] - clips["start_s"]).to_numpy()
    usual = [float(np.median(of["stop_s"] - of["start_s"])) for of in (index, clips)]
    for seconds in usual:
        if (np.abs(lengths - seconds) <= LENGTHS * seconds).all():
            return seconds
    raise ValueError(_differing(clips, lengths, usual[1], name))


def _differing(clips: pd.DataFrame, lengths: np.ndarray, usual: float, name: str) -> str:
    shortest, longest = int(lengths.argmin()), int(lengths.argmax())
    ids: Sequence[str] = clips["clip_id"]
    low, high = (1 - LENGTHS) * usual, (1 + LENGTHS) * usual
    return (
        f"{name!r} has one rate, but the clips are {lengths[shortest]:.3g} s ({ids[shortest]}) to "
        f"{lengths[longest]:.3g} s ({ids[longest]}) long: read those of one length, "
        f"where='stop_s - start_s > {low:.3g} and stop_s - start_s < {high:.3g}', or cut windows of equal seconds"
    )
