"""Where a feature store is: a folder of this machine, or a prefix of an S3-compatible object store.

The rest of the library uses paths below the store ("s1/openface/current.json") and the methods of :class:`Storage`.
Publishing is safe in both for the same reason: a version's files are written where nothing refers to them, and one
small file is replaced in one step. A folder has atomic renames and locks for that step, an object store has
conditional puts (``If-Match``, ``If-None-Match``).

This file is the interface; ``local_folder`` and ``object_store`` are its two implementations. ``files`` opens regular
files only, writes files that survive a crash, and finds out whether a store's disk was unmounted; ``locks`` are freed
however their process ends, and ``processes`` says of another process whether it has; ``access`` is the group with which
files are shared; ``scratch`` folders are removed even where their process was killed; ``zarr_folder`` is what
zarr-python reads through.
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
# A mount in user space (sshfs) whose connection broke, or a server that is not reached.
_MAY_PASS |= {errno.ENOTCONN, errno.ECONNABORTED, errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH}


class StorageError(OSError):
    """The storage cannot be reached or used; the message says what to do.

    Attributes:
        transient: trying again later may help.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


def reason_of(error: OSError) -> str:
    """Why something failed, without the path: the system's words, or the text of an error that has none of them."""
    return error.strerror or str(error) or type(error).__name__


def may_pass(error: BaseException | None) -> bool:
    """Whether the same operation may succeed when it is tried again later, by an error or by what led to it."""
    if isinstance(error, OSError) and not isinstance(error, StorageError):
        return error.errno in _MAY_PASS
    if error is None or getattr(error, "transient", False):
        return error is not None
    return may_pass(error.__cause__ or error.__context__)


@dataclass(frozen=True)
class FileInfo:
    """Size and modification time of one file."""

    bytes: int
    mtime_ns: int


Update = Callable[[bytes | None], bytes | None]
"""Makes the new content of a file from the old one; None leaves it. Called again when another writer was faster."""

Unreadable = Callable[[str, str], None]
"""Called with a path that exists and cannot be read, and the reason. Without it, such a path is an error."""


@dataclass(frozen=True)
class Tail:
    """The end of a file, with the size and the tag of the whole file."""

    content: bytes
    size: int
    tag: str


class Ranges(Protocol):
    """Storage whose files can be read in parts."""

    def tail(self, path: str, length: int) -> Tail:
        """The last bytes of a file, all of it where it is shorter.

        Raises:
            StorageError: it does not exist, or cannot be read.
        """

    def part(self, path: str, start: int, stop: int) -> Any:
        """The bytes [start, stop) of a file, as a buffer; fewer where it ends before.

        Raises:
            StorageError: it does not exist, or cannot be read.
        """


