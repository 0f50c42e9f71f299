"""Keeping a feature store sound: find every damaged byte, remove what nobody refers to."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import zarr

from storyframes.catalogue import table_checksums
from storyframes.durable import TEMPORARY_SUFFIX, sha256_file
from storyframes.layout import (
    CATALOGUE,
    CLIPS,
    INNER_GROUP,
    INPUTS,
    ROOT_GROUP,
    ZARR_JSON,
    feature_folders,
    version_folders,
)
from storyframes.records import ATTEMPT, CURRENT, Attempt, Current, RecordError, StoredFile, unseal


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it was published."""

    session_id: str
    feature: str
    path: str
    problem: str


def verify(root: Path, progress: Callable[[str, str], None] = lambda *_: None) -> Iterator[Finding]:
    """Compare everything that readers use with what was recorded when it was published.

    Every byte of every current version is hashed; missing files, files that do not belong, shapes, the Zarr groups,
    the records and the tables are checked. Superseded versions are not.

    Args:
        root: the store.
        progress: called with (session_id, feature) before each.
    """
    yield from _verify_group(root / ZARR_JSON, ROOT_GROUP, "", "")
    sessions = set()
    for session_id, feature, folder in feature_folders(root):
        progress(session_id, feature)
        if session_id not in sessions:
            sessions.add(session_id)
            yield from _verify_group(folder.parent / ZARR_JSON, INNER_GROUP, session_id, "")
        yield from _verify_group(folder / ZARR_JSON, INNER_GROUP, session_id, feature)
        yield from _verify_feature(folder, session_id, feature)
    yield from _verify_tables(root)


def _verify_group(path: Path, expected: bytes, session_id: str, feature: str) -> Iterator[Finding]:
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    if content != expected:
        yield Finding(session_id, feature, ZARR_JSON, "the Zarr group's metadata is missing or changed")


def _verify_feature(folder: Path, session_id: str, feature: str) -> Iterator[Finding]:
    def finding(path: str, problem: str) -> Finding:
        return Finding(session_id, feature, path, problem)

    try:
        Attempt.read(folder / ATTEMPT)
    except RecordError:
        yield finding(ATTEMPT, "the record of the last attempt is damaged")
    try:
        current = Current.read(folder / CURRENT)
    except RecordError:
        yield finding(CURRENT, "the record of the current version is damaged")
        return
    if current is None:
        return
    version = folder / current.version
    sound = True
    for path, file in current.files.items():
        if problem := _compare(version / path, file):
            sound = False
            yield finding(f"{current.version}/{path}", problem)
    there = {file.relative_to(version).as_posix() for file in version.rglob("*") if file.is_file()}
    for name in sorted(there - current.files.keys()):
        yield finding(f"{current.version}/{name}", "this file was not published with the version")
    if sound:
        for name, stored in current.arrays.items():
            array = zarr.open_array(version / name, mode="r")
            if array.shape != stored.shape or array.dtype.name != stored.dtype:
                yield finding(
                    f"{current.version}/{name}",
                    f"zarr reads {array.shape} {array.dtype}, the record says {stored.shape} {stored.dtype}",
                )


def is_intact(folder: Path, current: Current) -> bool:
    """Whether every file of the current version is there as published.

    A file whose size and modification time are as recorded is not read again; any other is hashed.
    """
    for name, file in current.files.items():
        path = folder / current.version / name
        try:
            status = path.stat()
            if status.st_size != file.bytes:
                return False
            if status.st_mtime_ns != file.mtime_ns and sha256_file(path) != file.sha256:
                return False
        except OSError:
            return False
    return True


def _compare(path: Path, file: StoredFile) -> str:
    try:
        size = path.stat().st_size
        if size != file.bytes:
            return f"{size} bytes, published with {file.bytes}"
        if sha256_file(path) != file.sha256:
            return "the content changed since it was published (checksum)"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _verify_tables(root: Path) -> Iterator[Finding]:
    checksums = table_checksums(root)
    for name in (CATALOGUE, CLIPS):
        path = root / name
        accepted = checksums.get(name, [])
        if path.exists() and sha256_file(path) not in accepted:
            yield Finding("", "", name, "the table changed since it was written (checksum); 'index' writes it again")
        elif accepted and not path.exists():
            yield Finding("", "", name, "the table is missing; 'index' writes it again")
    try:
        unseal(root / INPUTS)
    except RecordError:
        yield Finding("", "", INPUTS, "the cache of input checksums is damaged; 'extract' writes it again")


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


def collect(root: Path, grace_s: float, *, dry_run: bool = False) -> Iterator[Removal]:
    """Remove versions that are not current, and temporary files, untouched for longer than ``grace_s`` seconds.

    A superseded version counts from the moment it was superseded: a training job that opened the store before that
    still reads it. A version that is being written is younger than any sensible grace.
    """
    deadline = time.time() - grace_s
    for _, _, folder in feature_folders(root):
        yield from _collect_versions(root, folder, deadline, dry_run)
    for path in root.rglob(f".*{TEMPORARY_SUFFIX}"):
        if path.is_file() and path.stat().st_mtime < deadline:
            yield _remove(root, path, Garbage.TEMPORARY, dry_run)


def _collect_versions(root: Path, folder: Path, deadline: float, dry_run: bool) -> Iterator[Removal]:
    try:
        current = Current.read(folder / CURRENT)
    except RecordError:
        return  # which version is current is not known: remove none
    if current and datetime.fromisoformat(current.created_at).timestamp() > deadline:
        return
    for version in version_folders(folder):
        if (current is None or version.name != current.version) and _last_touched(version) < deadline:
            yield _remove(root, version, Garbage.VERSION, dry_run)


def _last_touched(folder: Path) -> float:
    return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))


def _remove(root: Path, path: Path, kind: Garbage, dry_run: bool) -> Removal:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    if not dry_run:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return Removal(path.relative_to(root).as_posix(), kind, size)
