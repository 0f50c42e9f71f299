"""Locks on files, which the kernel frees when their process ends, also where several machines mount the file system.

A lock file names its holder (:class:`~storyframes.store.storage.processes.ProcessIdentity`). Windows has no such locks,
so a store is only read there, and reading takes none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storyframes.store.storage import StorageError
from storyframes.store.storage.access import Group
from storyframes.store.storage.processes import ProcessIdentity

try:
    import fcntl
except ModuleNotFoundError:
    HAS_LOCKS = False
else:
    HAS_LOCKS = True
WAIT_S = 120.0  # for the holder of a lock: writing a table takes seconds
_LOOK_EVERY_S = 0.05
_ADMITTED_S = 1.0  # a member gives a new file to the group in far less
# No file behind a link, and a pipe would wait for its other end; Windows has neither flag.
REGULAR = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_AS_LOCK = os.O_RDWR | REGULAR
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}


def check_has_locks(folder: Path) -> None:
    """Check that this system can lock files, which everything that writes a store needs.

    Raises:
        StorageError: it cannot.
    """
    if not HAS_LOCKS:
        raise StorageError(
            f"{folder}: this system (Windows) has none of the locks that keep two writers apart, so feature stores are "
            "only read here: write it on Linux, macOS or in WSL; status, show, clips and verify work here"
        )


@contextmanager
def locked(path: Path, wait_s: float | None = None, group: Group | None = None) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, which is made where absent and kept. Meanwhile the file names the holder.

    Args:
        wait_s: seconds to wait for another holder; None waits :data:`WAIT_S`, 0 tries once.
        group: with which the file is shared.

    Raises:
        StorageError: the file system has no locks; or another process holds it for longer than that.
    """
    descriptor = _opened(path, os.O_CREAT, group)
    try:
        wait_s = WAIT_S if wait_s is None else wait_s
        deadline = time.monotonic() + wait_s
        while not _lock(descriptor, path, wait=False):
            if time.monotonic() >= deadline:
                raise StorageError(f"{path} has been locked for {wait_s:.0f} s {_holder(descriptor)}")
            time.sleep(_LOOK_EVERY_S)
        with contextlib.suppress(OSError):  # on a full disk the holder stays unnamed
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, ProcessIdentity.this_process().text().encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """The process that holds a lock, and what to do about it, for a message."""
    owner = ProcessIdentity.parse(os.pread(descriptor, 1000, 0).decode(errors="replace"))
    if owner is None or not owner.is_checkable:
        return "by a process of another machine or container: end it if it hangs, then run this again"
    if owner.is_gone:  # a child process inherited the lock
        return f"by a child of process {owner.pid}: end it, then run this again"
    if owner.is_stopped:
        return f"by process {owner.pid}, which is stopped: let it go on (kill -CONT {owner.pid}) or end it"
    return f"by process {owner.pid}, which is running: wait for it, or end it if it hangs"


class HeldError(StorageError):
    """Another process holds the lock."""


@contextmanager
def held(path: Path, group: Group | None = None, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a file that exists only meanwhile, which shows others that this process is alive.

    Raises:
        HeldError: another process holds it, and it is not waited for.
    """
    descriptor = _take(path, group, wait=wait)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the server of the file system is away; gc removes the file
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.close(descriptor)  # frees the lock also where it gives an error


@contextmanager
def if_free(path: Path) -> Iterator[bool]:
    """Whether nobody holds ``path``; where the file exists, nobody can take it as long as the context lasts.

    Where it does not exist, its process has ended: a lock file is made before what it protects.
    """
    try:
        descriptor = _opened(path, 0)
    except FileNotFoundError:
        yield True
        return
    try:
        yield _lock(descriptor, path, wait=False)
    finally:
        os.close(descriptor)


def lock_new_file(descriptor: int) -> bool:
    """Lock a file that was just made; False where it was removed before it was locked.

    A file system without locks is no error here: stores, which need them, check that when they are opened for writing,
    and other files are written as well.
    """
    if not HAS_LOCKS:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return os.fstat(descriptor).st_nlink > 0


def _opened(path: Path, create: int, group: Group | None = None) -> int:
    check_has_locks(path.parent)
    deadline = time.monotonic() + _ADMITTED_S
    while True:
        try:
            descriptor = os.open(path, create | _AS_LOCK, 0o600)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StorageError(f"{path}: is a link, and no lock is taken where a link leads: remove it") from None
            if error.errno != errno.EACCES or not group or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_EVERY_S)  # another member has just made it
            continue
        try:
            if group:
                group.admit(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _take(path: Path, group: Group | None, *, wait: bool) -> int:
    while True:
        descriptor = _opened(path, os.O_CREAT, group)
        try:
            if not _lock(descriptor, path, wait=wait):
                raise HeldError(f"{path} is locked by another process")
            if os.fstat(descriptor).st_nlink:  # else it was removed as a dead process's, before it was locked
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, path: Path, *, wait: bool = True) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise StorageError(
                f"{path.parent}: this file system has no locks ({error.strerror}), so two writers could undo "
                "each other's work: mount it with them (NFS without 'nolock', Lustre with 'flock'), or put the store "
                "elsewhere"
            ) from None
        raise
    return True
