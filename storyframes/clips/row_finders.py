"""Which rows of a feature belong to a clip, where rows are not frames, and how many the longest clip of a study has.

Padded inputs are as long as that, for every split and filter. Times are compared as whole microseconds
(:mod:`storyframes.times`), on the clock of the device whose rows they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from storyframes.array_roles import SPEAKER
from storyframes.clips.inputs import Clip, ClipInput, ClipSource
from storyframes.features import AUDIO_HOP_S
from storyframes.spec import Axis, FeatureSpec
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.times import PER_SECOND, SESSIONS_OWN, TrackClock, ticks


class RowFinder(ABC):
    """Says which rows of a feature belong to a clip."""

    @abstractmethod
    def find(self, store: FeatureStore, clip: Clip) -> tuple[slice | np.ndarray, int]:
        """The clip's rows in their order, and how many rows too late the first begins (for what has a fixed step)."""

    def long_run(self, clip: Clip) -> slice | None:
        """The clip's rows, where it is known without reading and they are so many that announcing them is worth it."""
        return None

    @abstractmethod
    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        """Most rows that a clip of the index has."""


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
        if clip.audio_stop == 0:  # there is none before its end, and maybe none at all
            return rows, 0
        (first_s,) = store.view(clip.session_id, self.feature, 0, 1, array="time")
        return rows, int(_rows_before(ticks(first_s), ticks(clip.start_s), ticks(AUDIO_HOP_S)))

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        """Most rows from the start of a clip of the index to its last row of sound."""
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
class TimedSound(RowFinder):
    """The rows whose ``time`` lies in the clip, looked up once for all clips of the index.

    Attributes:
        windows: by session, of each clip its first frame, its first row, the row after its last, and the rows before.
    """

    windows: Mapping[str, np.ndarray]

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        """Most rows from the start of a clip to its last row."""
        lengths = [int((rows[:, 3] + rows[:, 2] - rows[:, 1]).max()) for rows in self.windows.values() if len(rows)]
        return max(lengths, default=0)

    def long_run(self, clip: Clip) -> slice:
        return self.find(None, clip)[0]

    def find(self, store: FeatureStore | None, clip: Clip) -> tuple[slice, int]:
        windows = self.windows[clip.session_id]
        _, first, stop, before = windows[int(np.searchsorted(windows[:, 0], clip.start_frame))].tolist()
        return slice(first, stop), before


def timed_sound(
    store: FeatureStore, index: pd.DataFrame, feature: str, device: TrackClock = SESSIONS_OWN
) -> TimedSound:
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
        distances = np.diff(time)
        if (distances < 0).any():
            row = int(np.argmax(distances < 0)) + 1
            raise ValueError(f"{session}/{feature}/time: row {row} is earlier than the one before it: extract it again")
        if len(distances):
            steps[session] = int(np.median(distances))
        clips = clips.drop_duplicates("start_frame").sort_values("start_frame")
        start_s, stop_s = (device.device_ticks(session, clips[column]) for column in ("start_s", "stop_s"))
        start, stop = np.searchsorted(time, start_s), np.searchsorted(time, stop_s)
        late = (start == 0) & (stop > 0) & bool(steps.get(session))
        before = np.zeros(len(clips), np.int64)
        if late.any():
            before[late] = _rows_before(time[0], start_s[late], steps[session])
        windows[session] = np.column_stack([clips["start_frame"], start, stop, before])
    _check_steps(feature, steps)
    return TimedSound(windows)


def _check_steps(feature: str, steps: Mapping[str, int]) -> None:
    if not steps:
        return
    shortest, longest = min(steps, key=steps.__getitem__), max(steps, key=steps.__getitem__)
    if steps[longest] > 1.01 * steps[shortest] + 1:  # a microsecond is rounding
        raise ValueError(
            f"sessions differ in how long a row of {feature!r} is ({steps[shortest] / PER_SECOND:g} s in {shortest}, "
            f"{steps[longest] / PER_SECOND:g} s in {longest}): extract them with one configuration"
        )


