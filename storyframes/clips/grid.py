"""Clips on a grid: points at one rate from each clip's start, or its frames, and the row nearest to each of them.

:mod:`storyframes.times` says which row is the nearest. Clips and points are in seconds of the session; rows of another
track are in seconds of its device, so points are converted by its clock before they are looked up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from storyframes.array_roles import END, START
from storyframes.clips.inputs import Clip, ClipInput, ClipSource
from storyframes.clips.window_spec import nominal_rate
from storyframes.features import CLOCK
from storyframes.label_curves import NEAREST, Between, CurveRule
from storyframes.spec import of_track
from storyframes.store.feature_store import FeatureStore
from storyframes.store.session_times import row_step
from storyframes.times import PER_SECOND, ROUNDING, TrackClock, grid_points, ticks, usual_rate, usual_step

LENGTHS = 0.05
"""Share by which clips on one grid may differ in length: frames come irregularly, and some are lost."""
_AT_ONCE = 4096  # windows that are looked up together: what is computed of them stays small


class Nearest(NamedTuple):
    """The rows of a clip's points.

    Attributes:
        span: the rows from the first to the last of them.
        rows: (k,) the row of each point, counted from the span's start; None where the span is just these.
        has_row: (k,) whether a row is near enough; None where one is for every point.
        share: (k,) how far each point is from its row to the next one, 0 to 1, of a curve that is linear between
            moments; None where the row alone counts.
    """

    span: slice
    rows: np.ndarray | None
    has_row: np.ndarray | None
    share: np.ndarray | None = None


class Pattern(NamedTuple):
    """The rows of points, counted from the first of them; most clips of a recording share one pattern.

    Attributes:
        length: rows from the first to the last.
        rows, has_row: as in :class:`Nearest`.
    """

    length: int
    rows: np.ndarray | None
    has_row: np.ndarray | None


@dataclass(frozen=True)
class Grid:
    """The rows of clips' points, all looked up when it was opened.

    Attributes:
        points: of a clip.
        first: by session and first frame of a window, the first of its rows and the number of its pattern.
        shares: by session and first frame of a window, :attr:`Nearest.share` of a linear curve.
    """

    points: int
    first: Mapping[str, Mapping[int, tuple[int, int]]]
    patterns: Sequence[Pattern] = field(repr=False)
    shares: Mapping[str, Mapping[int, np.ndarray]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.points

    def find(self, clip: Clip) -> Nearest:
        """The rows of a clip's points."""
        first, number = self.first[clip.session_id][clip.start_frame]
        length, rows, has_row = self.patterns[number]
        share = self.shares.get(clip.session_id, {}).get(clip.start_frame)
        if share is not None and length:  # the last row's points may need the row after it
            at_last = share[-1:] if rows is None else share[rows == rows[-1]]
            length += bool((at_last > 0).any())
        return Nearest(slice(first, first + length), rows, has_row, share)


RowsOfClip = tuple[slice, np.ndarray | None, np.ndarray | None]
"""A clip's rows: from which to which, the row of each point, and whether it has one (None: all have)."""


def rows_of(grid: Grid | None, clip: Clip) -> RowsOfClip:
    """The rows of a clip in a feature of frames."""
    return (slice(clip.start_frame, clip.stop_frame), None, None) if grid is None else grid.find(clip)[:3]


def grid_of(source: ClipSource, requested: ClipInput, timed_by: str) -> Grid | None:
    """The grid of an input's rate; None where it has no rate, and its frames are the clips'.

    Args:
        timed_by: the feature, without the track, whose ``time`` says when each row is.

    Raises:
        ValueError: the grid cannot be made; or the input has no rate, and its track's frames are not the clips'.
    """
    if requested.rate is None:
        check_frames_are_the_clips(source, requested)
        return None
    return open_grid(source, requested, requested.rate, of_track(timed_by, requested.track))


def open_grid(
    source: ClipSource,
    requested: ClipInput,
    rate: float,
    timed_by: str,
    rules: Mapping[str, CurveRule] = MappingProxyType({}),
) -> Grid:
    """The grid of a dataset's clips: so many points a second.

    Args:
        rate: points a second.
        timed_by: the feature, as the store calls it, whose ``time`` says when each row is.
        rules: by session, the rule of a curve for what is between its moments; empty for a feature that is no curve.

    Raises:
        ValueError: the clips differ in length, no point is inside one, or a session's times do not rise.
    """
    offsets = grid_offsets(source, rate, requested.field)
    lookup = _Lookup(source.store, timed_by, source.clock(requested.track), len(offsets), rules)
    for session, windows in _windows(source.clips):
        lookup.add(session, windows, ticks(windows["start_s"])[:, None] + offsets, PER_SECOND / rate)
    return lookup.grid()


