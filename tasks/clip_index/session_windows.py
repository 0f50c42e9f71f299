"""The sessions of a study as its clip index needs them: the windows of each and when it was recorded, or why it gives
no clips.

:func:`look_at_sessions` goes through :data:`STEPS`. Each step sees only the sessions that earlier steps left, and a
session keeps the first reason that was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd

from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SESSION_PHASE, PhaseRow, PhaseSpan, SessionSignals, windows_of
from storyframes.face_tracking import face_rule, may_track_a_face
from storyframes.features import CLOCK, FEATURES, in_order
from storyframes.spec import MAIN, Axis, of_track
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from tasks.clip_index.label_rules import LabelRule
from tasks.clip_index.labels import sessions_of_several_persons
from tasks.clip_index.remarks import other_rates
from tasks.clip_index.tracks import (
    Span,
    apart_from_the_session,
    ends_without_frames,
    other_tracks,
    recorded_s,
    without_frames,
)
from tasks.media.container import FIRST_STREAMS, StreamChoice
from tasks.study.load import Study, StudyFileError

Progress = Callable[[str, int, int], None]
_AT_ONCE = 500  # sessions: their windows become one data frame
_SOUND, _WORDS = "opensmile", "glove"
_CONFIDENCE = "confidence"
_NO_LENGTH = (
    "it has no video, and neither its sound nor its transcript says how long it is: 'storyframes check' says what is "
    "wrong with them"
)


class RowsDifferError(Exception):
    """Two features of a session are not of the same frames."""


@dataclass(frozen=True)
class Recorded:
    """When a session was recorded, in its seconds, as far as the store knows."""

    frame_s: Span | None = None  # when the first and the last frame of the track that is cut are; None where unknown
    rate: float | None = None  # frames per second; None of fewer than two frames
    sound_s: Span | None = None  # when the first and the last row of sound are; None where there is none
    # by track, from when to when it recorded; empty where the session has no other track than its own
    tracks: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True)
class StudySessions:
    """What is known of a study's sessions. Steps change nothing in it: each returns another one."""

    study: Study
    spec: WindowSpec
    store: FeatureStore | None
    rules: Mapping[str, LabelRule]
    excluded: Mapping[str, str] = field(default_factory=dict)  # sessions that give no clips, and why
    with_frame_times: frozenset[str] = frozenset()  # sessions whose frame times the store has
    # of sessions without frame times: frames per second and lengths as headers say, and ends of those without a video
    header_fps: Mapping[str, float] = field(default_factory=dict)
    lengths_s: Mapping[str, float] = field(default_factory=dict)
    ends_s: Mapping[str, float] = field(default_factory=dict)
    phases: Mapping[str, Sequence[PhaseRow]] = field(default_factory=dict)
    windows: pd.DataFrame = field(default_factory=pd.DataFrame)  # of all sessions that could be read
    recorded: Mapping[str, Recorded] = field(default_factory=dict)
    # sessions of a study without any video where windows count frames: nothing is wrong with them
    frameless: Sequence[str] = ()
    progress: Progress = lambda *_: None
    streams: StreamChoice = FIRST_STREAMS  # of recordings whose headers are looked at

    @property
    def left(self) -> list[str]:
        """The sessions that are not excluded, in the study's order."""
        return [session_id for session_id in self.study.sessions if session_id not in self.excluded]

    def without(self, reasons: Mapping[str, str]) -> StudySessions:
        """The same with these sessions excluded; a session that is excluded already keeps its reason."""
        new = {session_id: reason for session_id, reason in reasons.items() if session_id not in self.excluded}
        return replace(self, excluded={**self.excluded, **new})

    def signals(self, session_id: str) -> SessionSignals:
        """The signals from which a session's windows are made.

        Raises:
            RowsDifferError, StoreError, OSError, ValueError: see :func:`read_signals`.
        """
        signals = read_signals(self.study, self.store, session_id, self.spec.track, self.header_fps.get(session_id))
        return replace(signals, end_s=self.ends_s.get(session_id))


Step = Callable[[StudySessions], StudySessions]


def look_at_sessions(
    study: Study,
    spec: WindowSpec,
    store: FeatureStore | None,
    rules: Mapping[str, LabelRule],
    progress: Progress,
    streams: StreamChoice,
) -> StudySessions:
    """Cut the sessions of a study into windows; what is wrong with one session costs its own windows alone.

    Args:
        store: the study's features; None makes the windows from the tables and the recordings' headers.
        progress: called with (session_id, number, how many) before each session that is read.
        streams: which picture of files that have several.
    """
    sessions = StudySessions(study, spec, store, rules, progress=progress, streams=streams)
    for step in STEPS:
        sessions = step(sessions)
    return sessions


def with_wrong_tables(sessions: StudySessions) -> StudySessions:
    return sessions.without(sessions.study.excluded)


def of_several_persons(sessions: StudySessions) -> StudySessions:
    return sessions.without(sessions_of_several_persons(sessions.study, sessions.rules))


def without_frames_of_the_track(sessions: StudySessions) -> StudySessions:
    study, track = sessions.study, sessions.spec.track
    in_time = frozenset(name for name in study.sessions if knows_frames(study, sessions.store, name, track))
    return replace(sessions.without(dict(without_frames(study, in_time, track))), with_frame_times=in_time)


