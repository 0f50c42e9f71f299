"""Removing from a feature store what nobody refers to, beside any number of writers and readers.

Safe at any grace: a version is removed only where its writer is known to have ended, or is forbidden first to publish
it (docs/store.md, "Removing"). The grace is a promise to readers alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from storyframes.store.catalogue import CHECKED, check_rows, compact
from storyframes.store.layout import CATALOGUE, VERSION_PATTERN, ZARR_JSON
from storyframes.store.records import CURRENT, Current, RecordError, condemn, condemned
from storyframes.store.storage import FileInfo, Storage, StorageError, Unreadable
from storyframes.store.storage.files import TEMPORARY_SUFFIX
from storyframes.store.storage.local_folder import LOCK_SUFFIX
from storyframes.store.table_files import parse_table, read_table


class Garbage(StrEnum):
    """Why a path of the store can go."""

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
    """Remove versions that are not current, and what killed writers left, untouched for ``grace_s`` seconds and more.

    A superseded version counts from the moment it was superseded: a training job that opened the store before that
    still reads it. One that the catalogue names is kept, so the catalogue is compacted first. What somebody is writing
    is left alone, however old it looks.

    Args:
        storage: the store.
        grace_s: the promise to readers; 0 promises them nothing.
        dry_run: remove nothing.
        unreadable: told of every path that cannot be read; nothing is removed there.

    Raises:
        StorageError: something cannot be read, and ``unreadable`` is not given.
    """
    if not dry_run:
        with contextlib.suppress(OSError):  # a full disk: what the older catalogue names is kept as well
            compact(storage)
    named = _named(storage) if not dry_run else set()
    deadline_ns = (time.time() - grace_s) * 1e9
    for piece in storage.pieces(unreadable):
        yield from _collect_of(storage, piece, named, deadline_ns, dry_run=dry_run, unreadable=unreadable)


def _collect_of(
    storage: Storage,
    piece: Mapping[str, FileInfo],
    named: Set[str],
    deadline_ns: float,
    *,
    dry_run: bool,
    unreadable: Unreadable | None,
) -> Iterator[Removal]:
    """What can go of some sessions, of which these are all files."""
    versions: dict[str, dict[str, FileInfo]] = {}
    leavings: dict[str, FileInfo] = {}
    for path, info in piece.items():
        parts = path.split("/")
        if len(parts) > 2 and VERSION_PATTERN.fullmatch(parts[2]):
            versions.setdefault("/".join(parts[:3]), {})[path] = info
        elif _is_leaving(parts[-1]):
            leavings[path] = info
    for version, files in sorted(versions.items()):
        newest_ns = max(info.mtime_ns for info in files.values())
        if version in named or newest_ns >= deadline_ns:
            continue
        with _reported(version, unreadable), storage.unused(version, newest_ns) as unused:
            if unused and _may_go(storage, version, deadline_ns, dry_run):
                if not dry_run:
                    storage.remove(_metadata_first(files))
                yield Removal(version, Garbage.VERSION, sum(info.bytes for info in files.values()))
    for path, info in sorted(leavings.items()):
        if info.mtime_ns >= deadline_ns:
            continue
        with _reported(path, unreadable), storage.abandoned(path) as abandoned:
            if abandoned:
                if not dry_run:
                    storage.remove([path])
                yield Removal(path, Garbage.TEMPORARY, info.bytes)


def _named(storage: Storage) -> set[str]:
    """The versions that whoever opens the store now will read."""
    content = read_table(storage, CATALOGUE)
    if content is None:
        return set()
    check_rows(table := parse_table(content, CATALOGUE, CHECKED))
    return set(table["path"].drop_null().to_pylist())


def _is_leaving(name: str) -> bool:
    """A file that is there only while somebody writes: a temporary one, or a version's lock."""
    if not name.startswith("."):
        return False
    version = name.removeprefix(".").removesuffix(LOCK_SUFFIX)
    return name.endswith(TEMPORARY_SUFFIX) or (name.endswith(LOCK_SUFFIX) and bool(VERSION_PATTERN.fullmatch(version)))


def _may_go(storage: Storage, version: str, deadline_ns: float, dry_run: bool) -> bool:
    """Whether the version is garbage for ever: not current, and nobody will make it so."""
    folder, name = version.rsplit("/", 1)
    path = f"{folder}/{CURRENT}"
    if storage.knows_the_living or dry_run:
        return _is_garbage(storage.read(path), path, name, deadline_ns)
    garbage = False

    def forbid(before: bytes | None) -> bytes | None:
        nonlocal garbage
        garbage = _is_garbage(before, path, name, deadline_ns)
        return condemn(before, path, name) if garbage and name not in condemned(before, path) else None

    storage.update(path, forbid)
    return garbage


def _is_garbage(record: bytes | None, path: str, version: str, deadline_ns: float) -> bool:
    try:
        current = Current.parse(record, path)
    except RecordError:
        return False  # which version is current is not known: remove none
    if current is None:
        return True
    return current.version != version and datetime.fromisoformat(current.created_at).timestamp() * 1e9 < deadline_ns


def _metadata_first(files: Mapping[str, FileInfo]) -> list[str]:
    """So that nobody opens an array of which a part is gone."""
    return sorted(files, key=lambda path: (not path.endswith(ZARR_JSON), path))


@contextlib.contextmanager
def _reported(path: str, unreadable: Callable[[str, str], None] | None) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if unreadable is None:
            raise
        unreadable(path, str(error))
