"""Locks on files that the kernel frees when their process ends, also where several machines mount the file system.

A lock file names its holder, and a temporary folder its process (:class:`ProcessIdentity`). A process id alone is not
enough for that: ids are reused, and mean nothing after a restart or in another container.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from storyframes.store.storage import StorageError

WAIT_S = 120.0  # for the holder of a lock: writing a table takes seconds
_LOOK_EVERY_S = 0.05
_AS_FILE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # no lock behind a link, no wait for a pipe
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
_SEPARATOR = ":"
_STOPPED = "Tt"
_ENDED = "ZX"  # a zombie has ended; its parent has not yet asked for its exit code


@contextmanager
def locked(path: Path, wait_s: float | None = None) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, which is made where absent and kept. Meanwhile the file names the holder.

    Args:
        path: the lock file.
        wait_s: seconds to wait for another holder; None waits :data:`WAIT_S`.

    Raises:
        StorageError: the file system has no locks; or another process holds it for longer than that.
    """
    descriptor = _opened(path, os.O_CREAT)
    try:
        wait_s = WAIT_S if wait_s is None else wait_s
        deadline = time.monotonic() + wait_s
        while not _lock(descriptor, path, wait=False):
            if time.monotonic() > deadline:
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


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock on a file that exists only meanwhile, which shows others that this process is alive."""
    descriptor = _take(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


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
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return os.fstat(descriptor).st_nlink > 0


def _opened(path: Path, create: int) -> int:
    try:
        return os.open(path, os.O_RDWR | create | _AS_FILE, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StorageError(f"{path}: is a link, and no lock is taken where a link leads: remove it") from None
        raise


def _take(path: Path) -> int:
    while True:
        descriptor = _opened(path, os.O_CREAT)
        try:
            _lock(descriptor, path)
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


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, named so that another process can find out later whether it has ended.

    Attributes:
        boot: id of the kernel's boot; empty where the system has none.
        namespace: of process ids: containers have their own.
        pid: in that namespace.
        started: when, in the kernel's ticks.
    """

    boot: str
    namespace: str
    pid: int
    started: str

    @classmethod
    def this_process(cls) -> Self:
        pid = os.getpid()
        return cls(_boot(), _pid_namespace(), pid, _started(pid))

    @classmethod
    def parse(cls, text: str, separator: str = _SEPARATOR) -> Self | None:
        """The owner that :meth:`text` named; None for anything else."""
        try:
            boot, namespace, pid, started = text.split(separator)
            return cls(boot, namespace, int(pid), started)
        except ValueError:
            return None

    def text(self, separator: str = _SEPARATOR) -> str:
        return separator.join((self.boot, self.namespace, str(self.pid), self.started))

    @property
    def is_of_this_boot(self) -> bool:
        return self.boot == _boot()

    @property
    def is_checkable(self) -> bool:
        """Whether this process can find out if that one is alive: same boot, same namespace of ids."""
        return bool(self.boot) and self.is_of_this_boot and self.namespace == _pid_namespace()

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended; False where it is not :attr:`is_checkable`."""
        return self.is_checkable and _started(self.pid) != self.started

    @property
    def is_stopped(self) -> bool:
        """Whether the process exists and is stopped, by SIGSTOP, Ctrl-Z or a debugger."""
        return self.is_checkable and not self.is_gone and _stat(self.pid)[0] in _STOPPED


@cache
def _boot() -> str:
    return _read(Path("/proc/sys/kernel/random/boot_id")).strip()


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return "0"


def _started(pid: int) -> str:
    """When the process started; empty where there is none, or it has ended."""
    fields = _stat(pid)
    return fields[19] if fields[0] not in _ENDED else ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; ``X``, the state of a dead process, where there is none."""
    return _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() or ["X"]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # no such process, or a system without /proc
        return ""
