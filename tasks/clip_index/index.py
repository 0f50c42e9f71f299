"""The clip index of a study: from the tables alone, or with what the feature store knows of each session."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from storyframes.clips.clip_index import SPLITS, clip_rows, components
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import CLOCK, FEATURES, in_order
from storyframes.spec import MAIN, feature_and_track
from storyframes.store.clip_table import ROW_GROUP, check_replaceable, to_table, write_clips
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CLIPS, INPUTS, WINDOWS
from storyframes.store.records import CURRENT
from storyframes.store.storage import Storage
from storyframes.store.storage.files import write_atomically
from storyframes.store.study import confirm_study_record, describe_left, read_forgotten, sessions_left
from storyframes.store.table_files import to_parquet
from storyframes.times import SOUND_FITS_S
from tasks.clip_index.kept_index import IndexSummary, note_index
from tasks.clip_index.label_rules import LabelRule, indexed_schemes
from tasks.clip_index.labels import add_labels, clip_targets, is_labelled, labels_of_others, with_reflected
from tasks.clip_index.remarks import no_frames, why_none
from tasks.clip_index.session_windows import StudySessions, look_at_sessions
from tasks.clip_index.shared_recordings import SharedRecording, find_shared_recordings, shared_recording_remarks
from tasks.clip_index.tracks import stored_clock_errors, stored_clocks, with_coverage
from tasks.media.container import FIRST_STREAMS, StreamChoice
from tasks.models.digests import DigestCache
from tasks.study.labels import EMPATHY, listed
from tasks.study.load import Study

_SLACK_S = 1.0  # phases are noted by hand; one may end this much after the last frame


@dataclass(frozen=True)
class ClipIndex:
    """The clips of a study."""

    # one row per window and target of its labels (see :func:`storyframes.clips.clip_index.clip_rows`)
    clips: pd.DataFrame
    excluded: Mapping[str, str]  # sessions that give no clips because something is wrong with them, and what it is
    warnings: Mapping[str, str]  # by session, what is odd about those that do
    # remarks about the whole index: why it is empty, a split that is, a rate that was assumed
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
    streams: StreamChoice = FIRST_STREAMS,
) -> ClipIndex:
    """Cut the study into clips; what is wrong with one session costs its clips alone.

    Args:
        store: the study's features; None makes the index from the tables and the recordings' headers.
        rules: by scheme, how its labels meet clips; ``label_rule_faults`` finds no fault in them.
        progress: called with (session_id, number, how many) before each session that is read.
        streams: which picture of files that have several, where a header says how long a session is.
    """
    rules = rules or {}
    sessions = look_at_sessions(study, spec, store, rules, progress, streams)
    shared = _shared_recordings(study, store)
    meetings = _meetings(study, shared)
    cut = [session_id for session_id in sessions.left if session_id not in sessions.frameless]
    windows = clip_rows(
        sessions.windows[sessions.windows["session_id"].isin(cut)],
        study.frame("sessions"),  # all of them: the splits do not move when a session is mended
        clip_targets(study),
        replace(spec, unlabelled="keep"),
        _having(store, sessions.stored, cut) if store is not None else {},
        together=meetings,
    )
    clips = windows
    if store is not None:
        clips = with_coverage(clips, study, {name: recorded.tracks for name, recorded in sessions.recorded.items()})
    clips = _labelled(with_reflected(clips, study), study, spec, rules)
    clips.attrs |= _attributes(study, spec)
    remarks = _remarks(sessions, cut, clips, len(windows), meetings, shared)
    return ClipIndex(clips, sessions.excluded, _warnings(sessions, cut), tuple(remarks))


def _attributes(study: Study, spec: WindowSpec) -> dict[str, Any]:
    """What readers of clips need beside their rows: how the clocks of tracks run, and what windows were cut from."""
    attributes = {
        "clocks": stored_clocks(study),
        "clock_errors": stored_clock_errors(study),
        "track": spec.track if spec.track != MAIN else None,
        "window_s": spec.window_s,
    }
    return {name: value for name, value in attributes.items() if value not in (None, {})}


def _warnings(sessions: StudySessions, cut: Sequence[str]) -> dict[str, str]:
    """What is odd about sessions that give clips."""
    warnings: dict[str, list[str]] = {}
    beyond = _phases_beyond_the_end(sessions, cut) if sessions.study.phases else ()
    for session_id, oddity in (*beyond, *_sound_that_does_not_fit(sessions, cut), *_of_no_video(sessions, cut)):
        warnings.setdefault(session_id, []).append(oddity)
    return {session_id: "; ".join(oddities) for session_id, oddities in warnings.items()}


def _remarks(
    sessions: StudySessions,
    cut: Sequence[str],
    clips: pd.DataFrame,
    windows: int,
    meetings: Sequence[Sequence[str]],
    shared: Sequence[SharedRecording],
) -> Iterator[str]:
    """The remarks about the whole index; ``windows``: their number, labelled or not."""
    study, spec, phases = sessions.study, sessions.spec, {name: sessions.phases[name] for name in cut}
    if sessions.frameless:
        yield no_frames(len(clips), sessions.frameless, spec)
    elif not len(clips):
        every_phase = [phase for of_session in phases.values() for phase in of_session]
        yield why_none(cut, every_phase, windows, spec, sessions.signals)
    participants = [session.participant_id for session in study.sessions.values()]
    yield from _empty_splits(clips, len(components(participants, meetings)), spec)
    known = {*sessions.with_frame_times, *sessions.header_fps, *sessions.ends_s}
    yield from _assumed_rates([name for name in phases if phases[name] and name not in known], spec)
    yield from shared_recording_remarks(study, shared)
    yield from labels_of_others(study, sessions.rules)
    yield from _not_indexed(study)
    if sessions.store is not None:
        yield from _left(sessions.store, study)


def _empty_splits(clips: pd.DataFrame, groups: int, spec: WindowSpec) -> Iterator[str]:
    """The splits that should have clips and have none."""
    wanted = [split for split, share in zip(SPLITS, spec.split_shares, strict=True) if share > 0]
    empty = [split for split in wanted if split not in set(clips["split"])]
    if len(clips) and empty:
        shares = ", ".join(f"{share:g}" for share in spec.split_shares)
        yield (
            f"no clips in {' and '.join(empty)}: participants stay together with whom they met, and [clips] "
            f"split_shares = [{shares}] shares out {groups} such {'group' if groups == 1 else 'groups'}"
        )


def _assumed_rates(sessions: Sequence[str], spec: WindowSpec) -> Iterator[str]:
    """The sessions whose rate neither frame times nor a header say."""
    if sessions:
        yield (
            f"[clips] fps = {spec.fps:g} is assumed of {listed(sessions)}: there are no frame times of "
            f"{'it' if len(sessions) == 1 else 'them'}, and no header that says the rate"
        )


def _shared_recordings(study: Study, store: FeatureStore | None) -> list[SharedRecording]:
    if store is None:
        return find_shared_recordings(study)
    storage = store.storage
    digests = cache(lambda: DigestCache(storage, INPUTS, *study.folders))
    shared = find_shared_recordings(study, digests)
    if digests.cache_info().currsize:
        digests().save()
    return shared


def _left(store: FeatureStore, study: Study) -> Iterator[str]:
    """The remarks about sessions that the store has and the study lacks."""
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


def _having(store: FeatureStore, stored: Mapping[str, frozenset[str]], sessions: Sequence[str]) -> dict[str, list[str]]:
    """By feature, which of these sessions have it: of the built-in features, so that a filter by any of them means
    something, and of whatever else was ever attempted.

    Args:
        stored: by session, the features that the store has.
    """
    attempted = [feature for feature, track in map(feature_and_track, store.attempted()) if track == MAIN]
    return {
        name: [session_id for session_id in sessions if name in stored[session_id]]
        for name in in_order([*FEATURES, *attempted])
    }


def _phases_beyond_the_end(sessions: StudySessions, cut: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sessions with a phase that ends well after the last frame: cut recordings, or another session's times."""
    for session_id in sorted(cut):
        frame_s = sessions.recorded[session_id].frame_s
        end_s = frame_s[1] if frame_s else sessions.ends_s.get(session_id, math.inf)
        last = max(sessions.phases[session_id], key=lambda phase: phase.end_s, default=None)
        if last and last.end_s > end_s + _SLACK_S:
            what = "sound ends" if sessions.study.sessions[session_id].audio else "last utterance ends"
            what = "last frame is" if frame_s else what
            yield session_id, f"the phase {last.phase!r} ends at {last.end_s:.2f} s, the {what} at {end_s:.2f} s"


