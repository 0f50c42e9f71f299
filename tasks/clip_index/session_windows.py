"""The sessions of a study as its clip index needs them: the windows of each and when it was recorded, or why it gives
no clips.

:func:`look_at_sessions` goes through :data:`STEPS`. Each step sees only the sessions that earlier steps left, and a
session keeps the first reason that was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Self

import numpy as np
import pandas as pd

from storyframes.clips.window_spec import SAME_RATE, WindowSpec
from storyframes.clips.windows import SESSION_PHASE, PhaseRow, PhaseSpan, SessionSignals, windows_of
from storyframes.face_tracking import FaceRule, face_rule, may_track_a_face
from storyframes.features import CLOCK, FEATURES, in_order
from storyframes.spec import MAIN, Axis, FeatureSpec, feature_and_track, of_track
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
_DISTINCT = 256  # sets of features that sessions have; most sessions have the same
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
    stored: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by session, the features that the store has
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
        signals = read_signals(self, session_id)
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
    stored = store.stored_features(study.sessions) if store is not None else {}
    sessions = StudySessions(study, spec, store, rules, stored, progress=progress, streams=streams)
    for step in STEPS:
        sessions = step(sessions)
    return sessions


def with_wrong_tables(sessions: StudySessions) -> StudySessions:
    return sessions.without(sessions.study.excluded)


def of_several_persons(sessions: StudySessions) -> StudySessions:
    return sessions.without(sessions_of_several_persons(sessions.study, sessions.rules))


def without_frames_of_the_track(sessions: StudySessions) -> StudySessions:
    study, track = sessions.study, sessions.spec.track
    clock = of_track(CLOCK, track)
    in_time = frozenset(
        name
        for name, features in sessions.stored.items()
        if clock in features and (track == MAIN or track in study.tracks.get(name, {}))
    )
    return replace(sessions.without(dict(without_frames(study, in_time, track))), with_frame_times=in_time)


def of_unknown_length(sessions: StudySessions) -> StudySessions:
    """Look at headers, sound and transcripts where the store has no frame times. Phases of their own need no length."""
    study = sessions.study
    unknown = [name for name in sessions.left if name not in sessions.with_frame_times]
    with_video = [name for name in unknown if study.sessions[name].video]
    header_fps, lengths_s = _look_at_headers(study, with_video, sessions.streams) if with_video else ({}, {})
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
                if sessions.store is not None:
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
    study, left, spec = sessions.study, sessions.left, sessions.spec
    if spec.in_seconds:
        return sessions
    rates = sessions.header_fps
    if sessions.store is not None:
        rates = {name: own.rate for name, own in sessions.recorded.items() if own.rate is not None}
    rates = {name: rates[name] for name in left if name in rates}
    without_video = [name for name in left if name in sessions.ends_s]
    if not any(session.video for session in study.sessions.values()):
        sessions, without_video = replace(sessions, frameless=without_video), []
    usual = _usual_rate(rates, spec.fps)
    others = {name: rate for name, rate in rates.items() if abs(rate - usual) > SAME_RATE * usual}
    if not others and not without_video:
        return sessions
    return sessions.without(other_rates(others, spec, usual=usual, without=without_video))


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


def read_signals(sessions: StudySessions, session_id: str) -> SessionSignals:
    """What the store knows of a session, with the frames and faces of the track that is cut, in seconds of the session.

    Where it is not known when frames are, nothing is known of which of them a window has, and so of its faces.

    Raises:
        RowsDifferError: there are more or fewer rows of faces than frames.
        StoreError, OSError, ValueError: an array cannot be read.
    """
    store, track, stored = sessions.store, sessions.spec.track, sessions.stored.get(session_id, frozenset())
    header_fps = sessions.header_fps.get(session_id)
    if store is None:
        return SessionSignals(header_fps=header_fps)
    named = {"audio_time": (_SOUND, "time"), "word_start": (_WORDS, "start")}
    arrays = {name: array for name, array in named.items() if array[0] in stored}
    faces: _Faces | None = None
    if session_id in sessions.with_frame_times:
        arrays["time"] = of_track(CLOCK, track), "time"
        faces = _find_faces(store, session_id, _face_features(stored, track))
    of_faces = [(faces.stored, array) for array in faces.arrays] if faces else []
    rows = store.views(session_id, [*arrays.values(), *of_faces])
    read = dict(zip(arrays, rows, strict=False))
    face_rows = {array: values for (_, array), values in zip(of_faces, rows[len(arrays) :], strict=True)}
    time, tracked = read.get("time"), None
    if time is not None and faces:
        tracked = faces.rule.tracked(face_rows.__getitem__)
        if len(time) != len(tracked):
            raise RowsDifferError(
                f"it has {len(time)} frames, but {faces.stored} has {len(tracked)} rows, of another recording: extract "
                f"{faces.feature} again"
            )
    if time is not None and track != MAIN:
        time = sessions.study.clock(session_id, track).to_session(time)
    return SessionSignals(
        time=time,
        tracked=tracked,
        confidence=face_rows.get(_CONFIDENCE) if faces and faces.has_confidence else None,
        audio_time=read.get("audio_time"),
        word_start=read.get("word_start"),
        header_fps=header_fps if time is None else None,
    )


@dataclass(frozen=True)
class _Faces:
    """Where a feature has in which of a track's frames there is a face."""

    feature: str  # without the track
    stored: str  # as the store calls it
    rule: FaceRule
    has_confidence: bool

    @classmethod
    def of(cls, stored: str, spec: FeatureSpec) -> Self | None:
        """Those of a feature; None where it tracks no face."""
        rule = face_rule(spec)
        confidence = spec.arrays.get(_CONFIDENCE)
        has_confidence = confidence is not None and confidence.axis is Axis.FRAME and not confidence.shape
        return None if rule is None else cls(spec.name, stored, rule, has_confidence)

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that say it."""
        confidence = _CONFIDENCE if self.has_confidence else ""
        named = (self.rule.array, self.rule.lost_where, self.rule.skipped_where, confidence)
        return tuple(dict.fromkeys(name for name in named if name))


def _find_faces(store: FeatureStore, session_id: str, features: Mapping[str, _Faces | None]) -> _Faces | None:
    """Of the first feature that tracks a face, in the order in which features are shown."""
    for stored, faces in features.items():
        if faces or (faces := _Faces.of(stored, store.spec(session_id, stored))):
            return faces
    return None


@lru_cache(_DISTINCT)
def _face_features(stored: frozenset[str], track: str) -> Mapping[str, _Faces | None]:
    """The features of a track that may track a face; None of those of which only the store says whether they do."""
    features = [feature for feature, of in map(feature_and_track, in_order(stored)) if of == track]
    may = {of_track(feature, track): FEATURES.get(feature) for feature in features if may_track_a_face(feature)}
    return {name: _Faces.of(name, spec) if spec else None for name, spec in may.items()}


def _recorded(sessions: StudySessions, session_id: str, signals: SessionSignals) -> Recorded:
    study, store, time = sessions.study, sessions.store, signals.time
    tracks = {}
    if store is not None and (others := other_tracks(study, session_id)):
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


def _usual_rate(rates: Mapping[str, float], assumed: float) -> float:
    """The rate that most sessions have; of rates that are as frequent, the one nearest to ``assumed``."""
    if not rates:
        return assumed
    ordered = np.sort(list(rates.values()))
    distinct = np.unique(ordered)
    alike = np.searchsorted(ordered, distinct * (1 + SAME_RATE), "right")
    alike = alike - np.searchsorted(ordered, distinct * (1 - SAME_RATE))
    return float(distinct[np.lexsort((-distinct, -np.abs(distinct - assumed), alike))[-1]])
