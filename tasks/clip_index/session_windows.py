"""The windows of each session, and when it was recorded: read of the store where something of it changed since the
clip index was last made, as they were found then where nothing did.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from storyframes.clips.window_spec import WINDOW_COLUMNS, WindowSpec
from storyframes.clips.windows import WINDOW_TYPE, WINDOWS_SCHEMA, PhaseRow, SessionSignals, windows_of
from storyframes.face_tracking import face_rule, may_track_a_face
from storyframes.features import CLOCK, FEATURES, in_order
from storyframes.spec import MAIN, Axis, of_track
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.times import stored_clock
from tasks.clip_index.tracks import Span, other_tracks, recorded_s
from tasks.study.load import Study

_RULE = 4  # raise it whenever the same versions, phases and settings make another row than before
_AT_ONCE = 500  # sessions: so many become one piece of the table
_SOUND, _WORDS = "opensmile", "glove"
_CONFIDENCE = "confidence"
_NULLABLE = {pa.int32(): pd.Int32Dtype(), pa.float32(): pd.Float32Dtype(), pa.float64(): pd.Float64Dtype()}


class RowsDifferError(Exception):
    """Two features of a session are not of the same frames."""


@dataclass(frozen=True)
class Recorded:
    """When a session was recorded, in its seconds, as far as the store knows."""

    frames: int | None = None  # how many there are of the track that is cut; None where their times are not known
    frame_s: Span | None = None  # when the first and the last of them are; None where there is none
    rate: float | None = None  # frames per second; None of fewer than two frames
    sound_s: Span | None = None  # when the first and the last row of sound are; None where there is none
    # by track, from when to when it recorded; empty where the session has no other track than its own
    tracks: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionWindows:
    """What was found of the sessions."""

    table: pa.Table  # a row for each (:data:`storyframes.clips.windows.WINDOWS_SCHEMA`), by their ids
    unreadable: Mapping[str, str]  # the sessions that have no row, and why

    def recorded(self) -> dict[str, Recorded]:
        """By session when it was recorded."""
        columns = [name for name in self.table.schema.names if name not in ("seen", "windows")]
        rows = self.table.select(columns).to_pylist()
        return {
            row["session_id"]: Recorded(
                row["frames"],
                _span(row["first_s"], row["last_s"]),
                row["rate"],
                _span(row["sound_first_s"], row["sound_last_s"]),
                {track: (first, end) for track, (first, end) in json.loads(row["recorded"] or "{}").items()},
            )
            for row in rows
        }

    def windows(self, without: Sequence[str]) -> pd.DataFrame:
        """The windows of all sessions but these, with :data:`storyframes.clips.window_spec.WINDOW_COLUMNS`."""
        left_out = pc.is_in(self.table["session_id"], value_set=pa.array(without, pa.string()))
        table = self.table.filter(pc.invert(left_out))
        counts = pc.list_value_length(table["windows"]).to_numpy()
        windows = pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(chunk.flatten()) for chunk in table["windows"].chunks],
            pa.schema(list(WINDOW_TYPE)),
        )
        places = pa.array(np.repeat(np.arange(len(table)), counts))
        windows = windows.add_column(0, "session_id", table["session_id"].take(places))
        return windows.to_pandas(types_mapper=_NULLABLE.get).astype(dict(WINDOW_COLUMNS))


def find_windows(
    study: Study,
    spec: WindowSpec,
    store: FeatureStore | None,
    phases: Mapping[str, Sequence[PhaseRow]],
    header_fps: Mapping[str, float],
    ends_s: Mapping[str, float],
    known: pa.Table,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> SessionWindows:
    """The windows of sessions; one that cannot be read costs its own alone.

    Args:
        store: the study's features; None makes the windows from the tables alone.
        phases: of the sessions that are wanted.
        header_fps: by session whose frame times are not known, frames per second as its recording's header has them.
        ends_s: by session without a video, when it ends.
        known: what was found before, see :mod:`storyframes.clips.windows`.
    """
    row_of = {session_id: row for row, session_id in enumerate(known["session_id"].to_pylist())}
    marks = known["seen"].to_pylist()
    kept: list[int] = []
    changed: dict[str, bytes] = {}
    settings = [_RULE, spec.window, spec.stride, spec.window_s, spec.stride_s, spec.fps, spec.phases, spec.track]
    for session_id in sorted(phases):
        mark = _mark(settings, study, store, session_id, phases[session_id], header_fps.get(session_id))
        if session_id in ends_s:
            mark = hashlib.blake2b(mark + repr(ends_s[session_id]).encode(), digest_size=16).digest()
        row = row_of.get(session_id)
        if row is not None and marks[row] == mark:
            kept.append(row)
        else:
            changed[session_id] = mark
    if not changed and len(kept) == len(known):
        return SessionWindows(known, {})
    unreadable: dict[str, str] = {}
    numbers = {session_id: number for number, session_id in enumerate(changed, start=1)}

    def read(some: Sequence[str]) -> pa.RecordBatch:
        rows: list[dict[str, Any]] = []

        def with_signals() -> Iterator[tuple[PhaseRow, SessionSignals]]:
            for session_id in some:
                progress(session_id, numbers[session_id], len(changed))
                try:
                    signals = read_signals(study, store, session_id, spec.track, header_fps.get(session_id))
                    signals = replace(signals, end_s=ends_s.get(session_id))
                    recorded = _recorded(study, store, session_id, signals)
                except RowsDifferError as error:
                    unreadable[session_id] = str(error)
                    continue
                except (StoreError, OSError, ValueError) as error:
                    reason = str(error) if isinstance(error, StoreError) else f"an array cannot be read ({error})"
                    unreadable[session_id] = f"{reason}: 'storyframes verify' says what is damaged"
                    continue
                finally:
                    if store:
                        store.let_go(session_id)  # or memory grows with the number of sessions
                rows.append({"session_id": session_id, "seen": changed[session_id]} | recorded)
                yield from ((phase, signals) for phase in phases[session_id])

        windows = windows_of(with_signals(), spec)
        return _batch(rows, windows)

    order = list(changed)
    new = [read(order[first : first + _AT_ONCE]) for first in range(0, len(order), _AT_ONCE)]
    table = pa.concat_tables([known.take(pa.array(kept, pa.int64())), pa.Table.from_batches(new, WINDOWS_SCHEMA)])
    return SessionWindows(table.take(pc.sort_indices(table["session_id"])), unreadable)


def knows_frames(study: Study, store: FeatureStore | None, session_id: str, track: str) -> bool:
    """Whether the store knows when the frames of a track are."""
    has_it = track == MAIN or track in study.tracks.get(session_id, {})
    return store is not None and has_it and store.has(session_id, of_track(CLOCK, track))


def read_signals(
    study: Study, store: FeatureStore | None, session_id: str, track: str, header_fps: float | None
) -> SessionSignals:
    """What the store knows of a session, with the frames and faces of a track of it, in seconds of the session.

    Where it is not known when frames are, nothing is known of which of them a window has, and so of its faces.

    Raises:
        RowsDifferError: there are more or fewer rows of faces than frames.
        StoreError, OSError, ValueError: an array cannot be read.
    """
    if store is None:
        return SessionSignals(header_fps=header_fps)

    def read(feature: str, array: str, of: str = MAIN) -> np.ndarray | None:
        name = of_track(feature, of)
        return store.read(session_id, name, array=array) if store.has(session_id, name) else None

    time = read(CLOCK, "time", track) if knows_frames(study, store, session_id, track) else None
    faces = _Faces() if time is None else _read_faces(store, session_id, track)
    if time is not None and faces.tracked is not None and len(time) != len(faces.tracked):
        raise RowsDifferError(
            f"it has {len(time)} frames, but {of_track(faces.feature, track)} has {len(faces.tracked)} rows, of "
            f"another recording: extract {faces.feature} again"
        )
    if time is not None and track != MAIN:
        time = study.clock(session_id, track).to_session(time)
    return SessionSignals(
        time=time,
        tracked=faces.tracked,
        confidence=faces.confidence,
        audio_time=read(_SOUND, "time"),
        word_start=read(_WORDS, "start"),
        header_fps=header_fps if time is None else None,
    )


@dataclass(frozen=True)
class _Faces:
    """What a feature says of the faces in a track's frames."""

    feature: str = ""  # without the track; empty where no feature tracks a face
    tracked: np.ndarray | None = None  # (T,) float32, see :meth:`storyframes.face_tracking.FaceRule.tracked`
    confidence: np.ndarray | None = None  # (T,) 0..1; None where the feature has none


