"""Clips on a grid: points at one rate from each clip's start, or its frames, and the row nearest to each of them.

Which row that is, :mod:`storyframes.times` says. Clips and points are in seconds of the session; rows of another
track have those of its device, so the points are looked up there as its clock has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from storyframes.clips.inputs import Clip, ClipInput, ClipSource
from storyframes.clips.window_spec import nominal_rate
from storyframes.features import CLOCK
from storyframes.label_curves import NEAREST, Between, CurveRule
from storyframes.store.feature_store import FeatureStore
from storyframes.times import PER_SECOND, ROUNDING, SESSIONS_OWN, TrackClock, grid_points, ticks, usual_rate, usual_step
from storyframes.tracks import of_track

LENGTHS = 0.05
"""Share by which clips on one grid may differ in length: frames come irregularly, and some are lost."""
_AT_ONCE = 4096  # windows that are looked up together


class Nearest(NamedTuple):
    """The rows of a clip's points.

    Attributes:
        span: the rows from the first to the last of them.
        rows: (k,) of each point its row, counted from the span's start; None where the span is just these.
        there: (k,) whether there is a row near enough; None where there is one for every point.
        share: (k,) how far each point is from its row to the next one, 0 to 1, of a curve that has the line between
            them; None where the row alone counts.
    """

    span: slice
    rows: np.ndarray | None
    there: np.ndarray | None
    share: np.ndarray | None = None


class Pattern(NamedTuple):
    """How the rows of points lie, counted from the first of them; most clips of a recording have it in common.

    Attributes:
        length: rows from the first to the last.
        rows, there: as :class:`Nearest` has them.
    """

    length: int
    rows: np.ndarray | None
    there: np.ndarray | None


@dataclass(frozen=True)
class Grid:
    """Knows the rows of clips' points, all looked up when it was opened.

    Attributes:
        points: of a clip.
        first: by session, by the first frame of a window, the first of its rows and which pattern they have.
        patterns: the patterns.
        shares: by session, by the first frame of a window, :attr:`Nearest.share` where there is one.
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
        length, rows, there = self.patterns[number]
        share = self.shares.get(clip.session_id, {}).get(clip.start_frame)
        if share is not None and length:  # the last row's points may need the row after it
            at_last = share[-1:] if rows is None else share[rows == rows[-1]]
            length += bool((at_last > 0).any())
        return Nearest(slice(first, first + length), rows, there, share)


def open_frame_grid(
    store: FeatureStore,
    clips: pd.DataFrame,
    frames: int,
    timed_by: str,
    device: TrackClock = SESSIONS_OWN,
    clips_of: tuple[str, TrackClock] = (CLOCK, SESSIONS_OWN),
    rules: Mapping[str, CurveRule] = MappingProxyType({}),
) -> Grid:
    """The grid of the clips' own frames, for rows that have times of their own.

    Args:
        store: the store; it has the frames' times of every session.
        clips: the clips that will be read.
        frames: of each of them.
        timed_by: the feature whose ``time`` says when each row is.
        device: whose seconds these are.
        clips_of: the same two of the frames that the clips count.
        rules: by session, what a curve has between its moments; of what is no curve there are none.

    Raises:
        ValueError: a session's times do not rise.
    """
    found = _Lookup(store, timed_by, device, frames, rules)
    shown_by, camera = clips_of
    for session, windows in clips.drop_duplicates(["session_id", "start_frame"]).groupby("session_id"):
        shown = ticks(camera.to_session(str(session), store.view(session, shown_by, array="time")))
        step = usual_step(shown, f"{session}/{shown_by}")
        for some in _pieces(windows):
            points = shown[some["start_frame"].to_numpy()[:, None] + np.arange(frames)]
            found.add(str(session), some, points, step)
    return found.grid()


