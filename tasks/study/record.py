"""Which study a feature store belongs to: a second one is refused before its clips take the place of the first's.

A store remembers the sessions of its study, their participants, and each recording by a few bytes of it. Sessions that
are added, some that are withdrawn, a folder that moved, tables that were corrected and single recordings that were
replaced leave it the same study. It is another one where most of the sessions are gone, or where none of the sessions
that have the same names has the same recording.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import replace as replaced
from pathlib import Path

from storyframes.features import STORIES
from storyframes.store.layout import STUDY, StoreError
from storyframes.store.records import ATTEMPT, CURRENT, RecordError, seal, unseal
from storyframes.store.storage import Storage
from tasks.study.labels import RaterKind
from tasks.study.load import Session, Study, StudyFileError

_ENDS_BYTES = 1 << 16  # of a recording's beginning and of its end


@dataclass(frozen=True)
class _Known:
    """What is remembered of a session.

    Attributes:
        participant_id: empty where it is not known.
        recording: SHA-256 of the recording's size, beginning and end; empty where it could not be read.
        bytes, mtime_ns: of the recording; while they stay, it is not read again.
    """

    participant_id: str = ""
    recording: str = ""
    bytes: int = 0
    mtime_ns: int = 0


def remember_study(storage: Storage, study: Study, *, replace: bool = False) -> None:
    """Make sure that the store is this study's, and note it as it is now.

    Args:
        storage: the store.
        study: a valid study.
        replace: it takes the place of whatever study the store was made of.

    Raises:
        StoreError: the store is another study's; nothing was changed.
    """

    def change(content: bytes | None) -> bytes | None:
        try:
            before = _parse(content)
        except StoreError:
            if not replace:
                raise
            before = {}
        if before is None:
            before = _sessions_in(storage)
        now = _look_at_all(study, before)
        if not replace:
            _check(storage, before, now)
        sessions = {session_id: asdict(_kept(before, session_id, known)) for session_id, known in sorted(now.items())}
        sealed = seal({"sessions": sessions, "people": _people_of(study), "raters": _raters_of(study)})
        return None if sealed == content else sealed

    storage.update(STUDY, change)


def check_study_record(storage: Storage, study: Study) -> None:
    """Refuse to read a store beside a study that it was not made of; a store that remembers none goes with any.

    Raises:
        StoreError: it is another study's.
    """
    if before := _parse(storage.read(STUDY)):
        _check(storage, before, _look_at_all(study, before))


def _parse(content: bytes | None) -> dict[str, _Known] | None:
    try:
        record = unseal(content, STUDY)
        if record is None:
            return None
        return {session_id: _Known(**known) for session_id, known in record["sessions"].items()}
    except (RecordError, KeyError, TypeError, AttributeError):
        raise StoreError(
            f"{STUDY} is damaged, so which study the store was made of is not known; if it is this one, "
            "'storyframes index STUDY STORE --replace-study' writes it again"
        ) from None


def _sessions_in(storage: Storage) -> dict[str, _Known]:
    """Of a store that was made before stores remembered their study: the sessions that it has features of."""
    sessions = {path.split("/")[0] for path in storage.records((CURRENT, ATTEMPT))}
    return {session_id: _Known() for session_id in sessions - {STORIES}}


def _kept(before: Mapping[str, _Known], session_id: str, now: _Known) -> _Known:
    """What is remembered from now on: of a recording that cannot be read, what was known of it."""
    if now.recording or session_id not in before:
        return now
    return replaced(before[session_id], participant_id=now.participant_id)


def _people_of(study: Study) -> list[str]:
    """The ids of everybody in the study, for releases, which must not name them: participants with or without a
    session, and persons by whose id one participant is known. An id that several participants have is a role.
    """
    participants_of: dict[str, set[str]] = {}
    for person in study.persons:
        if person.participant_id:
            participants_of.setdefault(person.person_id, set()).add(person.participant_id)
    return sorted(
        {session.participant_id for session in study.sessions.values()}
        | {participant.participant_id for participant in study.participants}
        | {survey.participant_id for survey in study.surveys}
        | {participant for participants in participants_of.values() for participant in participants}
        | {person for person, participants in participants_of.items() if len(participants) == 1}
    )


def _raters_of(study: Study) -> list[str]:
    """The ids of raters, without those that are machines."""
    return sorted(rater.rater_id for rater in study.raters.values() if rater.kind is not RaterKind.MACHINE)


def _look_at_all(study: Study, before: Mapping[str, _Known]) -> dict[str, _Known]:
    return {session.session_id: _look_at(study, session, before) for session in study.sessions.values()}


def _look_at(study: Study, session: Session, before: Mapping[str, _Known]) -> _Known:
    """The session as it is now."""
    known = before.get(session.session_id, _Known())
    try:
        path = study.path(session.video)
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == (known.bytes, known.mtime_ns) and known.recording:
            recording = known.recording
        else:
            recording = digest_of_ends(path)
    except (StudyFileError, OSError):
        return _Known(session.participant_id)
    return _Known(session.participant_id, recording, status.st_size, status.st_mtime_ns)


def digest_of_ends(path: Path) -> str:
    """SHA-256 of a file's size, beginning and end: what tells recordings from each other without reading them whole.

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


def _check(storage: Storage, before: Mapping[str, _Known], now: Mapping[str, _Known]) -> None:
    if difference := _difference(before, now):
        raise StoreError(
            f"{storage.location} is the feature store of another study: {difference}. Give this study a store of its "
            "own, or --replace-study if it takes the other one's place: then the clip index is of this study alone"
        )


def _difference(before: Mapping[str, _Known], now: Mapping[str, _Known]) -> str:
    """Why these are two studies; empty where they are one."""
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
