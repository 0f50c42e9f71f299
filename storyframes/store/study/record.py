"""The record of the study that a store belongs to, and how old it is.

A record is of the moment when the study's tables were read. It is older than the catalogue where the catalogue has a
version that was published after the last command that knew the study had written both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from storyframes.store.layout import CATALOGUE, STUDY, StoreError
from storyframes.store.records import RecordError, now, seal, unseal
from storyframes.store.storage import Storage
from storyframes.store.table_files import parse_table, read_table


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