def _read_faces(store: FeatureStore, session_id: str, track: str) -> _Faces:
    """Of the first feature that tracks a face, in the order in which features are shown."""
    for feature in _face_features(store, session_id, track):
        stored = of_track(feature, track)
        spec = FEATURES[feature] if feature in FEATURES else store.spec(session_id, stored)
        if rule := face_rule(spec):
            rows = partial(_rows, store, session_id, stored)
            confidence = spec.arrays.get(_CONFIDENCE)
            has_confidence = confidence is not None and confidence.axis is Axis.FRAME and not confidence.shape
            return _Faces(feature, rule.tracked(rows), rows(_CONFIDENCE) if has_confidence else None)
    return _Faces()


def _rows(store: FeatureStore, session_id: str, feature: str, array: str) -> np.ndarray:
    return store.read(session_id, feature, array=array)


def _face_features(store: FeatureStore, session_id: str, track: str) -> list[str]:
    """The features of a track that may track a face, by their names; which of them do is read later."""
    return [feature for feature in in_order(store.features(session_id, track)) if may_track_a_face(feature)]


def _mark(
    settings: list[Any],
    study: Study,
    store: FeatureStore | None,
    session_id: str,
    phases: Sequence[PhaseRow],
    header_fps: float | None,
) -> bytes:
    """16 bytes that stand for everything that a session's row is made of."""
    others = other_tracks(study, session_id)
    track = settings[-1]
    faces = _face_features(store, session_id, track) if store else []
    read = {of_track(CLOCK, track), *(of_track(feature, track) for feature in faces), _SOUND, _WORDS}
    if others:
        read |= {of_track(feature, of) for feature in (CLOCK, _SOUND) for of in (MAIN, *others)}
    made_of = [
        *settings,
        [(phase.phase, float(phase.start_s), float(phase.end_s)) for phase in phases],
        [(name, store.version(session_id, name)) for name in sorted(read)] if store else None,
        [(name, stored_clock(study.clock(session_id, name))) for name in others],
        header_fps,
    ]
    return hashlib.blake2b(json.dumps(made_of).encode(), digest_size=16).digest()


