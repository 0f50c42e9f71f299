"""The clip index of a study: from the tables alone, or with what the feature store knows of each session."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pyarrow as pa

from storyframes.clips.clip_index import clip_rows
from storyframes.clips.splits import components
from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import (
    SESSION_PHASE,
    WINDOWS_SCHEMA,
    PhaseRow,
    PhaseSpan,
    SessionSignals,
    read_windows,
    write_windows,
)
from storyframes.features import CLOCK, FEATURES, in_order
from storyframes.spec import MAIN, feature_and_track
from storyframes.store.clip_table import check_replaceable, to_table
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CLIPS, INPUTS
from storyframes.store.records import CURRENT
from storyframes.store.storage import Storage
from storyframes.store.storage.files import write_atomically
from storyframes.store.study import confirm_study_record, describe_left, read_forgotten, sessions_left
from storyframes.store.table_files import replace_table, to_parquet
from storyframes.times import SOUND_FITS_S
from tasks.clip_index.kept_index import IndexSummary, note_index
from tasks.clip_index.label_rules import LabelRule, indexed_schemes
from tasks.clip_index.labels import (
    add_labels,
    clip_targets,
    is_labelled,
    labels_of_others,
    sessions_of_several_persons,
    with_reflected,
)
from tasks.clip_index.remarks import assumed_rates, empty_splits, no_frames, other_rates, why_none
from tasks.clip_index.session_windows import Recorded, SessionWindows, find_windows, knows_frames, read_signals
from tasks.clip_index.shared_recordings import SharedRecording, find_shared_recordings, shared_recording_remarks
from tasks.clip_index.tracks import (
    apart_from_the_session,
    ends_without_frames,
    stored_clock_errors,
    stored_clocks,
    with_coverage,
    without_frames,
)
from tasks.models.digests import DigestCache
from tasks.study.labels import EMPATHY
from tasks.study.load import Study, StudyFileError

ROW_GROUP = 16_384
_NO_LENGTH = (
    "it has no video, and neither its sound nor its transcript says how long it is: 'storyframes check' says what is "
    "wrong with them"
)
_SLACK_S = 1.0  # phases are noted by hand; one may end this much after the last frame


@dataclass(frozen=True)
class ClipIndex:
    """The clips of a study."""

    # one row per window and what it is labelled of (see :func:`storyframes.clips.clip_index.clip_rows`)
    clips: pd.DataFrame
    excluded: Mapping[str, str]  # sessions that give no clips because something is wrong with them, and what it is
    warnings: Mapping[str, str]  # by session, what is odd about those that do
    # what is to be said of the index as a whole: why it is empty, a split that is, a rate that was assumed
    remarks: tuple[str, ...] = ()

    @property
    def summary(self) -> IndexSummary:
        return IndexSummary(len(self.clips), self.excluded, self.warnings, self.remarks)


def build_clip_index(
    study: Study,
    spec: WindowSpec,
    store: FeatureStore | None,
    rules: Mapping[str, LabelRule] | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> ClipIndex:
    """Cut the study into clips; what is wrong with one session costs its clips alone.

    Args:
        store: the study's features; None makes the index from the tables and the recordings' headers.
        rules: by scheme, how its labels meet clips; ``label_rule_faults`` finds no fault in them.
        progress: called with (session_id, number, how many) before each session that is read.
    """
    return _build(study, spec, store, rules or {}, WINDOWS_SCHEMA.empty_table(), progress)[0]


def _build(
    study: Study,
    spec: WindowSpec,
    store: FeatureStore | None,
    rules: Mapping[str, LabelRule],
    known: pa.Table,
    progress: Callable[[str, int, int], None],
) -> tuple[ClipIndex, SessionWindows]:
    """The clip index, and what was found of each session; ``known`` is what was found of them before."""
    sessions = study.frame("sessions")
    excluded = dict(study.excluded) | sessions_of_several_persons(study, rules)
    in_time = {session_id for session_id in study.sessions if knows_frames(study, store, session_id, spec.track)}
    for session_id, reason in without_frames(study, in_time, spec.track):
        excluded.setdefault(session_id, reason)
    there = [session_id for session_id in study.sessions if session_id not in excluded]
    unknown = [session_id for session_id in there if session_id not in in_time]
    header_fps, lengths_s = _look_at_headers(study, [name for name in unknown if study.sessions[name].video])
    ends_s = ends_without_frames(study, store, [name for name in unknown if not study.sessions[name].video])
    if not study.phases:
        excluded |= {name: _NO_LENGTH for name, end_s in ends_s.items() if math.isinf(end_s)}
        there = [session_id for session_id in there if session_id not in excluded]
    phases = _phases(study, there, in_time, lengths_s | ends_s)
    found = find_windows(study, spec, store, phases, header_fps, ends_s, known, progress)
    excluded |= found.unreadable
    recorded = found.recorded()
    for session_id, one in recorded.items():
        if reason := apart_from_the_session(one.tracks):
            excluded[session_id] = reason
    there = [session_id for session_id in there if session_id not in excluded]
    rates = header_fps if store is None else {name: one.rate for name, one in recorded.items() if one.rate is not None}
    without_video = [name for name in there if name in ends_s]
    frameless: list[str] = []
    if not spec.in_seconds and not any(session.video for session in study.sessions.values()):
        frameless, without_video = without_video, []
    excluded |= other_rates({name: rates[name] for name in there if name in rates}, without_video, spec)
    there = [session_id for session_id in there if session_id not in excluded and session_id not in frameless]
    digests = DigestCache(store.storage, INPUTS, study.root) if store else None
    shared = find_shared_recordings(study, digests)
    if digests:
        digests.save()
    meetings = _meetings(study, shared)
    clips = clip_rows(
        found.windows(without=[*excluded, *frameless]),
        sessions,  # all of them: the splits do not move when a session is mended
        clip_targets(study),
        replace(spec, unlabelled="keep"),
        _having(store, there) if store else {},
        together=meetings,
    )
    windows = len(clips)
    if store:
        clips = with_coverage(clips, study, {session_id: one.tracks for session_id, one in recorded.items()})
    clips = _labelled(with_reflected(clips, study), study, spec, rules)
    if clocks := stored_clocks(study):
        clips.attrs["clocks"] = clocks
    if errors := stored_clock_errors(study):
        clips.attrs["clock_errors"] = errors
    if spec.track != MAIN:
        clips.attrs["track"] = spec.track
    if spec.window_s is not None:
        clips.attrs["window_s"] = spec.window_s
    phases = {session_id: phases[session_id] for session_id in there}
    recorded = {session_id: recorded[session_id] for session_id in there}
    warnings: dict[str, str] = {}
    beyond = _phases_beyond_the_end(study, phases, recorded, ends_s) if study.phases else ()
    for session_id, odd in (*beyond, *_sound_that_does_not_fit(recorded), *_of_no_video(study, store, there)):
        warnings[session_id] = f"{warnings[session_id]}; {odd}" if session_id in warnings else odd

    def signals(session_id: str) -> SessionSignals:
        signals = read_signals(study, store, session_id, spec.track, header_fps.get(session_id))
        return replace(signals, end_s=ends_s.get(session_id))

    all_phases = [phase for of_session in phases.values() for phase in of_session]
    remarks = (
        *([no_frames(len(clips), frameless, spec)] if frameless else []),
        *([] if len(clips) or frameless else [why_none(there, all_phases, windows, spec, signals)]),
        *empty_splits(clips, len(components(sessions["participant_id"], meetings)), spec),
        *assumed_rates(
            [name for name in phases if phases[name] and name not in {*in_time, *header_fps, *ends_s}], spec
        ),
        *shared_recording_remarks(study, shared),
        *labels_of_others(study, rules),
        *_not_indexed(study),
        *(_left(store, study) if store else ()),
    )
    return ClipIndex(clips, excluded, warnings, remarks), found


def _left(store: FeatureStore, study: Study) -> Iterator[str]:
    """What is to be said of sessions that the store has and the study does not."""
    forgotten, stored = read_forgotten(store.storage), {*store.sessions}
    if forgotten:  # the catalogue has none of them
        stored |= {path.split("/")[0] for path in store.storage.records((CURRENT,))}
    yield from describe_left(sessions_left(store.storage, stored, study.sessions), forgotten)


def _labelled(windows: pd.DataFrame, study: Study, spec: WindowSpec, rules: Mapping[str, LabelRule]) -> pd.DataFrame:
    """The windows with their labels; without those that have none, where they are not wanted."""
    clips = add_labels(windows, study, rules)
    if (spec.unlabelled or ("drop" if study.ratings else "keep")) == "drop":
        attrs = clips.attrs
        clips = clips[is_labelled(clips)].reset_index(drop=True)
        clips.attrs = attrs
    if study.ratings and clips["position"].notna().all():
        clips = clips.astype({"position": "int8", "empathy": "int8"})
    return clips


def _phases(
    study: Study, sessions: Sequence[str], in_time: Collection[str], lengths_s: Mapping[str, float]
) -> dict[str, list[PhaseRow]]:
    """The phases of sessions; without phases each is one, all of its frames, if it is known how many those are."""
    phases: dict[str, list[PhaseRow]] = {session_id: [] for session_id in sessions}
    if study.phases:
        for phase in study.phases:
            if phase.session_id in phases:
                phases[phase.session_id].append(phase)
        return phases
    for session_id in sessions:
        if session_id in in_time:
            phases[session_id] = [PhaseSpan(session_id, SESSION_PHASE, -math.inf, math.inf)]
        elif math.isfinite(lengths_s.get(session_id, math.inf)):
            phases[session_id] = [PhaseSpan(session_id, SESSION_PHASE, 0.0, lengths_s[session_id])]
    return phases


def _look_at_headers(study: Study, sessions: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """The frames per second and the lengths that the headers of recordings say, by session."""
    from tasks.media.container import RecordingError
    from tasks.media.video_header import read_rate  # PyAV, which is not needed where all sessions have their times

    rates, lengths_s = {}, {}
    for session_id in sessions:
        try:
            fps, length_s = read_rate(study.path(study.sessions[session_id].video or ""))
        except (RecordingError, StudyFileError, OSError):
            continue  # extraction and check say what is wrong with it
        if fps:
            rates[session_id] = fps
        if length_s:
            lengths_s[session_id] = length_s
    return rates, lengths_s


def _meetings(study: Study, shared: Sequence[SharedRecording]) -> list[list[str]]:
    """Of every session the participants who are in it, and of every shared recording those of its sessions."""
    met = {session.session_id: [session.participant_id] for session in study.sessions.values()}
    for person in study.persons:
        if person.participant_id and person.session_id in met:
            met[person.session_id].append(person.participant_id)
    return [*met.values(), *(recording.participants(study) for recording in shared)]


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


def _having(store: FeatureStore, sessions: Sequence[str]) -> dict[str, list[str]]:
    """By feature, which of these sessions have it: of the built-in features, so that a filter by any of them means
    something, and of whatever else was ever attempted.
    """
    features = in_order([*FEATURES, *(name for name in store.attempted() if feature_and_track(name)[1] == MAIN)])
    return {name: [session_id for session_id in sessions if store.has(session_id, name)] for name in features}


def _phases_beyond_the_end(
    study: Study,
    phases: Mapping[str, Sequence[PhaseRow]],
    recorded: Mapping[str, Recorded],
    ends_s: Mapping[str, float],
) -> Iterator[tuple[str, str]]:
    """Sessions with a phase that ends well after the last frame: cut recordings, or another session's times."""
    for session_id in sorted(phases):
        frame_s = recorded[session_id].frame_s
        end_s = frame_s[1] if frame_s else ends_s.get(session_id, math.inf)
        last = max(phases[session_id], key=lambda phase: phase.end_s, default=None)
        if last and last.end_s > end_s + _SLACK_S:
            what = "sound ends" if study.sessions[session_id].audio else "last utterance ends"
            what = "last frame is" if frame_s else what
            yield session_id, f"the phase {last.phase!r} ends at {last.end_s:.2f} s, the {what} at {end_s:.2f} s"