def open_frame_grid(
    source: ClipSource,
    requested: ClipInput,
    timed_by: str,
    rules: Mapping[str, CurveRule] = MappingProxyType({}),
) -> Grid:
    """The grid of the clips' own frames, for rows that have times of their own; arguments as of :func:`open_grid`.

    Raises:
        ValueError: a session's times do not rise.
    """
    lookup = _Lookup(source.store, timed_by, source.clock(requested.track), source.frames, rules)
    shown_by, camera = of_track(CLOCK, source.track), source.clock(source.track)
    for session, windows in _windows(source.clips):
        shown = ticks(camera.to_session(session, source.store.view(session, shown_by, array="time")))
        points = shown[windows["start_frame"].to_numpy()[:, None] + np.arange(source.frames)]
        lookup.add(session, windows, points, usual_step(shown, f"{session}/{shown_by}"))
    return lookup.grid()


def _windows(clips: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The distinct windows of clips, a limited number of one session's at a time."""
    for session, windows in clips.drop_duplicates(["session_id", "start_frame"]).groupby("session_id"):
        for first in range(0, len(windows), _AT_ONCE):
            yield str(session), windows.iloc[first : first + _AT_ONCE]


class _Lookup:
    """Looks up the rows of points, and collects them."""

    def __init__(
        self, store: FeatureStore, timed_by: str, device: TrackClock, points: int, rules: Mapping[str, CurveRule]
    ) -> None:
        self._store, self._timed_by, self._device, self._points = store, timed_by, device, points
        self._rules, self._shares = rules, dict[str, dict[int, np.ndarray]]()
        self._times: dict[str, tuple[np.ndarray, float, np.ndarray | None]] = {}
        self._first: dict[str, dict[int, tuple[int, int]]] = {}
        self._numbers: dict[bytes, int] = {}
        self._patterns: list[Pattern] = []

    def grid(self) -> Grid:
        """The grid of all points that were added."""
        return Grid(self._points, self._first, self._patterns, self._shares)

    def add(self, session: str, windows: pd.DataFrame, points: np.ndarray, step: float) -> None:
        """Look up the points of some windows: (n, k) ticks of the session that are ``step`` apart."""
        time, own_step, end = self._time_of(session)
        if len(time):
            is_own = self._device.is_the_sessions(session)
            on_device = points if is_own else self._device.device_ticks(session, points / PER_SECOND)
            rule = self._rules.get(session, NEAREST)
            rows, _, share, has_row = rule.neighbours(time, on_device, (step, own_step), end)
            if rule.between is Between.LINEAR:
                frames = windows["start_frame"].tolist()
                share = np.where(has_row, share, 0).astype(np.float32)
                self._shares.setdefault(session, {}).update(zip(frames, share, strict=True))
            has_row &= points < ticks(windows["stop_s"])[:, None]
        else:
            rows, has_row = np.zeros(points.shape, np.int64), np.zeros(points.shape, bool)
        first = rows[:, 0].copy()
        rows -= first[:, None]
        is_plain = (rows == np.arange(self._points)).all(axis=1) & has_row.all(axis=1)
        numbers = self._first.setdefault(session, {})
        small = rows.astype(np.int16 if rows.max() < np.iinfo(np.int16).max else np.int32)
        for place, (frame, row) in enumerate(zip(windows["start_frame"].tolist(), first.tolist(), strict=True)):
            numbers[frame] = row, self._number(small[place], has_row[place], is_plain=bool(is_plain[place]))

    def _number(self, rows: np.ndarray, has_row: np.ndarray, *, is_plain: bool) -> int:
        """The number of this pattern; ``is_plain`` where the rows are neighbours, one for each point."""
        key = b"" if is_plain else rows.tobytes() + has_row.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._patterns)
            if is_plain:
                pattern = Pattern(self._points, None, None)
            elif not has_row.any():
                pattern = Pattern(0, None, has_row.copy())
            else:
                pattern = Pattern(int(rows[-1]) + 1, rows.copy(), None if has_row.all() else has_row.copy())
            self._patterns.append(pattern)
        return self._numbers[key]

    def _time_of(self, session: str) -> tuple[np.ndarray, float, np.ndarray | None]:
        """When the rows of a session are, how far they usually are apart, and where they last, when they end: ticks."""
        if session not in self._times:
            time = ticks(self._store.view(session, self._timed_by, array="time"))
            step = row_step(self._store, session, self._timed_by, time)
            arrays = self._store.spec(session, self._timed_by).arrays
            has_ends = END in arrays and START not in arrays and arrays[END].axis is arrays["time"].axis
            end = ticks(self._store.view(session, self._timed_by, array=END)) if has_ends else None
            self._times = {session: (time, step, end)}  # one session after the other
        return self._times[session]


