"""The study owner's own list of who is forgotten: ``forgotten.json`` in the study's folder, with mode 0600.

It is the only place that keeps these ids, so that tables, stores and backups that have them again are recognised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from storyframes.store.layout import FORGOTTEN, StoreError
from storyframes.store.storage import Storage
from storyframes.store.storage.files import write_atomically
from storyframes.store.study import Forgotten
from storyframes.store.validation import parse_json

NAME = "forgotten.json"
_KEY = "storyframes_forgotten"


class ForgottenListError(StoreError):
    """The list of the forgotten cannot be read."""


@dataclass(frozen=True)
class ForgottenIds:
    """Who is forgotten.

    Attributes:
        sessions: sessions of which nothing may be kept.
        people: participants and persons.
        tracks: single tracks, as session and track.
        files: the SHA-256 of the paths of their files in the study, which may be named after people.
    """

    sessions: frozenset[str] = frozenset()
    people: frozenset[str] = frozenset()
    tracks: frozenset[tuple[str, str]] = frozenset()
    files: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.sessions or self.people or self.tracks)

    def with_ids(self, sessions: Iterable[str], people: Iterable[str], tracks: Iterable[tuple[str, str]]) -> Self:
        """This list, and further ids."""
        return replace(
            self,
            sessions=self.sessions | {*sessions},
            people=self.people | {*people},
            tracks=self.tracks | {*tracks},
        )

    def with_files(self, paths: Iterable[str]) -> Self:
        """This list, and files of the forgotten, by their paths in the study."""
        return replace(self, files=self.files | {*map(_digest, paths)})

    def has_file(self, path: str) -> bool:
        """Whether a file of this path in the study was one of theirs."""
        return _digest(path) in self.files

    def write(self, study: Path) -> None:
        """Write the list into the study's folder, durably.

        Raises:
            OSError: it cannot be written.
        """
        content = {
            _KEY: 1,
            "sessions": sorted(self.sessions),
            "people": sorted(self.people),
            "tracks": [list(track) for track in sorted(self.tracks)],
            "files": sorted(self.files),
        }
        write_atomically(study / NAME, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")
        (study / NAME).chmod(0o600)


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()


def read_forgotten_ids(study: Path) -> ForgottenIds:
    """The list of a study; empty where there is none.

    Raises:
        ForgottenListError: it is damaged, so who is forgotten is not known.
    """
    path = study / NAME
    try:
        content = parse_json(path.read_bytes())
        if content[_KEY] != 1:
            raise ForgottenListError(f"{path} is of a newer storyframes: update it")
        tracks = frozenset((str(session), str(track)) for session, track in content["tracks"])
        sessions, people = frozenset(map(str, content["sessions"])), frozenset(map(str, content["people"]))
        return ForgottenIds(sessions, people, tracks, frozenset(map(str, content.get("files", ()))))
    except (FileNotFoundError, NotADirectoryError):
        return ForgottenIds()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{path} cannot be read ({type(error).__name__}), so who is forgotten is not known"
        raise ForgottenListError(f"{why}: restore it from a backup") from None


def note_forgotten(storage: Storage, ids: ForgottenIds) -> None:
    """Add digests of these ids to those of a store; from now on it publishes nothing of them.

    Raises:
        StorageError: the store cannot be written.
    """

    def change(content: bytes | None) -> bytes | None:
        try:
            before = Forgotten.parse(content)
        except StoreError:  # damaged: the study's list has everything
            before = Forgotten()
        after = before.with_ids(ids.sessions, ids.people, ids.tracks)
        return None if after == before else after.to_json()

    if ids:
        storage.update(FORGOTTEN, change)
