"""Where a feature store lies: a folder of this machine, or a prefix of an S3-compatible object store.

The rest of the library speaks of paths below the store ("s1/openface/current.json") and does with them what
:class:`Storage` lists. What makes publishing safe is the same in both places: a version's files are written where
nothing refers to them, and one small file is replaced in one step. A folder has atomic renames and locks for it, an
object store has conditional puts (``If-Match``, ``If-None-Match``).

This file is the interface; ``local_folder`` and ``object_store`` are its two implementations. ``files`` opens regular
files only, and writes files that survive a crash; ``locks`` are freed however their process ends; ``scratch`` folders
are removed even where it was killed. ``zarr_folder`` is a folder for zarr-python to read.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

# Errors of a network file system or a busy machine; a missing file, a forbidden one or a full disk stay what they are.
_MAY_PASS = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ECONNRESET, errno.EBUSY, errno.ENOMEM}


class StorageError(OSError):
    """The place cannot be reached or used; the message says what to do.

    Attributes:
        transient: trying again later may help.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


def may_pass(error: BaseException) -> bool:
    """Whether an error is of the kind that is gone when the same is tried again later."""
    if isinstance(error, OSError) and not isinstance(error, StorageError):
        return error.errno in _MAY_PASS
    return bool(getattr(error, "transient", False))


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

Unreadable = Callable[[str, str], None]
"""Told of a path that is there and cannot be read, and why. Where none is given, such a path is an error."""


@dataclass(frozen=True)
class Tail:
    """The end of a file, and what there is to know of all of it."""

    content: bytes
    size: int
    tag: str


class Ranges(Protocol):
    """A place whose files can be read in parts."""

    def tail(self, path: str, length: int) -> Tail:
        """The last bytes of a file, all of it where it is shorter.

        Raises:
            StorageError: it is not there, or cannot be read.
        """

    def part(self, path: str, start: int, stop: int) -> Any:
        """The bytes [start, stop) of a file, as a buffer; fewer where it ends before.

        Raises:
            StorageError: it is not there, or cannot be read.
        """


class Storage(Protocol):
    """A place for a feature store. All paths are relative to it, with forward slashes, and only regular files are read.

    What cannot be read is never taken for absent: every method that reads or lists raises :class:`StorageError`, or
    reports the path where it is given ``unreadable``.
    """

    @property
    def location(self) -> str:
        """The place, as :func:`open_storage` takes it."""

    @property
    def knows_the_living(self) -> bool:
        """Whether :meth:`unused` is certain. Where it is a guess, ``gc`` has to forbid a version before removing it."""

    @property
    def ranges(self) -> Ranges | None:
        """How parts of files are read where they lie far away; None where files can be mapped."""

    @property
    def flushes_folders(self) -> bool:
        """Whether a name that was made survives a loss of power once it is flushed."""

    def prepare(self) -> None:
        """Make the place, and see that a store can be written there.

        Raises:
            StorageError: it cannot, for instance because the file system has no locks.
        """

    def read(self, path: str) -> bytes | None:
        """The content of a small file, None where there is none."""

    def read_many(self, paths: Iterable[str], unreadable: Unreadable | None = None) -> dict[str, bytes | None]:
        """The contents of many small files, without those that were unreadable."""

    def replace(self, path: str, data: bytes) -> None:
        """Make ``data`` the content of ``path`` in one durable step."""

    def update(self, path: str, change: Update) -> None:
        """Replace ``path`` by what ``change`` makes of it, so that no other update in between is lost."""

    def info(self, path: str) -> FileInfo | None:
        """One file, asked for by its name: true also where a listing lags behind. None where there is none."""

    def files(self, prefix: str = "", unreadable: Unreadable | None = None) -> dict[str, FileInfo]:
        """Every file below a folder, by its path below the store."""

    def pieces(self, unreadable: Unreadable | None = None) -> Iterator[dict[str, FileInfo]]:
        """Every file, and every folder with nothing in it where the place knows such a thing, by its path.

        A session's are in one piece. Where the place can, a piece is no more than a session, so that who goes through
        all needs memory for one.
        """

    def records(self, names: Iterable[str], session_id: str = "*", unreadable: Unreadable | None = None) -> list[str]:
        """The paths ``<session>/<feature>/<name>`` that exist, sorted."""

    def states(self, names: Iterable[str], unreadable: Unreadable | None = None) -> Iterator[tuple[str, str]]:
        """The paths that :meth:`records` has, in any order, and of each what its content is known by.

        As long as that stays the same, so does the content. It is empty where nothing is certain to tell this content
        from another that the file may get, or got just now: then it has to be read.
        """

    def digest(self, path: str) -> str:
        """SHA-256 of a file as the place gives it back, past any cache of this machine's.

        Raises:
            FileNotFoundError: it is not there.
        """

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files and empty folders, and the folders of a version that become empty by it."""

    def abandoned(self, path: str) -> AbstractContextManager[bool]:
        """Whether a temporary or a lock file is a dead writer's; nobody takes it as long as the context lasts."""

    def kept(self, path: str, data: bytes) -> AbstractContextManager[None]:
        """Have a small temporary file at ``path`` as long as the context lasts, and show that its writer lives.

        Raises:
            StorageError: it cannot be written.
        """

    def writing(self, path: str) -> AbstractContextManager[None]:
        """Tell the place, as long as the context lasts, that a version is being written at ``path``."""

    def unused(self, path: str, newest_ns: int) -> AbstractContextManager[bool]:
        """Whether nobody writes the version at ``path``, and nobody begins to as long as the context lasts.

        Args:
            path: the version's.
            newest_ns: when its newest file was changed.
        """

    def work_folder(self, path: str) -> Path:
        """A new folder of this machine for what will be ``path``: there already, or to be sent by :meth:`commit`."""

    def commit(self, folder: Path, path: str) -> None:
        """Make everything in a work folder durable at ``path``."""

    def release(self, folder: Path) -> None:
        """The work folder has been committed and published: remove it unless it is the place itself."""

    def discard(self, folder: Path, path: str) -> None:
        """Remove a work folder and whatever of it has reached ``path``."""

    def local(self, path: str) -> Path | None:
        """Where a file of the store (or itself: an empty path) lies on this machine's disk, None where it does not.

        Raises:
            StorageError: it is no regular file, or not in the store.
        """

    def zarr(self, path: str) -> Any:
        """What zarr-python opens for the node at ``path``, to read it, as keyword arguments.

        Zarr reads an absent chunk as the fill value; no shard of ours is ever absent, so there it is an error.
        """
