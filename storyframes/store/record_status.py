"""The status of every feature of every session, as the records beside the versions say it.

The records are the truth. :mod:`storyframes.store.catalogue` keeps the same statuses in one table, so that a reader
opens one file.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Self, TypeVar

from storyframes.store.layout import attempt_path, current_path
from storyframes.store.records import ATTEMPT, CURRENT, MEASURED, Attempt, Current, RecordError, Status
from storyframes.store.storage import Storage, StorageError
from storyframes.store.validation import ID_PATTERN, are_names

ALL_SESSIONS = "*"
WHOLE_SESSION = "*"
"""The feature of a status that is about a whole session, of which not even the features' names can be read."""
BATCH = 2_000
"""Statuses in memory at a time, where all of a store are read."""
_SHARES = (MEASURED, "face_tracked", "words_known")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """What the catalogue keeps of a current version; the attributes are those of :class:`Current`."""

    version: str
    fingerprint: str
    created_at: str
    rows: int
    nbytes: int
    caveats: list[str] = field(default_factory=list)
    quality: dict[str, float] = field(default_factory=dict)

    @property
    def measured_share(self) -> float | None:
        """The share of the rows that are measurements; None where it is not recorded.

        Older versions recorded it of faces and words only.
        """
        return next((self.quality[name] for name in _SHARES if name in self.quality), None)

    @property
    def measured_rows(self) -> str:
        """The number of rows; where fewer than half are measurements, also the number of these: ``0 of 60``."""
        share = self.measured_share
        return str(self.rows) if share is None or share >= 0.5 else f"{round(share * self.rows)} of {self.rows}"

    @classmethod
    def of(cls, record: Current) -> Self:
        return cls(*(getattr(record, own.name) for own in fields(cls)))


@dataclass(frozen=True, slots=True)
class FeatureStatus:
    """What a store has of one feature of one session, and why not where it has nothing.

    Attributes:
        session_id: the session, or ``stories``.
        feature: as the store calls it; :data:`WHOLE_SESSION` where the session's folder cannot be read.
        reason: why the last attempt gave no version, or what cannot be read; empty for ``done``.
        current: the current version, which an attempt that failed later leaves as it is.
        record: the whole record of the current version; None in a status that was taken from the catalogue.
        attempt: the record of the last attempt where it gave no version; likewise.
        is_damaged: a record, or the folder, cannot be read.
        outdated: of a feature that is made of others, what of these has changed since; empty where nothing did, and
            where nobody asked (:func:`storyframes.derived_status.with_outdated`).
    """

    WHOLE_SESSION: ClassVar[str] = WHOLE_SESSION  # in the place of a feature, where a session's folder cannot be read

    session_id: str
    feature: str
    status: Status
    reason: str = ""
    current: VersionSummary | None = None
    record: Current | None = None
    attempt: Attempt | None = None
    is_damaged: bool = False
    outdated: str = ""

    @classmethod
    def of(cls, session_id: str, feature: str, record: Current | None, attempt: Attempt | None, damage: str) -> Self:
        """The status that two records give; ``damage`` is what could not be read, empty where everything could."""
        status = Status.FAILED if damage else attempt.status if attempt else Status.DONE
        reason = damage or (attempt.reason if attempt else "")
        current = VersionSummary.of(record) if record else None
        return cls(session_id, feature, status, reason, current, record, attempt, bool(damage))

    def __repr__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        current = f", {self.record or self.current!r}" if self.current else ""
        return f"FeatureStatus({self.session_id}/{self.feature}: {self.status}{reason}{current})"

    @property
    def sort_key(self) -> str:
        """The path of the feature's folder, by which statuses are sorted; of a whole session that of what is in it."""
        return f"{self.session_id}/{'' if self.feature == WHOLE_SESSION else self.feature}"


def read_status(storage: Storage, session_id: str, feature: str) -> FeatureStatus | None:
    """The status of one feature; None where no attempt at it ever ended.

    Raises:
        StorageError: a record exists and cannot be read.
    """
    paths = current_path(session_id, feature), attempt_path(session_id, feature)
    return _status(session_id, feature, storage.read_many(paths))


