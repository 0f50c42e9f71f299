"""What the store already has: a feature that is up to date, or cannot be made, is settled without any work.

Only small records are read, so an unchanged study submits no work at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from storyframes.label_curves import is_label_curve
from storyframes.store.record_status import FeatureStatus, scan
from storyframes.store.records import Status
from storyframes.store.storage import FileInfo, Storage, StorageError
from storyframes.tracks import feature_and_track
from tasks.extract import Outcome, Work, current_if_sound, done, failed
from tasks.extractors.base import Extractor


@dataclass(frozen=True)
class StoreListing:
    """What the store has of a session, or of all."""

    storage: Storage
    entries: Mapping[tuple[str, str], FeatureStatus]
    files: Mapping[str, FileInfo]

    @classmethod
    def of(cls, storage: Storage, session_id: str) -> StoreListing:
        entries = {(entry.session_id, entry.feature): entry for entry in scan(storage, session_id)}
        files = storage.files("" if session_id == "*" else session_id, unreadable=lambda *_: None)  # asked for again
        return cls(storage, entries, files)

    @classmethod
    def by_session(cls, storage: Storage, session_ids: Sequence[str]) -> Callable[[str], StoreListing]:
        """What the store has of each session, when it is asked for.

        A folder is looked through session by session: what is known of a hundred thousand of them would take gigabytes.
        An object store is listed once: it would take a request for every question.

        Raises:
            StorageError: the store as a whole cannot be read.
        """
        folder = storage.local("")
        if folder is None and len(session_ids) > 1:
            everything = cls.of(storage, "*")
            return lambda _: everything
        if folder is not None:
            try:
                os.scandir(folder).close()
            except OSError as error:
                raise StorageError(f"{storage.location}: {error.strerror}") from error
        return lambda session_id: cls.of(storage, session_id)

    def count(self, session_id: str, feature: str) -> int:
        """The count of the current version, 0 where there is none."""
        entry = self.entries.get((session_id, feature))
        return entry.record.sequence if entry and entry.record else 0

    def label_curves(self, session_id: str, track: str) -> set[str]:
        """The curves of labels that a track of the session has, without the track in their names."""
        return self._label_curves.get((session_id, track), set())

    @cached_property
    def _label_curves(self) -> dict[tuple[str, str], set[str]]:
        found: dict[tuple[str, str], set[str]] = {}
        for session_id, stored in self.entries:
            feature, track = feature_and_track(stored)
            if is_label_curve(feature):
                found.setdefault((session_id, track), set()).add(feature)
        return found


def settled_outcome(known: StoreListing, work: Work, extractor: Extractor) -> Outcome | None:
    """The outcome where nothing needs to be done, or nothing can be; None where the work is due."""
    session_id, feature = work.session_id, work.stored(extractor.name)
    try:
        fingerprint = extractor.fingerprint(work.source).digest
    except Exception as error:  # of this feature alone, whatever a plug-in raises
        return failed(known.storage, work, extractor, error, "")
    entry = known.entries.get((session_id, feature))
    try:
        since = work.since.get(extractor.name)
        if current := current_if_sound(known.storage, entry, fingerprint, since, known.files):
            return done(current, skipped=True)
    except OSError:  # whether it is intact cannot be told: the attempt will say so, and leave the others alone
        return None
    attempt = entry.attempt if entry else None
    if attempt and attempt.status is Status.MISSING and attempt.fingerprint == fingerprint and not work.since:
        # An earlier attempt on the very same input found nothing to extract: so would this one.
        return Outcome(session_id, feature, Status.MISSING, skipped=True, reason=attempt.reason)
    return None
