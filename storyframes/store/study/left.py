"""The sessions that a store has and its study does not: renamed ones, and those of people who withdrew."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from storyframes.features import STORIES
from storyframes.store.layout import StoreError
from storyframes.store.record_status import scan
from storyframes.store.storage import Storage
from storyframes.store.study.forgotten import Forgotten
from storyframes.store.study.record import read_study_record

_KINDS = ("video", "audio")  # of inputs, those that are recordings
_MOST_NAMED = 20


def sessions_left(storage: Storage, stored: Iterable[str], of_study: Collection[str]) -> dict[str, str]:
    """By session of the store that the study does not have, another session with the same recordings; else empty.

    The records of a session of the study are read only where the record of the study does not show that its recording
    (its video, else its sound) has another size.

    Args:
        stored: the sessions that the store has anything of.
        of_study: those of the study.

    Raises:
        StorageError: the store cannot be read.
    """
    stored = sorted({*stored} - {STORIES})
    left = [session for session in stored if session not in of_study]
    if not left:
        return {}
    recordings = {session: _recordings(storage, session) for session in left}
    sizes = {size for files in recordings.values() for size in files.values()}
    if sizes:
        known_sizes = {} if None in sizes else _sizes_of_recordings(storage)
        for session in stored:
            if session in of_study and known_sizes.get(session) in (None, *sizes):
                recordings[session] = _recordings(storage, session)
    users: dict[str, list[str]] = {}
    for session in sorted(recordings):
        for digest in recordings[session]:
            users.setdefault(digest, []).append(session)
    twins: dict[str, str] = {}
    for session in left:
        others = [other for digest in recordings[session] for other in users[digest] if other != session]
        twins[session] = next((other for other in others if other in of_study), others[0] if others else "")
    return twins


def _sizes_of_recordings(storage: Storage) -> dict[str, int]:
    """By session of the record of the study, the bytes of its recording; without those that could not be read."""
    try:
        record = read_study_record(storage)
    except StoreError:  # then the records of every session are read
        return {}
    sessions = record.sessions if record else {}
    return {name: session.get("bytes", 0) for name, session in sessions.items() if session.get("recording")}


def recordings_of(storage: Storage, session_id: str) -> set[str]:
    """SHA-256 of the recordings that a session's current versions were made of.

    Raises:
        StorageError: the store cannot be read.
    """
    return {*_recordings(storage, session_id)}


def _recordings(storage: Storage, session_id: str) -> dict[str, int | None]:
    """The same with the bytes of each; None where a version does not say them."""
    recordings: dict[str, int | None] = {}
    for status in scan(storage, session_id):
        inputs = status.record.provenance.get("inputs") if status.record else None
        for kind in _KINDS:
            made_of = inputs.get(kind) if isinstance(inputs, Mapping) else None
            if isinstance(made_of, Mapping) and isinstance(made_of.get("sha256"), str):
                size = made_of.get("bytes")
                recordings[made_of["sha256"]] = size if isinstance(size, int) else None
    return recordings


def describe_left(left: Mapping[str, str], forgotten: Forgotten) -> Iterator[str]:
    """A sentence for each of :func:`sessions_left`, and one for those that have no other's recordings.

    Args:
        forgotten: what the store was told to forget; a backup may have brought it back.
    """
    back = [session for session in left if forgotten.has_session(session)]
    if back:
        count = f"{len(back)} session{'s' * (len(back) != 1)}"
        yield (
            f"{count} not in the study, which the store was told to forget, from a backup perhaps: 'storyframes forget "
            "STUDY STORE' removes what is here of them again"
        )
    left = {session: twin for session, twin in left.items() if session not in back}
    renamed = {session: twin for session, twin in left.items() if twin}
    for session, twin in renamed.items():
        yield (
            f"{session} is in the store and not in the study, and has the recordings of {twin}: if it was renamed, "
            f"'storyframes forget STUDY STORE {session}' removes the old one"
        )
    if others := [session for session in left if session not in renamed]:
        shown = ", ".join(others[:_MOST_NAMED]) + (" …" if len(others) > _MOST_NAMED else "")
        yield (
            f"in the store and not in the study: {shown}. If people withdrew, 'storyframes forget STUDY STORE SESSION' "
            "removes what is here of them"
        )
