"""Removing from a feature store what nobody refers to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from storyframes.durable import TEMPORARY_SUFFIX
from storyframes.layout import VERSION_PATTERN
from storyframes.records import CURRENT, Current, RecordError
from storyframes.storage import FileInfo, Storage


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


def collect(storage: Storage, grace_s: float, *, dry_run: bool = False) -> Iterator[Removal]:
    """Remove versions that are not current, and temporary files, untouched for longer than ``grace_s`` seconds.

    A superseded version counts from the moment it was superseded: a training job that opened the store before that
    still reads it. A version that is being written is younger than any sensible grace.
    """
    deadline_ns = (time.time() - grace_s) * 1e9
    versions: dict[str, dict[str, FileInfo]] = {}
    for path, info in (storage.files() | storage.empty_folders()).items():
        parts = path.split("/")
        if parts[-1].startswith(".") and parts[-1].endswith(TEMPORARY_SUFFIX):
            if info.mtime_ns < deadline_ns:
                yield _remove(storage, path, Garbage.TEMPORARY, {path: info}, dry_run)
        elif len(parts) > 2 and VERSION_PATTERN.fullmatch(parts[2]):
            versions.setdefault("/".join(parts[:3]), {})[path] = info
    for version, files in sorted(versions.items()):
        idle = max(info.mtime_ns for info in files.values()) < deadline_ns
        if idle and _is_garbage(storage, version, deadline_ns):
            yield _remove(storage, version, Garbage.VERSION, files, dry_run)


def _is_garbage(storage: Storage, version: str, deadline_ns: float) -> bool:
    folder, name = version.rsplit("/", 1)
    try:
        current = Current.parse(storage.read(f"{folder}/{CURRENT}"), CURRENT)
    except RecordError:
        return False  # which version is current is not known: remove none
    if current is None:
        return True
    return current.version != name and datetime.fromisoformat(current.created_at).timestamp() * 1e9 < deadline_ns


def _remove(storage: Storage, path: str, kind: Garbage, files: Mapping[str, FileInfo], dry_run: bool) -> Removal:
    if not dry_run:
        storage.remove(files)
    return Removal(path, kind, sum(info.bytes for info in files.values()))
