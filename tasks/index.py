"""The clip index of a study: from the tables alone, or with what the feature store knows of each session."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from storyframes.clips.splits import components
from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SESSION_PHASE, SessionSignals, build_index
from storyframes.features import FEATURES, STORIES, in_order
from storyframes.recording_times import SOUND_FITS_S
from storyframes.store.catalogue import WHOLE_SESSION, replace_table, to_parquet
from storyframes.store.clip_table import check_replaceable, to_table
from storyframes.store.durable import write_atomically
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CLIPS, StoreError
from storyframes.store.storage import Storage
from storyframes.tracks import MAIN, feature_and_track, of_track
from tasks.clip_labels import (
    add_labels,
    clip_targets,
    is_labelled,
    labels_of_others,
    sessions_of_several_persons,
    with_reflected,
)
from tasks.clip_remarks import assumed_rates, empty_splits, other_rates, why_none
from tasks.clip_tracks import apart_from_the_session, stored_clocks, with_coverage, without_frames
from tasks.label_rules import LabelRule, indexed_schemes
from tasks.study.labels import EMPATHY
from tasks.study.load import Study, StudyFileError

ROW_GROUP = 16_384
_SLACK_S = 1.0  # phases are noted by hand; one may end this much after the last frame


@dataclass(frozen=True)
class ClipIndex:
    """The clips of a study.

    Attributes:
        clips: one row per window and what it is labelled of (see :func:`storyframes.clips.windows.build_index`).
        excluded: sessions that give no clips because something is wrong with them, and what it is.
        warnings: by session, what is odd about those that do.
        remarks: what is to be said of the index as a whole: why it is empty, a split that is, a rate that was assumed.
    """

    clips: pd.DataFrame
    excluded: Mapping[str, str]
    warnings: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def build_clip_index(
    study: Study, spec: WindowSpec, store: FeatureStore | None, rules: Mapping[str, LabelRule] | None = None
) -> ClipIndex:
    """Cut the study into clips; what is wrong with one session costs its clips and nobody else's.

    Args:
        study: a valid study.
        spec: how clips are cut.
        store: the study's features; None makes the index from the tables and the recordings' headers.
        rules: by scheme, how its labels meet clips; :func:`tasks.label_rules.label_rule_faults` has no fault to find.
    """
    rules = rules or {}
    sessions = study.frame("sessions")
    excluded = dict(study.excluded) | sessions_of_several_persons(study, rules)
    signals: dict[str, SessionSignals] = {}
    if store:
        for session_id in sorted(set(store.sessions) & set(sessions["session_id"])):
            try:
                signals[session_id] = _signals(store, study, session_id, spec.track)
                if reason := apart_from_the_session(study, store, session_id):
                    excluded.setdefault(session_id, reason)
            except (StoreError, OSError, ValueError) as error:
                reason = str(error) if isinstance(error, StoreError) else f"an array cannot be read ({error})"
                excluded.setdefault(session_id, f"{reason}: 'storyframes verify' says what is damaged")
    for session_id, reason in without_frames(study, signals, spec.track):
        excluded.setdefault(session_id, reason)
    there = [session_id for session_id in sessions["session_id"] if session_id not in excluded]
    lengths_s = _look_at_headers(study, there, signals)
    for session_id, reason in other_rates(_known_rates(there, signals, store is None), spec).items():
        excluded[session_id] = reason
    there = [session_id for session_id in there if session_id not in excluded]
    phases = study.frame("phases") if study.phases else _whole_sessions(there, signals, lengths_s)
    phases = phases[~phases["session_id"].isin(list(excluded))]
    meetings = _meetings(study)
    windows = build_index(
        sessions,  # all of them: the splits do not move when a session is mended
        phases,
        clip_targets(study),
        replace(spec, unlabelled="keep"),
        signals,
        _features(store) if store else [],
        together=meetings,
    )
    if store:
        windows = with_coverage(windows, study, store)
    clips = _labelled(with_reflected(windows, study), study, spec, rules)
    if clocks := stored_clocks(study):
        clips.attrs["clocks"] = clocks
    if spec.track != MAIN:
        clips.attrs["track"] = spec.track
    warnings: dict[str, str] = {}
    beyond = _phases_beyond_the_end(phases, signals) if study.phases else ()
    for session_id, odd in (*beyond, *_sound_that_does_not_fit(signals)):
        warnings[session_id] = f"{warnings[session_id]}; {odd}" if session_id in warnings else odd
    unknown = [session_id for session_id in phases["session_id"].unique() if _is_assumed(signals.get(session_id))]
    remarks = (
        *([] if len(clips) else [why_none(there, phases, windows, spec, signals)]),
        *empty_splits(clips, len(components(sessions["participant_id"], meetings)), spec),
        *assumed_rates(unknown, spec),
        *labels_of_others(study, rules),
        *_not_indexed(study),
    )
    return ClipIndex(clips, excluded, warnings, remarks)


def _labelled(windows: pd.DataFrame, study: Study, spec: WindowSpec, rules: Mapping[str, LabelRule]) -> pd.DataFrame:
    """The windows with their labels; without those that have none, where they are not wanted."""
    clips = add_labels(windows, study, rules)
    if (spec.unlabelled or ("drop" if study.ratings else "keep")) == "drop":
        schemes = clips.attrs["schemes"]
        clips = clips[is_labelled(clips)].reset_index(drop=True)
        clips.attrs["schemes"] = schemes
    if study.ratings and clips["position"].notna().all():
        clips = clips.astype({"position": "int8", "empathy": "int8"})
    return clips


def _whole_sessions(
    sessions: Sequence[str], signals: Mapping[str, SessionSignals], lengths_s: Mapping[str, float]
) -> pd.DataFrame:
    """One phase for each session: all of its frames, as far as it is known how many those are."""
    rows = []
    for session_id in sessions:
        if session_id in signals and signals[session_id].time is not None:
            rows.append((session_id, SESSION_PHASE, -math.inf, math.inf))
        elif session_id in lengths_s:
            rows.append((session_id, SESSION_PHASE, 0.0, lengths_s[session_id]))
    return pd.DataFrame(rows, columns=["session_id", "phase", "start_s", "end_s"])


def _look_at_headers(study: Study, sessions: Sequence[str], signals: dict[str, SessionSignals]) -> dict[str, float]:
    """Read the headers of recordings whose frame times are not known: the rates into ``signals``; gives the lengths."""
    from tasks.media.container import RecordingError
    from tasks.media.video_header import read_rate  # PyAV, which is not needed where all sessions have their times

    lengths_s = {}
    for session_id in sessions:
        signal = signals.get(session_id, SessionSignals())
        if signal.time is None:
            try:
                fps, length_s = read_rate(study.path(study.sessions[session_id].video))
            except (RecordingError, StudyFileError, OSError):
                continue  # extraction and check say what is wrong with it
            if fps:
                signals[session_id] = replace(signal, header_fps=fps)
            if length_s:
                lengths_s[session_id] = length_s
    return lengths_s


def _is_assumed(signal: SessionSignals | None) -> bool:
    return signal is None or (signal.time is None and signal.header_fps is None)


def _known_rates(
    sessions: Sequence[str], signals: Mapping[str, SessionSignals], from_headers: bool
) -> dict[str, float]:
    """Frames per second of the sessions, by their frames' times; by headers only where nothing else is looked at."""
    return {
        session_id: signal.rate(0)
        for session_id in sessions
        if (signal := signals.get(session_id))
        and (len(signal.time) > 1 if signal.time is not None else from_headers and signal.header_fps)
    }


