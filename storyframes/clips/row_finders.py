"""Which rows of a feature belong to a clip, where rows are not frames, and how many the longest clip of a study has.

Padded inputs are as long as that, for every split and filter. Times are compared as whole microseconds
(:mod:`storyframes.times`), on the clock of the device whose rows they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from storyframes.array_roles import END, SPEAKER, START
from storyframes.clips.grid import Grid, rows_of
from storyframes.clips.inputs import Clip, ClipInput, ClipSource
from storyframes.features import AUDIO_HOP_S, CLOCK
from storyframes.spec import Axis, FeatureSpec, of_track
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.times import PER_SECOND, ROUNDING, TrackClock, spoken_rows, ticks, usual_step, usual_step_s

# How many usual steps of the camera the mean step of a clip's frames counts for at most. A camera slows down in the
# dark, but hardly to less than half of its rate; a mean beyond that means that the recording pauses within the clip.
_LONGEST_STEP = 2


class RowFinder(ABC):
    """Finds the rows of a feature that belong to a clip."""

    @abstractmethod
    def find(self, store: FeatureStore, clip: Clip) -> tuple[slice | np.ndarray, int]:
        """The clip's rows in their order, and how many rows too late the first begins (for rows of a fixed step)."""

    def long_run(self, clip: Clip) -> slice | None:
        """The clip's rows, where they are known without reading and so many that announcing them is worth it."""
        return None

    @abstractmethod
    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        """The largest number of rows that a clip of the index has."""


# --- sound -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IndexedSound(RowFinder):
    """The rows that the clip index names (``audio_start``, ``audio_stop``), which are those of one feature."""

    feature: str

    def long_run(self, clip: Clip) -> slice:
        return slice(clip.audio_start, clip.audio_stop)

    def find(self, store: FeatureStore, clip: Clip) -> tuple[slice, int]:
        rows = self.long_run(clip)
        if clip.audio_start > 0:  # there is sound before the clip, so its first row is within a row of its start
            return rows, 0
        if clip.audio_stop == 0:  # no sound before its end, and maybe none at all
            return rows, 0
        (first_s,) = store.view(clip.session_id, self.feature, 0, 1, array="time")
        return rows, int(_rows_before(ticks(first_s), ticks(clip.start_s), ticks(AUDIO_HOP_S)))

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        """The largest number of rows from the start of a clip of the index to its last row of sound."""
        longest = int((index["audio_stop"] - index["audio_start"]).max())
        begins_inside = (index["audio_start"] == 0) & (index["audio_stop"] > 0)
        for session, clips in index[begins_inside.fillna(False)].groupby("session_id"):
            if not store.has(session, self.feature):  # the index is older than the store: nobody reads these clips
                continue
            (first_s,) = store.view(session, self.feature, 0, 1, array="time")
            before = _rows_before(ticks(first_s), ticks(clips["start_s"]), ticks(AUDIO_HOP_S))
            longest = max(longest, int((before + clips["audio_stop"]).max()))
        return longest


@dataclass(frozen=True)
class TimedRows(RowFinder):
    """The rows that are inside the clip by their times, looked up once for all clips of the index.

    Attributes:
        windows: by session, of each clip its first frame, its first row, the row after its last, and the rows before.
    """

    windows: Mapping[str, np.ndarray]

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        lengths = [int((rows[:, 3] + rows[:, 2] - rows[:, 1]).max()) for rows in self.windows.values() if len(rows)]
        return max(lengths, default=0)

    def long_run(self, clip: Clip) -> slice:
        return self.find(None, clip)[0]

    def find(self, store: FeatureStore | None, clip: Clip) -> tuple[slice, int]:
        windows = self.windows[clip.session_id]
        _, first, stop, before = windows[int(np.searchsorted(windows[:, 0], clip.start_frame))].tolist()
        return slice(first, stop), before


