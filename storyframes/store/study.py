"""What a feature store knows of its study: its sessions and people, who is forgotten, and what was given away of them.

``study.json`` is the record of the study that ``extract`` and ``index`` keep. It is of the moment when the study's
tables were read, and older than the catalogue where this has a version that was published after the last command that
knew the study had written both. By it the sessions are found that the store has and the study does not.

``forgotten.json`` has keyed digests of the ids of sessions, tracks and people that the store was told to forget. No id
can be read from it; anybody with the file who guesses an id can confirm it. So the store refuses a session whose folder
a backup brings back, and a release is compared with ids that no table has any more.

``given.json`` notes the releases and exports that were made of the store, with their dates and sessions. Nothing brings
back what left the store: a person who withdraws can at least learn where it went.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from storyframes.features import STORIES
from storyframes.spec import MAIN, feature_and_track
from storyframes.store.layout import CATALOGUE, FORGOTTEN, GIVEN, STUDY, StoreError
from storyframes.store.record_status import scan
from storyframes.store.records import RecordError, now, seal, unseal
from storyframes.store.storage import Storage
from storyframes.store.table_files import parse_table, read_table

_LOG = logging.getLogger("storyframes")
_WORDS = re.compile(r"[^\W_]+")  # an underscore ends a word: names of columns have it between their parts, valence_p01
_KINDS = ("video", "audio")  # of inputs, those that are recordings
_MOST_NAMED = 20
_MOST_GIVEN = 1_000


# --- the record of the study ---


@dataclass(frozen=True)
class StudyRecord:
    """What a store knows of its study.

    Attributes:
        sessions: by session, its participant and its recording.
        people: the ids of all people; None in a record of an older version, which did not list them.
        raters: the ids of human raters.
        left: ids of sessions and people that the study had once.
        left_participants: by session that the study had once, its participant; without those of which it is unknown.
        read_at: when the tables were read, UTC; empty in a record of an older version.
        confirmed_at: the catalogue had no later version when the record was last written.
    """

    sessions: Mapping[str, Mapping[str, Any]]
    people: tuple[str, ...] | None = None
    raters: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    left_participants: Mapping[str, str] = field(default_factory=dict)
    read_at: str = ""
    confirmed_at: str = ""

    @property
    def date(self) -> str:
        """When the tables were read, for people."""
        return f"{self.read_at[:16].replace('T', ' ')} UTC"

    def why_older(self, storage: Storage) -> str:
        """Why the record cannot say which sessions the study has now; empty where it can.

        Raises:
            StoreError: the catalogue is damaged.
        """
        if not self.read_at:
            return f"{STUDY} is of a version of storyframes that did not date it"
        newest = newest_version(storage)
        if newest > self.confirmed_at:
            return f"{STUDY} is of {self.date}, and the catalogue has a version of {newest[:16].replace('T', ' ')} UTC"
        return ""


def read_study_record(storage: Storage) -> StudyRecord | None:
    """The record of a store's study; None where it has none.

    Raises:
        StoreError: it is damaged.
        StorageError: it cannot be read.
    """
    try:
        content = unseal(storage.read(STUDY), STUDY)
        if content is None:
            return None
        people = content.get("people")
        return StudyRecord(
            {str(name): dict(fields) for name, fields in content["sessions"].items()},
            None if people is None else tuple(map(str, people)),
            tuple(map(str, content.get("raters", ()))),
            tuple(map(str, content.get("left", ()))),
            {str(name): str(participant) for name, participant in content.get("left_participants", {}).items()},
            str(content.get("read_at", "")),
            str(content.get("confirmed_at", "")),
        )
    except (RecordError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{STUDY} is damaged ({error}); 'storyframes index STUDY STORE --replace-study' writes it again"
        ) from None


def confirm_study_record(storage: Storage) -> None:
    """Note that the catalogue, as it is now, was written by a command that knew the study.

    Raises:
        StoreError: the record or the catalogue is damaged.
        StorageError: one cannot be read or written.
    """
    newest = newest_version(storage)

    def change(before: bytes | None) -> bytes | None:
        try:
            content = unseal(before, STUDY)
        except RecordError as error:
            raise StoreError(f"{error}; 'storyframes index STUDY STORE --replace-study' writes it again") from None
        if content is None or newest <= content.get("confirmed_at", ""):
            return None
        return seal(content | {"confirmed_at": max(newest, now())})

    storage.update(STUDY, change)


def newest_version(storage: Storage) -> str:
    """When the last of the versions in the catalogue was published, UTC; empty where there is none."""
    import pyarrow.compute as pc  # half a second, which a run with nothing due does without

    content = read_table(storage, CATALOGUE)
    if content is None:
        return ""
    column = parse_table(content, CATALOGUE, ["created_at"])["created_at"]
    return str(pc.max(column).as_py() or "")


# --- who is forgotten ---


def id_words(text: str) -> tuple[str, ...]:
    """The words of a text in small letters: an id is recognised whatever punctuation is between its parts."""
    return tuple(_WORDS.findall(text.casefold()))


def is_distinctive(name: str) -> bool:
    """Whether an id is more than a number or a letter, which any text may contain."""
    return len(name) > 2 or (name.isalnum() and not name.isalpha() and not name.isdigit())


@dataclass(frozen=True)
class Forgotten:
    """Digests by which a store recognises what it was told to forget.

    Attributes:
        key: of the digests, random.
        sessions, tracks, people: digests of the ids.
        words: digests of the words of these ids, as texts have them.
        longest: the most words of an id.
    """

    key: str = ""
    sessions: frozenset[str] = frozenset()
    tracks: frozenset[str] = frozenset()
    people: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    longest: int = 0

    id_words = staticmethod(id_words)
    is_distinctive = staticmethod(is_distinctive)

    def __bool__(self) -> bool:
        return bool(self.key)

    def has_session(self, session_id: str) -> bool:
        """Whether the session is forgotten."""
        return bool(self.sessions) and self._digest("session", session_id) in self.sessions

    def has_track(self, session_id: str, track: str) -> bool:
        """Whether the track is forgotten, alone or with its session."""
        is_alone = bool(self.tracks) and self._digest("track", session_id, track) in self.tracks
        return is_alone or self.has_session(session_id)

    def has_feature(self, session_id: str, feature: str) -> bool:
        """Whether the feature is of a session or of a track that is forgotten."""
        if not self.tracks:
            return self.has_session(session_id)
        return self.has_track(session_id, feature_and_track(feature)[1] or MAIN)

    def has_person(self, person_id: str) -> bool:
        """Whether the participant or person is forgotten."""
        return bool(self.people) and self._digest("person", person_id) in self.people

    def has_words(self, words: tuple[str, ...]) -> bool:
        """Whether these words, as :func:`id_words` gives them, are the id of a forgotten session or person."""
        return len(words) <= self.longest and self._digest("words", *words) in self.words

    def with_ids(self, sessions: Iterable[str], people: Iterable[str], tracks: Iterable[tuple[str, str]] = ()) -> Self:
        """These digests, and those of further ids."""
        sessions, people = [*sessions], [*people]
        made = self if self.key else replace(self, key=secrets.token_hex(32))
        words = [id_words(name) for name in (*sessions, *people) if is_distinctive(name)]
        return replace(
            made,
            sessions=made.sessions | {made._digest("session", name) for name in sessions},
            tracks=made.tracks | {made._digest("track", *track) for track in tracks},
            people=made.people | {made._digest("person", name) for name in people},
            words=made.words | {made._digest("words", *of_id) for of_id in words},
            longest=max([made.longest, *map(len, words)]),
        )

    def to_json(self) -> bytes:
        """The content of ``forgotten.json``."""
        fields = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(self).items()}
        return seal(fields)

    @classmethod
    def parse(cls, content: bytes | None) -> Self:
        """What the file has; nothing where there is no file.

        Raises:
            StoreError: it is damaged.
        """
        try:
            record = unseal(content, FORGOTTEN)
            return cls() if record is None else cls(**_typed(record))
        except (RecordError, TypeError, ValueError):
            raise StoreError(
                f"{FORGOTTEN} is damaged, so whom this store was told to forget is not known: 'storyframes forget "
                "STUDY STORE' writes it again"
            ) from None

    def _digest(self, *texts: str) -> str:
        return hmac.new(bytes.fromhex(self.key), "\0".join(texts).encode(), hashlib.sha256).hexdigest()


def _typed(record: dict[str, Any]) -> dict[str, Any]:
    bytes.fromhex(record["key"])
    return {name: frozenset(value) if isinstance(value, list) else value for name, value in record.items()}


def read_forgotten(storage: Storage) -> Forgotten:
    """What a store was told to forget.

    Raises:
        StoreError: the file is damaged.
        StorageError: it cannot be read.
    """
    return Forgotten.parse(storage.read(FORGOTTEN))


# --- sessions that the store has and its study does not: renamed ones, and those of people who withdrew ---


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
    recordings = {session: recordings_of(storage, session) for session in left}
    if sizes := {size for files in recordings.values() for size in files.values()}:
        known_sizes = {} if None in sizes else _sizes_of_recordings(storage)
        for session in stored:
            if session in of_study and known_sizes.get(session) in (None, *sizes):
                recordings[session] = recordings_of(storage, session)
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
    return {name: session["bytes"] for name, session in sessions.items() if session.get("bytes")}


def recordings_of(storage: Storage, session_id: str) -> dict[str, int | None]:
    """By SHA-256 of each recording that a session's current versions were made of, its bytes; None where unknown.

    Raises:
        StorageError: the store cannot be read.
    """
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


# --- what was given away ---


def note_given(storage: Storage, what: str, name: str, sessions: Collection[str]) -> None:
    """Note that a release or an export was made; a store that cannot be written is left as it is.

    Args:
        what: ``release`` or ``export``.
        name: of its folder, without the path to it.
        sessions: those that it has.
    """

    def change(content: bytes | None) -> bytes | None:
        try:
            before = (unseal(content, GIVEN) or {}).get("given", [])
        except RecordError:
            before = []
        entry = {"at": now(), "what": what, "name": name, "sessions": sorted(sessions)}
        return seal({"given": [*before, entry][-_MOST_GIVEN:]})

    try:
        storage.update(GIVEN, change)
    except (OSError, ImportError) as error:  # another user's store, or a system that writes none
        _LOG.info("that the store was given away cannot be noted in it: %s", error)


def given_away(storage: Storage) -> list[dict[str, Any]]:
    """The releases and exports of a store: when, what, the folder's name, and the sessions.

    Raises:
        StoreError: the list is damaged.
        StorageError: the store cannot be read.
    """
    try:
        entries = (unseal(storage.read(GIVEN), GIVEN) or {}).get("given", [])
    except RecordError:
        raise StoreError(
            f"{storage.location}/{GIVEN} is damaged, so which releases and exports were made is not known: remove it"
        ) from None
    return [entry for entry in entries if {"at", "what", "name", "sessions"} <= entry.keys()]


def without_sessions(content: bytes | None, sessions: Collection[str]) -> tuple[int, bytes | None]:
    """How many entries name one of these sessions, and the file without their names; None where none does."""
    try:
        entries = (unseal(content, GIVEN) or {}).get("given", [])
    except RecordError:
        return 0, None
    named = [entry for entry in entries if {*entry.get("sessions", ())} & {*sessions}]
    for entry in named:
        kept = [name for name in entry["sessions"] if name not in sessions]
        entry["forgotten"] = entry.get("forgotten", 0) + len(entry["sessions"]) - len(kept)
        entry["sessions"] = kept
    return len(named), seal({"given": entries}) if named else None