def _sound_that_does_not_fit(recorded: Mapping[str, Recorded]) -> Iterator[tuple[str, str]]:
    """Sessions whose sound begins well after the first frame, or ends well before the last."""
    for session_id in sorted(recorded):
        frame_s, sound_s = recorded[session_id].frame_s, recorded[session_id].sound_s
        if frame_s and sound_s and (sound_s[0] > frame_s[0] + SOUND_FITS_S or sound_s[1] < frame_s[1] - SOUND_FITS_S):
            yield (
                session_id,
                f"there is sound from {sound_s[0]:.2f} s to {sound_s[1]:.2f} s, but frames from {frame_s[0]:.2f} s to "
                f"{frame_s[1]:.2f} s: the column sound_covered says which clips have it throughout",
            )


def _of_no_video(study: Study, store: FeatureStore | None, sessions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sessions with frames of a video that the study names no more: nothing of the store is removed for that."""
    for session_id in sessions:
        if store and not study.sessions[session_id].video and store.has(session_id, CLOCK):
            yield (
                session_id,
                "the study names no video of it, but the store has frames of one that it named before: its clips are "
                "cut by these, and features of that video are still read. Name the video again, or, if it is not to be "
                "used, extract into a new store",
            )


def update_clip_index(
    study: Study,
    spec: WindowSpec,
    store: FeatureStore,
    rules: Mapping[str, LabelRule] | None = None,
    *,
    anew: bool = False,
    made_of: str = "",
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> ClipIndex:
    """Bring the store's clip index up to date: sessions are read where something of them changed since it was made.

    The store's record of the study is then as new as the catalogue.

    Args:
        anew: read all sessions, so that damage in one that did not change is found as well.
        made_of: of :func:`tasks.clip_index.kept_index.digest_of_inputs` before ``store`` was opened, to be noted.
        progress: called with (session_id, number, how many) before each session that is read.

    Raises:
        StoreError: the store's index has a newer format; it was left as it is.
        StorageError: the store cannot be read or written.
    """
    known = WINDOWS_SCHEMA.empty_table() if anew else read_windows(store.storage)
    index, found = _build(study, spec, store, rules or {}, known, progress)
    sha256 = write_clip_index(index.clips, store.storage)
    if found.table is not known:
        write_windows(store.storage, found.table)
    confirm_study_record(store.storage)
    if made_of:
        note_index(store.storage, made_of, sha256, index.summary)
    return index


def write_clip_index(index: pd.DataFrame, storage: Storage) -> str:
    """Make ``index`` the store's clip index, and give its checksum; unchanged content leaves the file alone.

    Raises:
        StoreError: the store's has a newer format; it was left as it is.
    """
    if (content := storage.read(CLIPS)) is not None:
        check_replaceable(content)
    return replace_table(storage, CLIPS, lambda: to_table(index), ROW_GROUP)


def export_clip_index(index: pd.DataFrame, path: Path) -> None:
    """Write ``index`` as a Parquet file of its own."""
    write_atomically(path, to_parquet(to_table(index), ROW_GROUP))
