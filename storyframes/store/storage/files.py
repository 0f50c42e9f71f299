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

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from storyframes.store.storage import StorageError
from storyframes.store.storage.access import Group
from storyframes.store.validation import shown

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
_ADMITTED_S = 1.0  # a member gives a new file to the group in far less
_AS_LOCK = os.O_RDWR | _REGULAR
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
_SEPARATOR = ":"
_STOPPED = "Tt"
_ENDED = "ZX"  # a zombie has ended; its parent has not yet asked for its exit code


def write_atomically(path: Path, content: bytes, group: Group | None = None) -> None:
    """Replace ``path`` by ``content`` in one step, with mode 0600; durable when this returns.

    The temporary file is locked until it has its name, so that ``gc`` can distinguish it from a killed writer's.

    Args:
        group: with which the file is shared.
    """
    while not _write(path, path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}"), content, group):
        """gc took the temporary file for a killed writer's, and removed it before it was locked."""
    flush_folder(path.parent)


def _write(path: Path, temporary: Path, content: bytes, group: Group | None) -> bool:
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if group:
                group.admit(descriptor)
            if not lock_new_file(descriptor):
                return False
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            if HAS_LOCKS:
                os.replace(temporary, path)
        if not HAS_LOCKS:  # Windows renames no open file
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return True


def flush_folder(folder: Path) -> bool:
    """Make the names in ``folder`` durable; False where the file system cannot (SMB shares, some in user space)."""
    if not _FLUSHES_FOLDERS:
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise
        return False
    finally:
        os.close(descriptor)
    return True


def flush_tree(folder: Path) -> None:
    """Make every file below ``folder``, and every name, durable."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            descriptor = os.open(os.path.join(parent, name), _TO_FLUSH)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        flush_folder(Path(parent))


def file_system_now_ns(folder: Path) -> int:
    """The time by the clock of the folder's file system, which may be a server's; 0 where nothing can be written."""
    try:
        os.utime(folder)
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def sha256_file(path: Path | int, *, from_disk: bool = False) -> str:
    """SHA-256 of a file's content as 64 hexadecimal digits.

    Args:
        path: the file, or the descriptor of an open one, which is closed.
        from_disk: ask the kernel to drop its cached copy first, so that what the disk gives back is hashed.
    """
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        if from_disk and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def open_regular(root: Path, path: str) -> int:
    """Open a file of a store to read it: no pipe, no device, and nothing outside the store.

    Returns:
        The file's descriptor.

    Raises:
        StorageError: it is no regular file, or not in the store.
        OSError: it cannot be opened.
    """
    folder = path.rpartition("/")[0]
    check_path(path)
    if not _REGULAR and os.path.islink(f"{root}/{path}"):
        raise StorageError(f"{path}: {LINK}")
    try:
        descriptor = os.open(f"{root}/{path}", AS_FILE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StorageError(f"{path}: {LINK}") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise irregular(path)
        try:
            real = os.path.dirname(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:  # no Linux
            real = os.path.realpath(f"{root}/{folder}")
        if not is_in_place(root, folder, real) and not is_in_place(root, folder, os.path.realpath(f"{root}/{folder}")):
            raise StorageError(f"{path}: {LINK}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_path(path: str) -> None:
    """Check that a path is below the store.

    Raises:
        StorageError: it is not.
    """
    if not path or path.startswith("/") or {"..", "."} & {*path.split("/")} or "\0" in path:
        raise StorageError(f"{shown(path)}: cannot be used: no path below the store")


def is_in_place(root: Path, folder: str, real: str) -> bool:
    """Whether ``real`` is the real path of a folder below the root; the root itself may be behind links."""
    return real == os.path.join(root, folder).rstrip("/") or real == os.path.normpath(
        os.path.join(os.path.realpath(root), folder)
    )


def irregular(path: str) -> StorageError:
    return StorageError(f"{path}: cannot be read: no regular file (a link, a pipe or a device)")


# --- locks, and who holds them ---------------------------------------------------------------------------------------


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