def _recorded(
    study: Study, store: FeatureStore | None, session_id: str, signals: SessionSignals
) -> dict[str, float | int | str | None]:
    """The columns that say when it was recorded."""
    time, sound = signals.time, signals.audio_time
    tracks = {}
    if store and (others := other_tracks(study, session_id)):
        spans = {track: recorded_s(study, store, session_id, track) for track in (MAIN, *others)}
        tracks = {track: span for track, span in spans.items() if span}
    return {
        "frames": None if time is None else len(time),
        "first_s": _end(time, 0),
        "last_s": _end(time, -1),
        "rate": signals.rate(0) if time is not None and len(time) > 1 else None,
        "sound_first_s": _end(sound, 0),
        "sound_last_s": _end(sound, -1),
        "recorded": json.dumps(tracks) if tracks else None,
    }


def _end(time: np.ndarray | None, place: int) -> float | None:
    return None if time is None or not len(time) else float(time[place])


def _span(first_s: float | None, last_s: float | None) -> Span | None:
    return None if first_s is None or last_s is None else (first_s, last_s)


def _batch(rows: Sequence[Mapping[str, Any]], windows: pd.DataFrame) -> pa.RecordBatch:
    """Rows of the table; the windows are in the order of the rows."""
    of_session = windows["session_id"].value_counts(sort=False)
    ends = np.cumsum([0, *(of_session.get(row["session_id"], 0) for row in rows)])
    fields = list(WINDOW_TYPE)
    table = pa.Table.from_pandas(windows, pa.schema(fields), preserve_index=False).combine_chunks()
    structs = pa.StructArray.from_arrays([pa.concat_arrays(column.chunks) for column in table.columns], fields=fields)
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs)
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in WINDOWS_SCHEMA.names if name != "windows"}
    return pa.RecordBatch.from_pydict(columns | {"windows": lists}, WINDOWS_SCHEMA)