def _meetings(study: Study) -> list[list[str]]:
    """Of every session the participants who are in it."""
    met = {session.session_id: [session.participant_id] for session in study.sessions.values()}
    for person in study.persons:
        if person.participant_id and person.session_id in met:
            met[person.session_id].append(person.participant_id)
    return list(met.values())


def _not_indexed(study: Study) -> Iterator[str]:
    """The schemes of the table ``labels`` that are no column, and why."""
    used = {label.scheme for label in study.labels[len(study.ratings) :]} - set(indexed_schemes(study))
    for name in sorted(used):
        scheme = study.schemes[name]
        if study.ratings and name == EMPATHY.name:
            yield f"labels of the scheme {name!r} are not in the clip index, which has those of the table 'ratings'"
        elif scheme.private:
            yield f"the scheme {name!r} is private, so it is no column of the clip index"
        else:
            yield f"the scheme {name!r} is {scheme.type}, so it is no column of the clip index"


def _features(store: FeatureStore) -> list[str]:
    """The built-in features, so that a filter by any of them means something, and whatever else was ever attempted."""
    table = store.catalogue
    there = table["feature"][(table["session_id"] != STORIES) & (table["feature"] != WHOLE_SESSION)]
    return in_order([*FEATURES, *(name for name in there if feature_and_track(name)[1] == MAIN)])


