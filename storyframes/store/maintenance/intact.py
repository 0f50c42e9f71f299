"""Whether the files of a version are as they were published: of every feature, planning asks it, without a library."""

from __future__ import annotations

from collections.abc import Mapping

from storyframes.store.records import Current, StoredFile
from storyframes.store.storage import FileInfo, Storage


def is_intact(storage: Storage, current: Current, files: Mapping[str, FileInfo] | None = None) -> bool:
    """Whether every file of the current version is as it was published.

    A file whose size and modification time are as recorded is not read again; any other is hashed. One that a listing
    leaves out is asked for by its name.

    Args:
        files: of the store, where they have been listed already.

    Raises:
        StorageError: a file is there and cannot be read.
    """
    folder = f"{current.session_id}/{current.feature}/{current.version}"
    if files is None:
        files = storage.files(folder)
    paths = {f"{folder}/{name}": file for name, file in current.files.items()}
    return not any(file_fault(storage, files.get(path), path, file, trust_time=True) for path, file in paths.items())


def file_fault(
    storage: Storage, listed: FileInfo | None, path: str, file: StoredFile, *, trust_time: bool = False
) -> str:
    """What is wrong with a file of a version, empty where it is as published.

    With ``trust_time``, a file whose modification time is as recorded is not read.
    """
    info = listed or storage.info(path)  # a listing may lag behind
    if info is None:
        return "the file is missing"
    if info.bytes != file.bytes:
        return f"{info.bytes} bytes, published with {file.bytes}"
    try:
        if not (trust_time and info.mtime_ns == file.mtime_ns) and storage.digest(path) != file.sha256:
            return "the content changed since it was published (checksum)"
    except FileNotFoundError:  # removed since it was listed
        return "the file is missing"
    return ""
