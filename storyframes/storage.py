"""Where a feature store lies: a folder of this machine, or a prefix of an S3-compatible object store.

The rest of the library speaks of paths below the store ("s1/openface/current.json") and of five things one can do
with them. What makes publishing safe is the same in both places: a version's files are written where nothing refers to
them, and one small file is replaced in one step. A folder has atomic renames and locks for it, an object store has
conditional puts (``If-Match``, ``If-None-Match``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class StorageError(OSError):
    """The place cannot be reached or used; the message says what to do."""


@dataclass(frozen=True)
class FileInfo:
    """Size and modification time of one file."""

    bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Content:
    """A small file and what tells this state of it from any other."""

    data: bytes | None
    tag: str | None


Update = Callable[[bytes | None], bytes | None]
"""Makes the new content of a file from the old one; None leaves it. May be called again when somebody was faster."""


class Storage(Protocol):
    """A place for a feature store. All paths are relative to it, with forward slashes."""

    @property
    def location(self) -> str:
        """The place, as :func:`open_storage` takes it."""

    def read(self, path: str) -> bytes | None:
        """The content of a small file, None where there is none."""

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes | None]:
        """The contents of many small files."""

    def replace(self, path: str, data: bytes) -> None:
        """Make ``data`` the content of ``path`` in one durable step."""

    def update(self, path: str, change: Update) -> None:
        """Replace ``path`` by what ``change`` makes of it, so that no other update in between is lost."""

    def files(self, prefix: str = "") -> dict[str, FileInfo]:
        """Every file below a folder, by its path below the store."""

    def empty_folders(self) -> dict[str, FileInfo]:
        """Folders with nothing in them, where the place knows such a thing."""

    def records(self, names: Iterable[str], session_id: str = "*") -> list[str]:
        """The paths ``<session>/<feature>/<name>`` that exist, sorted."""

    def digest(self, path: str) -> str:
        """SHA-256 of a file as the place gives it back, past any cache of this machine's.

        Raises:
            OSError: it is not there.
        """

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files and empty folders, and the folders that become empty by it."""

    def work_folder(self, path: str) -> Path:
        """A new folder of this machine for what will be ``path``: there already, or to be sent by :meth:`commit`."""

    def commit(self, folder: Path, path: str) -> None:
        """Make everything in a work folder durable at ``path``."""

    def release(self, folder: Path) -> None:
        """The work folder has been committed and published: remove it unless it is the place itself."""

    def discard(self, folder: Path, path: str) -> None:
        """Remove a work folder and whatever of it has reached ``path``."""

    def local(self, path: str) -> Path | None:
        """Where ``path`` lies on this machine's disk, None where it does not."""

    def zarr(self, path: str) -> Any:
        """What zarr-python opens for the node at ``path``, as keyword arguments."""


def open_storage(location: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """The place that ``location`` names: a path, or a URL (``s3://bucket/prefix``).

    Args:
        location: where.
        options: for a URL, what obstore takes (``endpoint``, ``region``, ``access_key_id``, ``client_options``, …); the
            environment's ``AWS_*`` variables otherwise.

    Raises:
        StorageError: the URL's scheme is unknown, or obstore is not installed.
    """
    text = os.fspath(location)
    if "://" in text:
        from storyframes.object_storage import ObjectStorage

        return ObjectStorage(text, options or {})
    from storyframes.folder_storage import LocalStorage

    return LocalStorage(Path(text).absolute())  # workers may run in another folder
