"""Which study a feature store belongs to: another study is refused before its clips replace those of the first.

A store records the sessions of its study, their participants, and a digest of the ends of each recording. A study stays
the same when sessions are added or some withdrawn, its folder is moved, tables are corrected or single recordings are
replaced. It is another study where most of the sessions are gone, or where none of the sessions of the same names has
the same recording. Sessions that were forgotten (``storyframes forget``) count as neither.

The ids of those who left the study stay in the record, because texts of a release are compared with them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

from storyframes.features import STORIES
from storyframes.store.layout import STUDY, StoreError
from storyframes.store.records import ATTEMPT, CURRENT, RecordError, now, seal, unseal
from storyframes.store.storage import Storage
from storyframes.store.study import Forgotten, read_forgotten
from tasks.media.container import recording_digest, recording_state
from tasks.study.forgotten_ids import note_forgotten
from tasks.study.labels import RaterKind, listed
from tasks.study.load import Session, Study, StudyFileError

_ENDS_BYTES = 1 << 16  # of a recording's beginning and of its end


@dataclass(frozen=True)
class _SessionRecord:
    """The record of a session."""

    participant_id: str = ""  # empty where it is unknown
    recording: str = ""  # SHA-256 of the recording's size, beginning and end; empty where it could not be read
    # bytes, mtime_ns: of the recording; while they do not change, it is not read again
    bytes: int = 0
    mtime_ns: int = 0


def remember_study(storage: Storage, study: Study, *, replace: bool = False) -> None:
    """Check that the store is of this study, unless this one is to replace it, and record the study as it is now.

    Raises:
        StoreError: the store is of another study, or was told to forget a session of this one; its record was not
            changed.
    """
    note_forgotten(storage, study.forgotten_ids)  # a backup of the store does not know of them
    forgotten = read_forgotten(storage)
    refuse_forgotten(storage, study, forgotten)
    read_at = now()

    def change(content: bytes | None) -> bytes | None:
        try:
            before = _parse(content)
        except StoreError:
            if not replace:
                raise
            before = {}
        if before is None:
            before = _sessions_in(storage)
        today = _read_sessions(study, before)
        if not replace:
            _refuse(storage, _difference(_without(before, forgotten), today))
        for session_id, record in today.items():
            if not record.recording and session_id in before:  # it cannot be read now: its old digest stays
                today[session_id] = replaced(before[session_id], participant_id=record.participant_id)
        sessions = {session_id: asdict(today[session_id]) for session_id in sorted(today)}
        raters = sorted(rater.rater_id for rater in study.raters.values() if rater.kind is not RaterKind.MACHINE)
        people = study.ids_of_people
        earlier = _unsealed(content)
        left = _left(earlier, before, {*sessions, *people}, forgotten)
        return seal(
            {
                "sessions": sessions,
                "people": people,
                "raters": raters,  # people alone
                "left": left,
                "left_participants": _left_participants(earlier, before, left, forgotten),
                "read_at": read_at,
                "confirmed_at": max(now(), str(earlier.get("confirmed_at", ""))),
            }
        )

    storage.update(STUDY, change)


def _left(
    earlier: Mapping[str, Any], before: Mapping[str, _SessionRecord], present: set[str], forgotten: Forgotten
) -> list[str]:
    """The ids that the store knew and the study does not have any more, without those that are forgotten."""
    earlier_ids = {*before, *(record.participant_id for record in before.values() if record.participant_id)}
    earlier_ids |= {str(name) for kind in ("people", "left") for name in earlier.get(kind, ())}
    return sorted(
        name for name in earlier_ids - present if not forgotten.has_session(name) and not forgotten.has_person(name)
    )


def _left_participants(
    earlier: Mapping[str, Any], before: Mapping[str, _SessionRecord], left: Collection[str], forgotten: Forgotten
) -> dict[str, str]:
    """The participants of the sessions among those who left; of forgotten people none."""
    participants = {str(name): str(participant) for name, participant in earlier.get("left_participants", {}).items()}
    participants |= {name: record.participant_id for name, record in before.items() if record.participant_id}
    return {
        name: participants[name]
        for name in left
        if name in participants and not forgotten.has_person(participants[name])
    }


def refuse_forgotten(storage: Storage, study: Study, forgotten: Forgotten) -> None:
    """Check that the study has no session that the store was told to forget.

    Raises:
        StoreError: it has.
    """
    named = [session for session in study.sessions if forgotten.has_session(session)]
    named += [
        f"{session_id}@{track}"
        for session_id, tracks in study.tracks.items()
        for track in tracks
        if session_id not in named and forgotten.has_track(session_id, track)
    ]
    if named:
        raise StoreError(
            f"{storage.location} was told to forget {listed(named)}, and the tables of {study.root} have it: take its "
            "rows out ('storyframes forget STUDY STORE --tables' does), or give a new recording a new id"
        )


def check_study_record(storage: Storage, study: Study, *, may_be_part: bool = False) -> None:
    """Refuse to read a store together with another study than its own; a store without a record is accepted.

    Args:
        may_be_part: allow that most of the sessions are gone; those of the same names are compared.

    Raises:
        StoreError: the store is of another study.
    """
    _refuse(storage, difference_from_record(storage, study, may_be_part=may_be_part))


def difference_from_record(storage: Storage, study: Study, *, may_be_part: bool = False) -> str:
    """Why a store is of another study; empty where it is of this one, or has no record. See :func:`check_study_record`.

    Raises:
        StoreError: the record is damaged.
    """
    before = _parse(storage.read(STUDY))
    if not before:
        return ""
    today = _read_sessions(study, before)
    ids = study.forgotten_ids
    before = _without(before, read_forgotten(storage).with_ids(ids.sessions, ids.people, ids.tracks))
    return _difference({name: before[name] for name in before.keys() & today} if may_be_part else before, today)


def _without(records: Mapping[str, _SessionRecord], forgotten: Forgotten) -> dict[str, _SessionRecord]:
    return {session_id: record for session_id, record in records.items() if not forgotten.has_session(session_id)}


def _unsealed(content: bytes | None) -> dict[str, Any]:
    try:
        return unseal(content, STUDY) or {}
    except RecordError:  # a damaged record, which is replaced
        return {}


def _parse(content: bytes | None) -> dict[str, _SessionRecord] | None:
    try:
        record = unseal(content, STUDY)
        if record is None:
            return None
        return {session_id: _SessionRecord(**fields) for session_id, fields in record["sessions"].items()}
    except (RecordError, KeyError, TypeError, AttributeError):
        raise StoreError(
            f"{STUDY} is damaged, so which study the store was made of is not known; if it is this one, "
            "'storyframes index STUDY STORE --replace-study' writes it again"
        ) from None


def _sessions_in(storage: Storage) -> dict[str, _SessionRecord]:
    """The sessions that have features, for a store of a version that did not record its study."""
    sessions = {path.split("/")[0] for path in storage.records((CURRENT, ATTEMPT))}
    return {session_id: _SessionRecord() for session_id in sessions - {STORIES}}


def _read_sessions(study: Study, before: Mapping[str, _SessionRecord]) -> dict[str, _SessionRecord]:
    return {session.session_id: _read_session(study, session, before) for session in study.sessions.values()}


def _read_session(study: Study, session: Session, before: Mapping[str, _SessionRecord]) -> _SessionRecord:
    """The record of the session as it is now; its recording is read only where it has changed."""
    recorded = before.get(session.session_id, _SessionRecord())
    relative = session.video or session.audio
    if relative is None:  # a transcript is corrected, and remains the same session's
        return _SessionRecord(session.participant_id)
    try:
        path = study.path(relative)
        state = recording_state(path)
        if state == (recorded.bytes, recorded.mtime_ns) and recorded.recording:
            recording = recorded.recording
        else:
            recording = recording_digest(path, digest_of_ends)
    except (StudyFileError, OSError):
        return _SessionRecord(session.participant_id)
    return _SessionRecord(session.participant_id, recording, *state)


def digest_of_ends(path: Path) -> str:
    """SHA-256 of a file's size, beginning and end, which distinguishes recordings without reading them completely.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(str(size).encode())
        digest.update(file.read(_ENDS_BYTES))
        file.seek(max(0, size - _ENDS_BYTES), os.SEEK_SET)
        digest.update(file.read(_ENDS_BYTES))
    return digest.hexdigest()