def timed_sound(store: FeatureStore, index: pd.DataFrame, feature: str, device: TrackClock) -> TimedRows:
    """Look up which rows of a feature each clip of the index has.

    Raises:
        ValueError: a session's times do not rise, or two sessions have rows of different lengths.
    """
    windows: dict[str, np.ndarray] = {}
    steps: dict[str, int] = {}
    for session, clips in index.groupby("session_id"):
        if not (store.has(session, feature) and device.is_known(session)):
            continue
        time = ticks(store.view(session, feature, array="time"))
        step = int(usual_step(time, f"{session}/{feature}"))
        if len(time) > 1:
            steps[session] = step
        clips = clips.drop_duplicates("start_frame").sort_values("start_frame")
        start_s, stop_s = (device.device_ticks(session, clips[column]) for column in ("start_s", "stop_s"))
        start, stop = np.searchsorted(time, start_s), np.searchsorted(time, stop_s)
        late = (start == 0) & (stop > 0) & bool(step)
        before = np.zeros(len(clips), np.int64)
        if late.any():
            before[late] = _rows_before(time[0], start_s[late], step)
        windows[session] = np.column_stack([clips["start_frame"], start, stop, before])
    _check_steps(feature, steps)
    return TimedRows(windows)


def windows_inside(source: ClipSource, feature: str, device: TrackClock, *, each: bool = True) -> TimedRows:
    """Look up which windows lie in each clip of the index, to a frame of the clip: it begins with a frame, they do not.

    Args:
        each: whether each clip that is read has to have one.

    Raises:
        ValueError: no window lies in a clip.
    """
    store, shown_by = source.store, of_track(CLOCK, source.track)
    windows: dict[str, np.ndarray] = {}
    for session, clips in source.index.groupby("session_id"):
        if not (store.has(session, feature) and device.is_known(session)):
            continue
        start, end = (ticks(store.view(session, feature, array=name)) for name in (START, END))
        clips = clips.drop_duplicates("start_frame").sort_values("start_frame")
        frame_s = (clips["stop_s"] - clips["start_s"]) / (clips["stop_frame"] - clips["start_frame"])
        if store.has(session, shown_by):
            usual_s = usual_step_s(store.view(session, shown_by, array="time"), np.inf)
            frame_s = frame_s.clip(upper=_LONGEST_STEP * usual_s)
        first = np.searchsorted(start, device.device_ticks(session, clips["start_s"] - frame_s) - ROUNDING)
        # one that was cut in seconds has the frames of a nominal rate, and may be a per cent shorter
        stop_s = np.maximum(clips["stop_s"], clips["start_s"] + (source.window_s or 0.0))
        stop = np.searchsorted(end, device.device_ticks(session, stop_s + frame_s) + ROUNDING, side="right")
        windows[session] = np.column_stack([clips["start_frame"], first, np.maximum(first, stop), np.zeros_like(first)])
    found = TimedRows(windows)
    if not found.longest(store, source.index):
        raise ValueError(
            f"no window of {feature!r} lies in a clip: clips are shorter than windows, or they begin at other moments; "
            "give the input axis='frame' or a rate= for the nearest windows, or extract shorter windows"
        )
    empty = {(session, frame) for session, rows in windows.items() for frame in rows[rows[:, 1] == rows[:, 2], 0]}
    clips = source.clips
    lacking = [clip in empty for clip in zip(clips["session_id"], clips["start_frame"], strict=True)]
    if each and any(lacking):
        raise ValueError(
            f"no window of {feature!r} lies in {sum(lacking)} of {len(lacking)} clips (the first is "
            f"{clips['clip_id'][lacking].iloc[0]}): windows begin at second 0 of the video, clips with a phase; "
            "give the input axis='frame' or a rate= for the nearest windows, extract shorter windows or with a shorter "
            "stride_s, or mask it in these clips with ClipInput(..., missing='mask')"
        )
    return found