def _sound_that_does_not_fit(sessions: StudySessions, cut: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sessions whose sound begins well after the first frame, or ends well before the last."""
    for session_id in sorted(cut):
        frame_s, sound_s = sessions.recorded[session_id].frame_s, sessions.recorded[session_id].sound_s
        if frame_s and sound_s and (sound_s[0] > frame_s[0] + SOUND_FITS_S or sound_s[1] < frame_s[1] - SOUND_FITS_S):
            yield (
                session_id,
                f"there is sound from {sound_s[0]:.2f} s to {sound_s[1]:.2f} s, but frames from {frame_s[0]:.2f} s to "
                f"{frame_s[1]:.2f} s: the column sound_covered says which clips have it throughout",
            )


def _of_no_video(sessions: StudySessions, cut: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sessions with frames of a video that the study names no more: nothing of the store is removed for that."""
    for session_id in cut:
        has_video = sessions.study.sessions[session_id].video
        if sessions.store is not None and not has_video and CLOCK in sessions.stored[session_id]:
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
    made_of: str = "",
    progress: Callable[[str, int, int], None] = lambda *_: None,
    streams: StreamChoice = FIRST_STREAMS,
) -> ClipIndex:
    """Make the store's clip index of all sessions; the file is left alone where its content stays the same.

    The store's record of the study is then as new as the catalogue.

    Args:
        made_of: of :func:`tasks.clip_index.kept_index.digest_of_inputs` before ``store`` was opened, to be noted.
        progress: called with (session_id, number, how many) before each session that is read.
        streams: as of :func:`build_clip_index`.

    Raises:
        StoreError: the store's index has a newer format; it was left as it is.
        StorageError: the store cannot be read or written.
    """
    index = build_clip_index(study, spec, store, rules, progress, streams)
    sha256 = write_clip_index(index.clips, store.storage)
    if store.storage.info(WINDOWS):
        store.storage.remove([WINDOWS])
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
    return write_clips(storage, index)


def export_clip_index(index: pd.DataFrame, path: Path) -> None:
    """Write ``index`` as a Parquet file of its own."""
    write_atomically(path, to_parquet(to_table(index), ROW_GROUP))