def of_unknown_length(sessions: StudySessions) -> StudySessions:
    """Look at headers, sound and transcripts where the store has no frame times. Phases of their own need no length."""
    study = sessions.study
    unknown = [name for name in sessions.left if name not in sessions.with_frame_times]
    with_video = [name for name in unknown if study.sessions[name].video]
    header_fps, lengths_s = _look_at_headers(study, with_video, sessions.streams)
    ends_s = ends_without_frames(study, sessions.store, [name for name in unknown if not study.sessions[name].video])
    sessions = replace(sessions, header_fps=header_fps, lengths_s=lengths_s, ends_s=ends_s)
    endless = [name for name, end_s in ends_s.items() if math.isinf(end_s)]
    return sessions if study.phases else sessions.without(dict.fromkeys(endless, _NO_LENGTH))


def unreadable(sessions: StudySessions) -> StudySessions:
    """Read the sessions and cut their phases into windows."""
    phases = _phases(sessions)
    order = sorted(phases)
    recorded: dict[str, Recorded] = {}
    reasons: dict[str, str] = {}
    numbers = {session_id: number for number, session_id in enumerate(order, start=1)}

    def phases_with_signals(some: Sequence[str]) -> Iterator[tuple[PhaseRow, SessionSignals]]:
        for session_id in some:
            sessions.progress(session_id, numbers[session_id], len(order))
            try:
                signals = sessions.signals(session_id)
                recorded[session_id] = _recorded(sessions, session_id, signals)
            except RowsDifferError as error:
                reasons[session_id] = str(error)
                continue
            except (StoreError, OSError, ValueError) as error:
                reason = str(error) if isinstance(error, StoreError) else f"an array cannot be read ({error})"
                reasons[session_id] = f"{reason}: 'storyframes verify' says what is damaged"
                continue
            finally:
                if sessions.store:
                    sessions.store.let_go(session_id)  # or memory grows with the number of sessions
            yield from ((phase, signals) for phase in phases[session_id])

    pieces = [order[first : first + _AT_ONCE] for first in range(0, len(order), _AT_ONCE)] or [[]]
    windows = pd.concat([windows_of(phases_with_signals(piece), sessions.spec) for piece in pieces], ignore_index=True)
    return replace(sessions, phases=phases, windows=windows, recorded=recorded).without(reasons)


def apart_from_their_tracks(sessions: StudySessions) -> StudySessions:
    reasons = {name: apart_from_the_session(recorded.tracks) for name, recorded in sessions.recorded.items()}
    return sessions.without({name: reason for name, reason in reasons.items() if reason})


def of_another_rate(sessions: StudySessions) -> StudySessions:
    """Where windows count frames: sessions of another rate than most have, and those without a video."""
    study, left = sessions.study, sessions.left
    rates = sessions.header_fps
    if sessions.store:
        rates = {name: own.rate for name, own in sessions.recorded.items() if own.rate is not None}
    without_video = [name for name in left if name in sessions.ends_s]
    if not sessions.spec.in_seconds and not any(session.video for session in study.sessions.values()):
        sessions, without_video = replace(sessions, frameless=without_video), []
    return sessions.without(
        other_rates({name: rates[name] for name in left if name in rates}, without_video, sessions.spec)
    )


STEPS: tuple[Step, ...] = (
    with_wrong_tables,
    of_several_persons,
    without_frames_of_the_track,
    of_unknown_length,
    unreadable,
    apart_from_their_tracks,
    of_another_rate,
)
"""The steps that exclude sessions, each named after the sessions that it excludes. The order is that of their costs and
needs: tables and labels need no file, so a session that they exclude is never opened; headers come next, because a
session without phases is cut to its length; then arrays are read, which says when tracks recorded. The rate is last,
because it compares sessions with each other: one that gives no clips has no part in what most sessions have."""


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


def _recorded(sessions: StudySessions, session_id: str, signals: SessionSignals) -> Recorded:
    study, store, time = sessions.study, sessions.store, signals.time
    tracks = {}
    if store and (others := other_tracks(study, session_id)):
        spans = {track: recorded_s(study, store, session_id, track) for track in (MAIN, *others)}
        tracks = {track: span for track, span in spans.items() if span}
    rate = signals.rate(0) if time is not None and len(time) > 1 else None
    return Recorded(_span(time), rate, _span(signals.audio_time), tracks)


def _span(time: np.ndarray | None) -> Span | None:
    return None if time is None or not len(time) else (float(time[0]), float(time[-1]))


def _phases(sessions: StudySessions) -> dict[str, list[PhaseRow]]:
    """The phases of the sessions that are left; without phases each is one, if it is known how long it is."""
    phases: dict[str, list[PhaseRow]] = {session_id: [] for session_id in sessions.left}
    if sessions.study.phases:
        for phase in sessions.study.phases:
            if phase.session_id in phases:
                phases[phase.session_id].append(phase)
        return phases
    lengths_s = {**sessions.lengths_s, **sessions.ends_s}
    for session_id in phases:
        if session_id in sessions.with_frame_times:
            phases[session_id] = [PhaseSpan(session_id, SESSION_PHASE, -math.inf, math.inf)]
        elif math.isfinite(lengths_s.get(session_id, math.inf)):
            phases[session_id] = [PhaseSpan(session_id, SESSION_PHASE, 0.0, lengths_s[session_id])]
    return phases


def _look_at_headers(
    study: Study, sessions: Sequence[str], streams: StreamChoice
) -> tuple[dict[str, float], dict[str, float]]:
    """The frames per second and the lengths that the headers of recordings say, by session."""
    from tasks.media.container import RecordingError
    from tasks.media.video_header import read_rate  # PyAV, which is not needed where all sessions have their times

    rates, lengths_s = {}, {}
    for session_id in sessions:
        try:
            fps, length_s = read_rate(study.path(study.sessions[session_id].video or ""), streams)
        except (RecordingError, StudyFileError, OSError):
            continue  # extraction and check say what is wrong with it
        if fps:
            rates[session_id] = fps
        if length_s:
            lengths_s[session_id] = length_s
    return rates, lengths_s