def scan(storage: Storage, session_id: str = ALL_SESSIONS, *, also: Iterable[str] = ()) -> Iterator[FeatureStatus]:
    """Every status of the store (or of one session), from the records themselves.

    What cannot be read gives a status as well: failed, with the reason.

    Args:
        session_id: the session, ``*`` for all; nothing else is listed then.
        also: folders ``<session>/<feature>`` whose records are read though a listing leaves them out.

    Raises:
        StorageError: the store as a whole cannot be read.
    """
    if session_id != ALL_SESSIONS and not ID_PATTERN.fullmatch(session_id):
        return  # no session of a store has such a name, and as a path it could lead out of the store
    unreadable: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for path in storage.records((CURRENT, ATTEMPT), session_id, unreadable.__setitem__):
        folder, name = path.rsplit("/", 1)
        if are_names(folder):
            names.setdefault(folder, []).append(name)
    for folder in also:
        if folder and are_names(folder):
            names.setdefault(folder, [CURRENT, ATTEMPT])
    yield from _read_statuses(storage, names, unreadable)


def digest_of_records(storage: Storage) -> bytes:
    """A digest that stays the same only while all records do; empty where that of one cannot be known.

    Raises:
        StorageError: the store cannot be read.
    """
    unreadable: dict[str, str] = {}
    digest = hashlib.sha256()
    for path, state in storage.states((CURRENT, ATTEMPT), unreadable.__setitem__):
        if not state:
            return b""
        digest.update(f"{path}={state}\n".encode("utf-8", "surrogateescape"))  # a file name need not be UTF-8
    return b"" if unreadable else digest.digest()


def _read_statuses(
    storage: Storage, names: Mapping[str, Iterable[str]], unreadable: Mapping[str, str]
) -> Iterator[FeatureStatus]:
    """The statuses that these records give, a few at a time, and those of what could not be listed.

    Args:
        names: of the records, by their folder.
        unreadable: paths that could not be listed, and why.

    Raises:
        StorageError: the store as a whole cannot be read.
    """
    if "" in unreadable:
        raise StorageError(f"{storage.location}: {unreadable['']}")
    damage: dict[str, str] = {}
    for path, reason in unreadable.items():
        folder = "/".join(path.split("/")[:2])
        if are_names(folder) or ID_PATTERN.fullmatch(folder):
            damage.setdefault(folder, reason)
    every = sorted(names.keys() | damage.keys(), key=lambda folder: folder if "/" in folder else f"{folder}/")
    for folders in batches(every, BATCH):
        unread: dict[str, str] = {}
        paths = [f"{folder}/{name}" for folder in folders for name in names.get(folder, ())]
        contents = storage.read_many(paths, unread.__setitem__)
        for path, reason in unread.items():
            damage.setdefault(path.rsplit("/", 1)[0], reason)
        for folder in folders:
            session_id, _, feature = folder.partition("/")
            if not feature:
                yield FeatureStatus.of(session_id, WHOLE_SESSION, None, None, damage[folder])
            elif status := _status(session_id, feature, contents, damage.get(folder, "")):
                yield status


def batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """The items in lists of at most ``size``."""
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def _status(
    session_id: str, feature: str, contents: Mapping[str, bytes | None], damage: str = ""
) -> FeatureStatus | None:
    path = current_path(session_id, feature)
    try:
        record = Current.parse_of(session_id, feature, contents.get(path), path)
    except RecordError as error:
        damage = f"{error}; the next extraction makes it again"
        return FeatureStatus.of(session_id, feature, None, None, damage)
    path = attempt_path(session_id, feature)
    try:
        attempt = Attempt.parse_of(session_id, feature, contents.get(path), path)
    except RecordError:
        attempt = None  # only the reason of an older failure is lost
    if record and attempt and not _is_later(attempt, record):
        attempt = None  # a publisher was killed between making the version current and removing this file
    if not (record or attempt or damage):
        return None
    return FeatureStatus.of(session_id, feature, record, attempt, damage)


def _is_later(attempt: Attempt, record: Current) -> bool:
    """Whether the attempt was noted after the version was published: by the count, as clocks can be wrong."""
    if attempt.sequence or record.sequence:
        return attempt.sequence > record.sequence
    return attempt.at > record.created_at  # records of older versions, which have no count