def grid_offsets(source: ClipSource, rate: float, name: str) -> np.ndarray:
    """(k,) ticks from a clip's start to each of its points.

    Clips of other datasets of the same index get as many points.

    Args:
        rate: points a second.
        name: of the input, for messages.

    Raises:
        ValueError: windows that count frames differ in length, or no point is inside one.
    """
    seconds = _length_s(source, name)
    count = round(seconds * rate)
    if count < 1:
        raise ValueError(f"rate={rate:g} of {name!r} gives no point in a clip of {seconds:g} s")
    return grid_points(count, rate)


def _length_s(source: ClipSource, name: str) -> float:
    """Seconds of a clip: the median of the index, or else of these clips.

    Windows that were cut in seconds are never refused. One with a gap in it may last longer, and has the points of its
    first seconds.
    """
    clips = source.clips
    lengths = (clips["stop_s"] - clips["start_s"]).to_numpy()
    usual = [float(np.median(table["stop_s"] - table["start_s"])) for table in (source.index, clips)]
    if source.window_s is not None:
        return usual[0] if abs(usual[0] - source.window_s) <= LENGTHS * source.window_s else source.window_s
    for seconds in usual:
        if (np.abs(lengths - seconds) <= LENGTHS * seconds).all():
            return seconds
    shortest, longest = int(lengths.argmin()), int(lengths.argmax())
    ids: Sequence[str] = clips["clip_id"]
    low, high = (1 - LENGTHS) * usual[1], (1 + LENGTHS) * usual[1]
    raise ValueError(
        f"{name!r} has one rate, but the clips are {lengths[shortest]:.3g} s ({ids[shortest]}) to "
        f"{lengths[longest]:.3g} s ({ids[longest]}) long: read those of one length, "
        f"where='stop_s - start_s > {low:.3g} and stop_s - start_s < {high:.3g}', or cut windows of equal seconds"
    )


def check_frames_are_the_clips(source: ClipSource, requested: ClipInput) -> None:
    """Refuse an input of another track whose frames are not of the same moments as the clips' frames.

    Two cameras that are triggered together have the same moments; of others, an input has to give a rate.

    Raises:
        ValueError: a frame of a clip begins more than a millisecond from the track's frame of the same number, or
            the track has none of that number; the message says which rate to give.
    """
    device = source.clock(requested.track)
    if requested.track == source.track:
        return
    rates: Counter[float] = Counter()
    first = ""
    for session, clips in source.clips.groupby("session_id"):
        used = int(clips["start_frame"].min()), int(clips["stop_frame"].max())
        time = source.store.view(session, of_track(CLOCK, requested.track), array="time")
        rates[nominal_rate(usual_rate(time, 0.0))] += 1
        first = first or _difference(source, session, used, device.to_session(session, time))
    if first:
        rate = round(rates.most_common(1)[0][0], 2)
        raise ValueError(
            f"the frames of the track {requested.track!r} are not those of the clips ({first}): say how many rows a "
            f"second {requested.field!r} is to have, rate={rate:g} for about its own; each is then the nearest in time"
        )


def _difference(source: ClipSource, session: str, used: tuple[int, int], time: np.ndarray) -> str:
    """The first frame that a clip uses and that is of another moment, or no frame of the track; empty where none is."""
    of_clips = of_track(CLOCK, source.track)
    if not source.store.has(session, of_clips):
        return f"the times of the clips of {session} are not known"
    start, stop = used
    own_s = source.store.view(session, of_clips, start, stop, array="time")
    own = ticks(source.clock(source.track).to_session(session, own_s))
    others = ticks(time[start:stop])
    off = np.abs(own[: len(others)] - others) > ROUNDING
    if off.any():
        frame = int(np.argmax(off))
        own_at, other_at = own[frame] / PER_SECOND, others[frame] / PER_SECOND
        return (
            f"frame {start + frame} of {session} is at {own_at:.3f} s, the track's at {other_at:.3f} s of the session"
        )
    if len(others) < len(own):
        return f"{session} has clips to frame {stop}, and the track {len(time)} frames"
    return ""
