"""The tracks of a study as its clip index needs them: how their clocks run, and when each recorded."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from storyframes.features import AUDIO_HOP_S, CLOCK
from storyframes.spec import MAIN, of_track
from storyframes.times import last_frame_end_s
from tasks.study.load import Study, StudyFileError
from tasks.study.transcript import TranscriptError, read_transcript

if TYPE_CHECKING:
    import pandas as pd

    from storyframes.store.feature_store import FeatureStore

Span = tuple[float, float]
"""From when to when, in seconds of the session."""

_SOUND = "opensmile"  # whose rows say when a track without frames recorded
_PITCH_S = 0.06  # of sound in its every row, also in the last
_WORDS, _UTTERANCES = "glove", "sbert"  # whose rows say when a session was spoken that is a transcript alone


def other_tracks(study: Study, session_id: str) -> list[str]:
    """The tracks of a session besides its own files, by name."""
    return sorted(set(study.tracks.get(session_id, {})) - {MAIN})


def stored_clocks(study: Study) -> dict[str, dict[str, list[list[float]]]]:
    """Of every track besides the sessions' own how its clock runs, also where it is in time with the session."""
    return {
        session_id: {name: study.clock(session_id, name).stored for name in others}
        for session_id in sorted(study.sessions)
        if (others := other_tracks(study, session_id))
    }


def stored_clock_errors(study: Study) -> dict[str, dict[str, float]]:
    """The standard errors of the clocks of tracks, seconds, by session and track; without those that are not known."""
    errors: dict[str, dict[str, float]] = {}
    for session_id in sorted(study.clock_errors):
        of_clocks = study.clock_errors[session_id]
        tracks = {name: study.tracks[session_id][name].clock for name in other_tracks(study, session_id)}
        if known := {name: of_clocks[clock] for name, clock in tracks.items() if clock and clock in of_clocks}:
            errors[session_id] = known
    return errors


def without_frames(study: Study, known: Collection[str], track: str) -> Iterator[tuple[str, str]]:
    """Sessions without the frames of another track that are to be cut into clips, and why they have none.

    Args:
        known: the sessions of which it is known when these frames are.
        track: whose frames; the sessions' own may come from the tables alone.
    """
    for session_id in study.sessions if track != MAIN else ():
        cut = f"[clips] track = {track!r} cuts its frames into clips"
        if track not in (others := other_tracks(study, session_id)):
            there = ", ".join([MAIN, *others])
            yield session_id, f"it has no track {track!r}, and {cut}; it has {there}"
        elif session_id not in known:
            yield session_id, f"{cut}, but when they are is not known: extract 'frames' of it"


def recorded_s(study: Study, store: FeatureStore, session_id: str, track: str) -> Span | None:
    """When a track recorded, in seconds of the session: by its frames, else by its sound; None where neither is there.

    Raises:
        StoreError: the store cannot be read.
    """
    frames, sound = of_track(CLOCK, track), of_track(_SOUND, track)
    if store.has(session_id, frames):
        time = store.view(session_id, frames, array="time")
        span = (float(time[0]), last_frame_end_s(time)) if len(time) else None
    elif store.has(session_id, sound):
        time = store.view(session_id, sound, array="time")
        span = (float(time[0]), float(time[-1]) + AUDIO_HOP_S) if len(time) else None
    else:
        span = None
    if span is None:
        return None
    first_s, end_s = study.clock(session_id, track).to_session(np.array(span))
    return float(first_s), float(end_s)


def ends_without_frames(study: Study, store: FeatureStore | None, sessions: Iterable[str]) -> dict[str, float]:
    """When these sessions, which have no video, end: by their extracted sound, the sound's header or the transcript.

    Infinite where none of these says.
    """
    return {session_id: _end_s(study, store, session_id) or math.inf for session_id in sessions}


def _end_s(study: Study, store: FeatureStore | None, session_id: str) -> float | None:
    from tasks.media.container import RecordingError
    from tasks.media.sound import sound_length_s  # PyAV, which an index of extracted videos does not need

    session = study.sessions[session_id]
    if store is not None and (span := recorded_s(study, store, session_id, MAIN)):
        return span[1] - AUDIO_HOP_S + _PITCH_S
    try:
        if session.audio:
            return sound_length_s(study.path(session.audio))
        if session.transcript:
            return read_transcript(study.path(session.transcript), allow_malformed=True).end_s
    except (RecordingError, TranscriptError, StudyFileError, OSError):
        pass  # extraction and check say what is wrong with it
    ends = [
        float(np.max(store.view(session_id, feature, array="end"), initial=0.0))
        for feature in (_WORDS, _UTTERANCES)
        if store is not None and store.has(session_id, feature)
    ]
    return max(ends, default=None)


def with_coverage(windows: pd.DataFrame, study: Study, recorded: Mapping[str, Mapping[str, Span]]) -> pd.DataFrame:
    """The windows with a column for each track besides the sessions' own: which share of their time it recorded.

    Float32, 0 to 1; missing in sessions of which it is not known when the track recorded.

    Args:
        recorded: by session and track, from when to when it recorded, where that is known.
    """
    import pandas as pd  # which an extraction with nothing due does without

    windows = windows.copy(deep=False)
    start_s, stop_s = windows["start_s"].to_numpy(), windows["stop_s"].to_numpy()
    of_session = windows.groupby("session_id").indices
    for column, track in coverage_columns(study).items():
        share = np.full(len(windows), np.nan)
        for session_id, rows in of_session.items():
            if span := recorded.get(session_id, {}).get(track):
                shared_s = np.minimum(stop_s[rows], span[1]) - np.maximum(start_s[rows], span[0])
                share[rows] = np.clip(shared_s / (stop_s[rows] - start_s[rows]), 0, 1)
        windows[column] = pd.array(share, dtype="Float32")
    return windows


def coverage_columns(study: Study) -> dict[str, str]:
    """The columns that :func:`with_coverage` adds, and the track that each is of."""
    tracks = sorted({track for session_id in study.sessions for track in other_tracks(study, session_id)})
    return {f"covered_{track}": track for track in tracks}


def apart_from_the_session(recorded: Mapping[str, Span]) -> str:
    """What is wrong where a track by its clock recorded nothing while the session was recorded; else empty.

    Args:
        recorded: by track, ``main`` among them, from when to when it recorded, where that is known.
    """
    own = recorded.get(MAIN)
    for track, theirs in sorted(recorded.items()):
        if track != MAIN and own and (theirs[0] >= own[1] or theirs[1] <= own[0]):
            return (
                f"its track {track!r} was by its clock recorded from {theirs[0]:.2f} to {theirs[1]:.2f} s of the "
                f"session, which is from {own[0]:.2f} to {own[1]:.2f} s: they share nothing in time. Is the clock "
                "right? 'storyframes sync' measures it"
            )
    return ""