def open_grid(
    store: FeatureStore,
    clips: pd.DataFrame,
    index: pd.DataFrame,
    rate: float,
    timed_by: str,
    name: str,
    device: TrackClock = SESSIONS_OWN,
    rules: Mapping[str, CurveRule] = MappingProxyType({}),
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
        rules: as :func:`open_frame_grid` takes them.

    Raises:
        ValueError: the clips differ in length, no point lies in one, or a session's times do not rise.
    """
    offsets = grid_offsets(clips, index, rate, name)
    found = _Lookup(store, timed_by, device, len(offsets), rules)
    for session, windows in clips.drop_duplicates(["session_id", "start_frame"]).groupby("session_id"):
        for some in _pieces(windows):
            points = ticks(some["start_s"])[:, None] + offsets
            found.add(str(session), some, points, PER_SECOND / rate)
    return found.grid()


class _Lookup:
    """Looks up the rows of points, and collects what is found."""

    def __init__(
        self, store: FeatureStore, timed_by: str, device: TrackClock, points: int, rules: Mapping[str, CurveRule]
    ) -> None:
        self._store, self._timed_by, self._device, self._points = store, timed_by, device, points
        self._rules, self._shares = rules, dict[str, dict[int, np.ndarray]]()
        self._times: dict[str, tuple[np.ndarray, float]] = {}
        self._first: dict[str, dict[int, tuple[int, int]]] = {}
        self._numbers: dict[bytes, int] = {}
        self._patterns: list[Pattern] = []

    def grid(self) -> Grid:
        """All that was found."""
        return Grid(self._points, self._first, self._patterns, self._shares)

    def add(self, session: str, windows: pd.DataFrame, points: np.ndarray, step: float) -> None:
        """The rows of the points of some windows, (n, k) ticks of the session that are ``step`` apart."""
        time, own_step = self._time_of(session)
        if len(time):
            on_device = _on_device(self._device, session, points)
            rule = self._rules.get(session, NEAREST)
            rows, _, share, there = rule.neighbours(time, on_device, (step, own_step))
            if rule.between is Between.LINEAR:
                frames = windows["start_frame"].tolist()
                share = np.where(there, share, 0).astype(np.float32)
                self._shares.setdefault(session, {}).update(zip(frames, share, strict=True))
            there &= points < ticks(windows["stop_s"])[:, None]
        else:
            rows, there = np.zeros(points.shape, np.int64), np.zeros(points.shape, bool)
        first = rows[:, 0].copy()
        rows -= first[:, None]
        as_they_lie = (rows == np.arange(self._points)).all(axis=1) & there.all(axis=1)
        found = self._first.setdefault(session, {})
        small = rows.astype(np.int16 if rows.max() < np.iinfo(np.int16).max else np.int32)
        for place, (frame, row) in enumerate(zip(windows["start_frame"].tolist(), first.tolist(), strict=True)):
            found[frame] = row, self._number(small[place], there[place], as_they_lie=bool(as_they_lie[place]))

    def _number(self, rows: np.ndarray, there: np.ndarray, *, as_they_lie: bool) -> int:
        """Which pattern these are."""
        key = b"" if as_they_lie else rows.tobytes() + there.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._patterns)
            if as_they_lie:
                pattern = Pattern(self._points, None, None)
            elif not there.any():
                pattern = Pattern(0, None, there.copy())
            else:
                pattern = Pattern(int(rows[-1]) + 1, rows.copy(), None if there.all() else there.copy())
            self._patterns.append(pattern)
        return self._numbers[key]

    def _time_of(self, session: str) -> tuple[np.ndarray, float]:
        """When the rows of a session are, and how far they usually are apart."""
        if session not in self._times:
            time = ticks(self._store.view(session, self._timed_by, array="time"))
            step = usual_step(time, f"{session}/{self._timed_by}")
            self._times = {session: (time, step)}  # one session after the other
        return self._times[session]


def _pieces(windows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """So many windows at once that what is computed of them stays small."""
    for first in range(0, len(windows), _AT_ONCE):
        yield windows.iloc[first : first + _AT_ONCE]


def grid_offsets(clips: pd.DataFrame, index: pd.DataFrame, rate: float, name: str) -> np.ndarray:
    """(k,) ticks from a clip's start to each of its points; arguments and errors are those of :func:`open_grid`."""
    seconds = _length_s(clips, index, name)
    count = round(seconds * rate)
    if count < 1:
        raise ValueError(f"rate={rate:g} of {name!r} gives no point in a clip of {seconds:g} s")
    return grid_points(count, rate)


def _on_device(device: TrackClock, session_id: str, points: np.ndarray) -> np.ndarray:
    """Ticks of the session as the device counts them."""
    if device.is_the_sessions(session_id):
        return points
    return device.device_ticks(session_id, points / PER_SECOND)


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


def check_frames_are_the_clips(source: ClipSource, wanted: ClipInput, device: TrackClock) -> None:
    """Refuse an input whose rows are of other moments than those that the clips name.

    Args:
        source: what to read.
        wanted: the input, which has no rate.
        device: the clock of its track.

    Raises:
        ValueError: a frame of a clip begins more than a millisecond from the track's frame of the same number, or
            there is none; the message says which rate to give.
    """
    if wanted.track == source.track:
        return
    rates: Counter[float] = Counter()
    first = ""
    for session, clips in source.clips.groupby("session_id"):
        used = int(clips["start_frame"].min()), int(clips["stop_frame"].max())
        time = source.store.view(session, of_track(CLOCK, wanted.track), array="time")
        rates[nominal_rate(usual_rate(time, 0.0))] += 1
        first = first or _difference(source, session, used, device.to_session(session, time))
    if first:
        rate = round(rates.most_common(1)[0][0], 2)
        raise ValueError(
            f"the frames of the track {wanted.track!r} are not those of the clips ({first}): say how many rows a "
            f"second {wanted.field!r} is wanted with, rate={rate:g} for about its own; each is then the nearest in time"
        )


def _difference(source: ClipSource, session: str, used: tuple[int, int], time: np.ndarray) -> str:
    """The first frame that a clip uses and that is of another moment, or no frame of the track; empty where none is."""
    of_clips = of_track(CLOCK, source.track)
    if not source.store.has(session, of_clips):
        return f"of {session} it is not known when the clips' are"
    start, stop = used
    own_s = source.store.view(session, of_clips, start, stop, array="time")
    own = ticks(source.clock(source.track).to_session(session, own_s))
    theirs = ticks(time[start:stop])
    off = np.abs(own[: len(theirs)] - theirs) > ROUNDING
    if off.any():
        frame = int(np.argmax(off))
        at, there = own[frame] / PER_SECOND, theirs[frame] / PER_SECOND
        return f"frame {start + frame} of {session} is at {at:.3f} s, the track's at {there:.3f} s of the session"
    if len(theirs) < len(own):
        return f"{session} has clips to frame {stop}, and the track {len(time)} frames"
    return ""