def check_windows(source: ClipSource, feature: str) -> None:
    """Refuse windows that are not the same in all sessions that are read, however clips have them.

    Raises:
        ValueError: a session's windows are not in the order of their starts and ends, or two sessions have windows of
            different lengths or strides.
    """
    lengths: dict[str, int] = {}
    strides: dict[str, int] = {}
    for session in source.sessions:
        start, end = (ticks(source.store.view(session, feature, array=name)) for name in (START, END))
        earlier = np.flatnonzero((np.diff(start) < 0) | (np.diff(end) < 0))
        if len(earlier):  # then the windows of a clip need not be neighbours
            raise ValueError(
                f"{session}/{feature}: row {earlier[0] + 1} starts or ends earlier than the one before it: "
                "extract it again"
            )
        stride = int(usual_step(start, f"{session}/{feature}"))
        if len(start):
            lengths[session] = int(end[0] - start[0])
        if len(start) > 1:
            strides[session] = stride
    _check_steps(feature, lengths)
    _check_steps(feature, strides, what="how far rows of {} are apart")


def _check_steps(feature: str, steps: Mapping[str, int], what: str = "how long a row of {} is") -> None:
    if not steps:
        return
    shortest, longest = min(steps, key=steps.__getitem__), max(steps, key=steps.__getitem__)
    if steps[longest] > 1.01 * steps[shortest] + 1:  # a microsecond is rounding
        raise ValueError(
            f"sessions differ in {what.format(repr(feature))} ({steps[shortest] / PER_SECOND:g} s in {shortest}, "
            f"{steps[longest] / PER_SECOND:g} s in {longest}): extract them with one configuration"
        )