class Storage(Protocol):
    """Where a feature store is. Paths are relative to it, with forward slashes, and only regular files are read.

    What cannot be read is never taken for absent: every method that reads or lists raises :class:`StorageError`, or
    reports the path to ``unreadable`` where it is given.
    """

    @property
    def location(self) -> str:
        """The path or the URL, as :func:`~storyframes.store.layout.open_storage` takes it."""

    @property
    def knows_writers(self) -> bool:
        """Whether :meth:`unused` is certain. If not, ``gc`` has to forbid a version before removing it."""

    @property
    def ranges(self) -> Ranges | None:
        """How parts of files are read on another machine; None where files can be mapped."""

    @property
    def flushes_folders(self) -> bool:
        """Whether a new file name survives a loss of power once the folder is flushed."""

    @property
    def store_id(self) -> str:
        """The random id of the store that was opened (:meth:`pinned`); empty where it has none."""

    def pinned(self, store_id: str = "", *, make_id: bool = False) -> Storage:
        """The same storage, which from now on writes into this folder alone: :meth:`check_place`.

        Args:
            store_id: the random id that the store must have; empty for any.
            make_id: give the store one where it has none.

        Raises:
            StorageError: there is no folder, or it is of another store.
        """

    def check_place(self) -> None:
        """Check, where :meth:`pinned`, that the store is still where it was opened; an object store always is.

        Raises:
            StorageError: another folder is there, because a disk was unmounted, or none.
        """

    def prepare(self) -> None:
        """Make the folder where it is missing, and check that a store can be written.

        Raises:
            StorageError: none can, for instance because the file system has no locks.
        """

    def read(self, path: str) -> bytes | None:
        """The content of a small file, None where it does not exist."""

    def read_many(self, paths: Iterable[str], unreadable: Unreadable | None = None) -> dict[str, bytes | None]:
        """The contents of many small files, without those that were unreadable."""

    def replace(self, path: str, data: bytes) -> None:
        """Make ``data`` the content of ``path`` in one durable step."""

    def update(self, path: str, change: Update, *, wait_s: float | None = None) -> None:
        """Replace ``path`` by what ``change`` makes of it, so that no other update in between is lost.

        Args:
            wait_s: seconds to wait for another writer of the same file, where there are locks; 0 tries once.

        Raises:
            StorageError: another process has been at it for longer than that, or it cannot be written.
        """

    def info(self, path: str) -> FileInfo | None:
        """One file, asked for by its name, so right also where a listing lags behind. None where it does not exist."""

    def files(self, prefix: str = "", unreadable: Unreadable | None = None) -> dict[str, FileInfo]:
        """Every file below a folder, by its path below the store."""

    def pieces(self, unreadable: Unreadable | None = None) -> Iterator[dict[str, FileInfo]]:
        """Every file, and every empty folder where there are folders, by its path.

        All of a session are in one piece. Where possible a piece is no more than a session, so that going through all
        of them needs memory for one.
        """

    def records(self, names: Iterable[str], session_id: str = "*", unreadable: Unreadable | None = None) -> list[str]:
        """The paths ``<session>/<feature>/<name>`` that exist, sorted."""

    def states(self, names: Iterable[str], unreadable: Unreadable | None = None) -> Iterator[tuple[str, str]]:
        """The paths that :meth:`records` gives, each with a state.

        As long as the state stays the same, so does the content. It is empty where nothing is certain to distinguish
        this content from another that the file may get, or got a moment ago: then the file has to be read.
        """

    def now_ns(self) -> int:
        """The time by the clock that modification times are of; 0 where it is not known."""

    def digest(self, path: str) -> str:
        """SHA-256 of a file as it is stored, without any cache of this machine.

        Raises:
            FileNotFoundError: it does not exist.
        """

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files and empty folders, and the folders of a version that become empty."""

    def abandoned(self, path: str) -> AbstractContextManager[bool]:
        """Whether the writer of a temporary or lock file has ended; none takes it as long as the context lasts."""

    def kept(self, path: str, data: bytes, *, wait: bool = True) -> AbstractContextManager[None]:
        """Keep a small temporary file at ``path`` as long as the context lasts, as a sign that its writer is alive.

        Args:
            wait: until no other process keeps it, where there are locks.

        Raises:
            HeldError: another process keeps it, and it is not waited for.
            StorageError: it cannot be written.
        """

    def writing(self, path: str) -> AbstractContextManager[None]:
        """Mark the version at ``path`` as being written, as long as the context lasts."""

    def unused(self, path: str, newest_ns: int) -> AbstractContextManager[bool]:
        """Whether nobody writes the version at ``path``, and nobody begins to as long as the context lasts.

        Args:
            path: the version's.
            newest_ns: modification time of its newest file.
        """

    def work_folder(self, path: str) -> Path:
        """A new folder of this machine for the files of ``path``: ``path`` itself, or one that :meth:`commit` sends."""

    def commit(self, folder: Path, path: str) -> None:
        """Make everything in a work folder durable at ``path``."""

    def release(self, folder: Path) -> None:
        """Remove the work folder of a published version, unless it is the version itself."""

    def discard(self, folder: Path, path: str) -> None:
        """Remove a work folder and what of it was sent to ``path``."""

    def local(self, path: str) -> Path | None:
        """The path of a file (or with an empty path, of the store) on this machine's disk, None where there is none.

        Raises:
            StorageError: it is no regular file, or not in the store.
        """

    def zarr(self, path: str) -> Any:
        """Keyword arguments with which zarr-python opens the node at ``path`` for reading.

        An absent shard is an error: zarr-python alone would read it as the fill value, and ours are never absent.
        """
