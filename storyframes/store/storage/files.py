"""Files that survive a crash when they are written, and that are regular files of the store when they are read.

Writing: flush to the disk, then make visible in one step. A rename inside one folder is atomic, so a reader sees the
old file or the new one and never a mixture; the flush before it makes the new content durable first, the flush of the
folder after it makes the rename durable.

Reading: only regular files inside the store's folder are opened. A pipe or a device may never end, and a link may lead
out of the store.

Locks are freed by the kernel when their process ends, also where several machines mount the file system. A lock file
names its holder, and a temporary folder its process (:class:`ProcessIdentity`): a process id alone is reused, and means
nothing after a restart or in another container.

Windows has no such locks, so a store is only read there, and reading takes none.
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from storyframes.store.storage import StorageError
from storyframes.store.storage.access import Group

try:
    import fcntl
except ModuleNotFoundError:
    HAS_LOCKS = False
else:
    HAS_LOCKS = True
TEMPORARY_SUFFIX = ".tmp"
_BLOCK = 1 << 20
_CANNOT_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}  # errors of file systems that cannot flush
LINK = "cannot be read: a symbolic link, or below one: a store has its files in itself"
# No file behind a link, and a pipe would wait for its other end; Windows has neither flag.
_REGULAR = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
AS_FILE = os.O_RDONLY | _REGULAR
_FLUSHES_FOLDERS = hasattr(os, "O_DIRECTORY")
_TO_FLUSH = os.O_RDONLY if _FLUSHES_FOLDERS else os.O_RDWR  # Windows flushes only what may be written
WAIT_S = 120.0  # for the holder of a lock: writing a table takes seconds
_LOOK_EVERY_S = 0.05


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


def _take(path: Path, group: Group | None) -> int:
    while True:
        descriptor = _opened(path, os.O_CREAT, group)
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