def _rows_before(first: ArrayLike, start: ArrayLike, step: ArrayLike) -> np.ndarray:
    """How many rows are missing between the start of a clip and the first row of the sound, at least 0."""
    return np.maximum((np.asarray(first) - np.asarray(start)) // step, 0)


# --- words and utterances --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpokenInClip(RowFinder):
    """The words that start in the clip, or the utterances that overlap it, in the order of their starts.

    Attributes:
        overlapping: whether rows that overlap the clip belong to it, not only those that start in it.
        device: whose seconds the feature's times are.
    """

    feature: str
    overlapping: bool
    device: TrackClock

    def find(self, store: FeatureStore, clip: Clip) -> tuple[np.ndarray, int]:
        start = store.view(clip.session_id, self.feature, array="start")
        first, stop = self.device.device_ticks(clip.session_id, (clip.start_s, clip.stop_s))
        begins = ticks(start)
        if self.overlapping:
            belongs = ticks(store.view(clip.session_id, self.feature, array="end")) > first
        else:
            belongs = begins >= first
        rows = np.flatnonzero(belongs & (begins < stop))
        return rows[np.argsort(start[rows], kind="stable")], 0

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        longest = 0
        for session, clips in index.groupby("session_id"):
            if not (store.has(session, self.feature) and self.device.is_known(session)):
                continue
            first, stop = (self.device.device_ticks(session, clips[column]) for column in ("start_s", "stop_s"))
            start = np.sort(ticks(store.view(session, self.feature, array="start")))
            if self.overlapping:
                end = np.sort(ticks(store.view(session, self.feature, array="end")))
                before = np.searchsorted(end, first, side="right")
            else:
                before = np.searchsorted(start, first)
            longest = max(longest, int((np.searchsorted(start, stop) - before).max()))
        return longest


class SpokenFinder(ABC):
    """Finds the row of a feature that is spoken at each of a clip's frames or points."""

    @abstractmethod
    def find(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        """(k,) the rows, -1 where nothing is spoken."""


@dataclass(frozen=True)
class SpokenAtFrames(SpokenFinder):
    """By the feature's own array that says it for each frame.

    Attributes:
        frame_row: the array with the row of each frame, -1 for none.
        grid: points, each of which has the row of the frame nearest to it; None for the clip's frames.
    """

    feature: str
    frame_row: str
    grid: Grid | None = None

    def find(self, store: FeatureStore, clip: Clip) -> np.ndarray:
        span, nearest, has_frame = rows_of(self.grid, clip)
        rows = store.view(clip.session_id, self.feature, span.start, span.stop, array=self.frame_row)
        if has_frame is not None and not has_frame.any():
            return np.full(len(has_frame), -1, np.int32)
        rows = rows if nearest is None else rows[nearest]
        return rows if has_frame is None else np.where(has_frame, rows, -1)


@dataclass(frozen=True)
class SpokenAtPoints(SpokenFinder):
    """By when each row begins and ends, for a microphone without a video.

    Of several rows that are spoken at once a point has the one that began last, as frames have.

    Attributes:
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
        rows = spoken_rows(start, end, points)
        rows[of_session >= ticks(clip.stop_s)] = -1
        return rows


# --- speakers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Speakers:
    """Some of a feature's speakers: the array ``speaker`` has a number for each row, the attribute ``speakers`` names.

    Attributes:
        numbers: by session, the numbers of these speakers.
    """

    feature: str
    numbers: Mapping[str, tuple[int, ...]]

    def have(self, store: FeatureStore, session_id: str, rows: np.ndarray) -> np.ndarray:
        """(n,) whether each of these rows is one of theirs."""
        if len(rows) == 0:
            return np.zeros(0, bool)
        first = int(rows.min())
        speaker = store.view(session_id, self.feature, first, int(rows.max()) + 1, array=SPEAKER)
        return np.isin(speaker[rows - first], self.numbers[session_id])


@dataclass(frozen=True)
class RowsOfSpeakers(RowFinder):
    """Of the rows that another finder finds, those of certain speakers; padded to the length of all speakers' rows."""

    finder: SpokenInClip
    speakers: Speakers

    def find(self, store: FeatureStore, clip: Clip) -> tuple[np.ndarray, int]:
        rows, _ = self.finder.find(store, clip)
        return rows[self.speakers.have(store, clip.session_id, rows)], 0

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        return self.finder.longest(store, index)


def find_speakers(source: ClipSource, requested: ClipInput, feature: str, spec: FeatureSpec, axis: Axis) -> Speakers:
    """The speakers that an input names, in every session that is read.

    Args:
        feature: its feature, as the store calls it.
        axis: what the feature's rows stand for.

    Raises:
        ValueError: the feature does not say who speaks, or there is no such speaker, or a session in which somebody
            speaks has none of them.
        StoreError: a session does not name its speakers.
    """
    if axis not in (Axis.WORD, Axis.UTTERANCE):
        refuse_speakers(requested)
    if SPEAKER not in spec.arrays or spec.arrays[SPEAKER].axis is not axis:
        raise ValueError(
            f"speakers of {requested.field!r} cannot be chosen: {feature!r} does not say who said a row (it has no "
            f"array {SPEAKER!r} with a row for each {axis}); where an older version extracted it, extract it again"
        )
    chosen = set(requested.speakers or ())
    names = {session: _speaker_names(source.store, session, feature) for session in source.sessions}
    speaker_names = list(dict.fromkeys(name for of_session in names.values() for name in of_session))
    if unknown := [name for name in requested.speakers or () if name not in speaker_names]:
        raise ValueError(f"no session has a speaker {unknown[0]!r} in {feature!r}; there are {_listed(speaker_names)}")
    lacking = [session for session, those in names.items() if those and not set(those) & chosen]
    if lacking:
        others = list(dict.fromkeys(name for session in lacking for name in names[session]))
        raise ValueError(
            f"{len(lacking)} of {len(names)} sessions have speech, but none of {_listed(requested.speakers or ())} "
            f"({', '.join(lacking[:3])}{', …' if len(lacking) > 3 else ''}: {_listed(others)}): name their speakers "
            "as well, or leave these sessions out with where"
        )
    numbers = {
        session: tuple(number for number, name in enumerate(those) if name in chosen)
        for session, those in names.items()
    }
    return Speakers(feature, numbers)


def refuse_speakers(requested: ClipInput) -> None:
    """Refuse the choice of speakers for an input whose rows are nobody's.

    Raises:
        ValueError: it names speakers.
    """
    if requested.speakers is not None:
        raise ValueError(f"speakers of {requested.field!r} cannot be chosen: only words and utterances have one")


def _speaker_names(store: FeatureStore, session: str, feature: str) -> list[str]:
    names = store.attributes(session, feature).get("speakers")
    if not isinstance(names, list):
        raise StoreError(f"{session}/{feature} has no attribute 'speakers' that names them: extract it again")
    return names


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
