"""Removing from a feature store what nothing refers to, while any number of processes write and read.

This is safe at any grace: a version is removed only where its writer is known to have ended, or was forbidden first to
publish it (docs/store.md, "Removing"). The grace is a promise to readers alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Self

import numpy as np

from storyframes.store.catalogue import compact, named_versions
from storyframes.store.layout import VERSION_PATTERN, ZARR_JSON
from storyframes.store.records import CURRENT, Current, RecordError, condemn, condemned
from storyframes.store.storage import FileInfo, Storage, StorageError, Unreadable
from storyframes.store.storage.files import TEMPORARY_SUFFIX
from storyframes.store.storage.local_folder import LOCK_SUFFIX


class Garbage(StrEnum):
    """Why a path of the store can be removed."""

    VERSION = "version that is not current"
    TEMPORARY = "temporary file of a killed writer"


@dataclass(frozen=True)
class Removal:
    """One path that ``collect`` removed (or would remove)."""

    path: str
    kind: Garbage
    bytes: int


def collect(
    storage: Storage, grace_s: float, *, dry_run: bool = False, unreadable: Unreadable | None = None
) -> Iterator[Removal]:
    """Remove versions that are not current, and what killed writers left, unchanged for ``grace_s`` seconds or more.

    The grace of a superseded version begins when it was superseded: a training job that opened the store before that
    still reads it. A version that the catalogue names is kept, so the catalogue is compacted first. What a process is
    writing is left alone, however old it looks.

    Args:
        grace_s: the promise to readers; 0 promises them nothing.
        unreadable: called with every path that cannot be read; nothing is removed there.

    Raises:
        StorageError: something cannot be read, and ``unreadable`` is not given.
    """
    if not dry_run:
        with contextlib.suppress(OSError):  # a full disk: then what the older catalogue names is kept
            compact(storage)
    named = _Named() if dry_run else _Named.of(storage)
    deadline_ns = (storage.now_ns() or time.time_ns()) - grace_s * 1e9
    for piece in storage.pieces(unreadable):
        yield from _collect_piece(storage, piece, named, deadline_ns, dry_run=dry_run, unreadable=unreadable)


@dataclass(frozen=True)
class _Named:
    """The versions that a reader who opens the store now will read: eight bytes of each, as there may be a million.

    Where another path has the same hash, it stays until the next gc, whose process has other hashes.
    """

    hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # sorted

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """Those that the catalogue names.

        Raises:
            StoreError: it is damaged.
            StorageError: it cannot be read.
        """
        paths = (path for table in named_versions(storage) for path in table["path"].to_pylist())
        return cls(np.sort(np.fromiter(map(hash, paths), np.int64)))

    def __contains__(self, path: str) -> bool:
        place = np.searchsorted(self.hashes, hash(path))
        return bool(place < len(self.hashes) and self.hashes[place] == hash(path))


def _collect_piece(
    storage: Storage,
    piece: Mapping[str, FileInfo],
    named: _Named,
    deadline_ns: float,
    *,
    dry_run: bool,
    unreadable: Unreadable | None,
) -> Iterator[Removal]:
    """Remove what can be removed of some sessions; ``piece`` has all of their files."""
    versions: dict[str, dict[str, FileInfo]] = {}
    leftovers: dict[str, FileInfo] = {}
    for path, info in piece.items():
        parts = path.split("/")
        if len(parts) > 2 and VERSION_PATTERN.fullmatch(parts[2]):
            versions.setdefault("/".join(parts[:3]), {})[path] = info
        elif _is_leftover(parts[-1]):
            leftovers[path] = info
    for version, files in sorted(versions.items()):
        newest_ns = max(info.mtime_ns for info in files.values())
        if version in named or newest_ns >= deadline_ns:
            continue
        with _reporting(version, unreadable), storage.unused(version, newest_ns) as unused:
            if unused and _is_removable(storage, version, deadline_ns, dry_run):
                if not dry_run:
                    storage.remove(_metadata_first(files))
                yield Removal(version, Garbage.VERSION, sum(info.bytes for info in files.values()))
    for path, info in sorted(leftovers.items()):
        if info.mtime_ns >= deadline_ns:
            continue
        with _reporting(path, unreadable), storage.abandoned(path) as abandoned:
            if abandoned:
                if not dry_run:
                    storage.remove([path])
                yield Removal(path, Garbage.TEMPORARY, info.bytes)


def _is_leftover(name: str) -> bool:
    """Whether it is a file that exists only while a process writes: a temporary one, or a version's lock."""
    if not name.startswith("."):
        return False
    version = name.removeprefix(".").removesuffix(LOCK_SUFFIX)
    return name.endswith(TEMPORARY_SUFFIX) or (name.endswith(LOCK_SUFFIX) and bool(VERSION_PATTERN.fullmatch(version)))


def _is_removable(storage: Storage, version: str, deadline_ns: float, dry_run: bool) -> bool:
    """Whether the version is garbage for ever: not current, and no writer will make it current."""
    folder, name = version.rsplit("/", 1)
    path = f"{folder}/{CURRENT}"
    if storage.knows_writers or dry_run:
        return _is_garbage(storage, storage.read(path), path, name, deadline_ns)
    is_garbage = False

    def forbid(before: bytes | None) -> bytes | None:
        nonlocal is_garbage
        is_garbage = _is_garbage(storage, before, path, name, deadline_ns)
        return condemn(before, path, name) if is_garbage and name not in condemned(before, path) else None

    storage.update(path, forbid)
    return is_garbage


def _is_garbage(storage: Storage, record: bytes | None, path: str, version: str, deadline_ns: float) -> bool:
    try:
        current = Current.parse(record, path)
    except RecordError:
        return False  # the current version is not known: remove none
    if current is None:
        return True
    superseded_ns = datetime.fromisoformat(current.created_at).timestamp() * 1e9
    if storage.knows_writers and (info := storage.info(path)):  # else gc itself changes the record
        superseded_ns = info.mtime_ns  # by the clock of the file system; the writer's machine may have another
    return current.version != version and superseded_ns < deadline_ns


def _metadata_first(files: Mapping[str, FileInfo]) -> list[str]:
    """Metadata before shards, so that no reader opens an array of which a part is already removed."""
    return sorted(files, key=lambda path: (not path.endswith(ZARR_JSON), path))


@contextlib.contextmanager
def _reporting(path: str, unreadable: Unreadable | None) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if unreadable is None:
            raise
        unreadable(path, str(error))
