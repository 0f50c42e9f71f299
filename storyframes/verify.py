"""Finding every damaged byte of a feature store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import zarr

from storyframes.catalogue import table_checksums
from storyframes.layout import CATALOGUE, CLIPS, INNER_GROUP, INPUTS, ROOT_GROUP, ZARR_JSON
from storyframes.records import ATTEMPT, CURRENT, Attempt, Current, RecordError, StoredFile, unseal
from storyframes.storage import FileInfo, Storage


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it was published."""

    session_id: str
    feature: str
    path: str
    problem: str


def verify(storage: Storage, progress: Callable[[str, str], None] = lambda *_: None) -> Iterator[Finding]:
    """Compare everything that readers use with what was recorded when it was published.

    Every byte of every current version is hashed; missing files, files that do not belong, shapes, the Zarr groups,
    the records and the tables are checked. Superseded versions are not.

    Args:
        storage: the store.
        progress: called with (session_id, feature) before each.
    """
    files = storage.files()
    features = sorted({tuple(path.split("/")[:2]) for path in files if path.count("/") >= 2})
    yield from _verify_group(storage, "", ROOT_GROUP, "", "")
    for session_id in sorted({session_id for session_id, _ in features}):
        yield from _verify_group(storage, f"{session_id}/", INNER_GROUP, session_id, "")
    for session_id, feature in features:
        progress(session_id, feature)
        yield from _verify_group(storage, f"{session_id}/{feature}/", INNER_GROUP, session_id, feature)
        yield from _verify_feature(storage, files, session_id, feature)
    yield from _verify_tables(storage)


def _verify_group(storage: Storage, folder: str, expected: bytes, session_id: str, feature: str) -> Iterator[Finding]:
    if storage.read(f"{folder}{ZARR_JSON}") != expected:
        yield Finding(session_id, feature, ZARR_JSON, "the Zarr group's metadata is missing or changed")


def _verify_feature(
    storage: Storage, files: Mapping[str, FileInfo], session_id: str, feature: str
) -> Iterator[Finding]:
    def finding(path: str, problem: str) -> Finding:
        return Finding(session_id, feature, path, problem)

    folder = f"{session_id}/{feature}"
    try:
        Attempt.parse(storage.read(f"{folder}/{ATTEMPT}"), ATTEMPT)
    except RecordError:
        yield finding(ATTEMPT, "the record of the last attempt is damaged")
    try:
        current = Current.parse(storage.read(f"{folder}/{CURRENT}"), CURRENT)
    except RecordError:
        yield finding(CURRENT, "the record of the current version is damaged")
        return
    if current is None:
        return
    version = f"{folder}/{current.version}"
    sound = True
    for name, file in current.files.items():
        if problem := _compare(storage, files.get(f"{version}/{name}"), f"{version}/{name}", file):
            sound = False
            yield finding(f"{current.version}/{name}", problem)
    there = {path.removeprefix(f"{version}/") for path in files if path.startswith(f"{version}/")}
    for name in sorted(there - current.files.keys()):
        yield finding(f"{current.version}/{name}", "this file was not published with the version")
    if sound:
        yield from _verify_arrays(storage, version, current)


def _verify_arrays(storage: Storage, version: str, current: Current) -> Iterator[Finding]:
    for name, stored in current.arrays.items():
        array = zarr.open_array(mode="r", **storage.zarr(f"{version}/{name}"))
        if array.shape != stored.shape or array.dtype.name != stored.dtype:
            yield Finding(
                current.session_id,
                current.feature,
                f"{current.version}/{name}",
                f"zarr reads {array.shape} {array.dtype}, the record says {stored.shape} {stored.dtype}",
            )


def _compare(storage: Storage, info: FileInfo | None, path: str, file: StoredFile) -> str:
    if info is None:
        return "the file is missing"
    if info.bytes != file.bytes:
        return f"{info.bytes} bytes, published with {file.bytes}"
    try:
        if storage.digest(path) != file.sha256:
            return "the content changed since it was published (checksum)"
    except OSError as error:
        return f"cannot be read: {error.strerror or type(error).__name__}"
    return ""


def _verify_tables(storage: Storage) -> Iterator[Finding]:
    checksums = table_checksums(storage)
    for name in (CATALOGUE, CLIPS):
        content = storage.read(name)
        accepted = checksums.get(name, [])
        if content is not None and hashlib.sha256(content).hexdigest() not in accepted:
            yield Finding("", "", name, "the table changed since it was written (checksum); 'index' writes it again")
        elif content is None and accepted:
            yield Finding("", "", name, "the table is missing; 'index' writes it again")
    try:
        unseal(storage.read(INPUTS), INPUTS)
    except RecordError:
        yield Finding("", "", INPUTS, "the cache of input checksums is damaged; 'extract' writes it again")


def is_intact(storage: Storage, current: Current, files: Mapping[str, FileInfo] | None = None) -> bool:
    """Whether every file of the current version is there as published.

    A file whose size and modification time are as recorded is not read again; any other is hashed.

    Args:
        storage: the store.
        current: the version.
        files: of the store, where they have been listed already.
    """
    folder = f"{current.session_id}/{current.feature}/{current.version}"
    if files is None:
        files = storage.files(folder)
    for name, file in current.files.items():
        info = files.get(f"{folder}/{name}")
        if info is None or info.bytes != file.bytes:
            return False
        if info.mtime_ns != file.mtime_ns and storage.digest(f"{folder}/{name}") != file.sha256:
            return False
    return True