def _rows_before(first: npt.ArrayLike, start: npt.ArrayLike, step: npt.ArrayLike) -> np.ndarray:
    """How many rows lie between the start of a clip and the first row of the sound; 0 where sound comes first."""
    return np.maximum((np.asarray(first) - np.asarray(start)) // step, 0)


# --- words and utterances --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordsStarting(RowFinder):
    """The words that start in the clip, in the order of their starts."""

    feature: str
    device: TrackClock = SESSIONS_OWN

    def find(self, store: FeatureStore, clip: Clip) -> tuple[np.ndarray, int]:
        start = store.view(clip.session_id, self.feature, array="start")
        begins = ticks(start)
        first, stop = self.device.device_ticks(clip.session_id, (clip.start_s, clip.stop_s))
        return _in_order((begins >= first) & (begins < stop), start), 0

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        """Most words that start in a clip of the index."""

        def count(start_s: np.ndarray, stop_s: np.ndarray, start: np.ndarray) -> np.ndarray:
            return np.searchsorted(start, stop_s) - np.searchsorted(start, start_s)

        return _longest(store, index, self.feature, self.device, ("start",), count)


@dataclass(frozen=True)
class UtterancesOverlapping(RowFinder):
    """The utterances that overlap the clip, in the order of their starts."""

    feature: str
    device: TrackClock = SESSIONS_OWN

    def find(self, store: FeatureStore, clip: Clip) -> tuple[np.ndarray, int]:
        start = store.view(clip.session_id, self.feature, array="start")
        end = store.view(clip.session_id, self.feature, array="end")
        first, stop = self.device.device_ticks(clip.session_id, (clip.start_s, clip.stop_s))
        return _in_order((ticks(start) < stop) & (ticks(end) > first), start), 0

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        """Most utterances that overlap a clip of the index."""

        def count(start_s: np.ndarray, stop_s: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
            return np.searchsorted(start, stop_s) - np.searchsorted(end, start_s, side="right")

        return _longest(store, index, self.feature, self.device, ("start", "end"), count)


def _in_order(chosen: np.ndarray, start: np.ndarray) -> np.ndarray:
    rows = np.flatnonzero(chosen)
    return rows[np.argsort(start[rows], kind="stable")]


def _longest(
    store: FeatureStore,
    index: pd.DataFrame,
    feature: str,
    device: TrackClock,
    clocks: tuple[str, ...],
    count: Callable[..., np.ndarray],
) -> int:
    longest = 0
    for session, clips in index.groupby("session_id"):
        if store.has(session, feature) and device.is_known(session):
            times = [np.sort(ticks(store.view(session, feature, array=clock))) for clock in clocks]
            ends = [device.device_ticks(session, clips[column]) for column in ("start_s", "stop_s")]
            longest = max(longest, int(count(*ends, *times).max()))
    return longest


@dataclass(frozen=True)
class Speakers:
    """Tells which rows of a feature are of certain speakers.

    Attributes:
        feature: the feature.
        numbers: by session, what ``speaker`` is in their rows.
    """

    feature: str
    numbers: Mapping[str, tuple[int, ...]]

    def have(self, store: FeatureStore, session_id: str, rows: np.ndarray) -> np.ndarray:
        """(n,) whether each of these rows is theirs."""
        if len(rows) == 0:
            return np.zeros(0, bool)
        first = int(rows.min())
        speaker = store.view(session_id, self.feature, first, int(rows.max()) + 1, array=SPEAKER)
        return np.isin(speaker[rows - first], self.numbers[session_id])


@dataclass(frozen=True)
class RowsOfSpeakers(RowFinder):
    """Of the rows that another finder finds, those of certain speakers. Padded as if all spoke."""

    finder: RowFinder
    speakers: Speakers

    def find(self, store: FeatureStore, clip: Clip) -> tuple[np.ndarray, int]:
        rows, _ = self.finder.find(store, clip)
        assert isinstance(rows, np.ndarray)  # words and utterances need not lie side by side
        return rows[self.speakers.have(store, clip.session_id, rows)], 0

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        return self.finder.longest(store, index)


def find_speakers(
    source: ClipSource, wanted: ClipInput, feature: str, spec: FeatureSpec, axis: Axis
) -> Speakers | None:
    """The speakers that ``wanted`` names, in every session that is read; None where it names none.

    Args:
        source: what to read.
        wanted: the input.
        feature: its feature, as the store calls it.
        spec: of it.
        axis: what its rows stand for.

    Raises:
        ValueError: the feature does not tell speakers, or there is no such speaker, or a session in which somebody
            speaks has none of them.
        StoreError: a session says nothing of its speakers.
    """
    if wanted.speakers is None:
        return None
    if axis not in (Axis.WORD, Axis.UTTERANCE):
        refuse_speakers(wanted)
    if SPEAKER not in spec.arrays or spec.arrays[SPEAKER].axis is not axis:
        raise ValueError(
            f"speakers of {wanted.field!r} cannot be chosen: {feature!r} does not tell who said a row (it has no "
            f"array {SPEAKER!r} with a row for each {axis}); where an older version extracted it, extract it again"
        )
    there = {session: _named(source.store, session, feature) for session in source.sessions}
    known = list(dict.fromkeys(name for names in there.values() for name in names))
    if unknown := [name for name in wanted.speakers if name not in known]:
        raise ValueError(f"no session has a speaker {unknown[0]!r} in {feature!r}; there are {_listed(known)}")
    if lacking := [session for session, names in there.items() if names and not set(names) & set(wanted.speakers)]:
        others = list(dict.fromkeys(name for session in lacking for name in there[session]))
        raise ValueError(
            f"{len(lacking)} of {len(there)} sessions have speech, but none of {_listed(wanted.speakers)} "
            f"({', '.join(lacking[:3])}{', …' if len(lacking) > 3 else ''}: {_listed(others)}): name who is meant "
            "there as well, or leave these sessions out with where"
        )
    return Speakers(
        feature,
        {
            session: tuple(number for number, name in enumerate(names) if name in wanted.speakers)
            for session, names in there.items()
        },
    )


def refuse_speakers(wanted: ClipInput) -> None:
    """Say that an input's rows are nobody's.

    Raises:
        ValueError: it names speakers.
    """
    if wanted.speakers is not None:
        raise ValueError(f"speakers of {wanted.field!r} cannot be chosen: only words and utterances have one")


def _named(store: FeatureStore, session: str, feature: str) -> list[str]:
    names = store.attributes(session, feature).get("speakers")
    if not isinstance(names, list):
        raise StoreError(f"{session}/{feature} has no attribute 'speakers' that names them: extract it again")
    return names


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