def _phases_beyond_the_end(phases: pd.DataFrame, signals: Mapping[str, SessionSignals]) -> Iterator[tuple[str, str]]:
    """Sessions with a phase that ends well after the last frame: cut recordings, or another session's times."""
    for session_id, of_session in phases.groupby("session_id"):
        time = signals[session_id].time if session_id in signals else None
        if time is None or not len(time):
            continue
        last = of_session.loc[of_session["end_s"].idxmax()]
        if last["end_s"] > time[-1] + _SLACK_S:
            yield (
                str(session_id),
                f"the phase {last['phase']!r} ends at {last['end_s']:.2f} s, the last frame is at {time[-1]:.2f} s",
            )


def _sound_that_does_not_fit(signals: Mapping[str, SessionSignals]) -> Iterator[tuple[str, str]]:
    """Sessions whose sound begins well after the first frame, or ends well before the last."""
    for session_id, signal in signals.items():
        time, sound = signal.time, signal.audio_time
        if time is None or sound is None or not len(time) or not len(sound):
            continue
        if sound[0] > time[0] + SOUND_FITS_S or sound[-1] < time[-1] - SOUND_FITS_S:
            yield (
                session_id,
                f"there is sound from {sound[0]:.2f} s to {sound[-1]:.2f} s, but frames from {time[0]:.2f} s to "
                f"{time[-1]:.2f} s: sound_covered tells which clips have it throughout",
            )


def write_clip_index(index: pd.DataFrame, storage: Storage) -> None:
    """Make ``index`` the store's clip index; unchanged content leaves the file alone.

    Raises:
        StoreError: the store's has a newer format; it was left as it is.
    """
    if (content := storage.read(CLIPS)) is not None:
        check_replaceable(content)
    replace_table(storage, CLIPS, lambda: to_table(index), ROW_GROUP)


def export_clip_index(index: pd.DataFrame, path: Path) -> None:
    """Write ``index`` as a Parquet file of its own."""
    write_atomically(path, to_parquet(to_table(index), ROW_GROUP))


def _signals(store: FeatureStore, study: Study, session_id: str, track: str) -> SessionSignals:
    """What the store knows of a session, with the frames and faces of a track of it, in seconds of the session."""

    def read(feature: str, array: str, of: str = MAIN):  # type: ignore[no-untyped-def]
        name = of_track(feature, of)
        return store.read(session_id, name, array=array) if store.has(session_id, name) else None

    time = None
    if track == MAIN or track in study.tracks.get(session_id, {}):
        time = read("frames", "time", track)
    if time is not None and track != MAIN:
        time = study.clock(session_id, track).to_session(time)
    return SessionSignals(
        time=time,
        tracked=read("openface", "valid", track),
        confidence=read("openface", "confidence", track),
        audio_time=read("opensmile", "time"),
        word_start=read("glove", "start"),
        features=frozenset(store.features(session_id)),
    )