def _refuse(storage: Storage, difference: str) -> None:
    if difference:
        raise StoreError(
            f"{storage.location} is the feature store of another study: {difference}. Give this study a store of its "
            "own, or --replace-study if it takes the other one's place: then the clip index is of this study alone. If "
            "people withdrew, 'storyframes forget STUDY STORE SESSION' first"
        )


def _difference(before: Mapping[str, _SessionRecord], now: Mapping[str, _SessionRecord]) -> str:
    """Why these are two studies; empty where they are the same."""
    kept = before.keys() & now.keys()
    if 2 * len(kept) < len(before):
        return f"of its {_sessions(len(before))} this one has {len(kept)}"
    pairs = [(before[session_id], now[session_id]) for session_id in kept]
    recorded = [(then, today) for then, today in pairs if then.recording and today.recording]
    if recorded and not any(then.recording == today.recording for then, today in recorded):
        return f"{_sessions(len(recorded))} of the same name, all with other recordings"
    people = [(then, today) for then, today in pairs if then.participant_id]
    agreeing = sum(then.participant_id == today.participant_id for then, today in people)
    if not recorded and 2 * agreeing < len(people):
        return f"{_sessions(len(people))} of the same name, {len(people) - agreeing} with other participants"
    return ""


def _sessions(count: int) -> str:
    return f"{count} session{'s' * (count != 1)}"
