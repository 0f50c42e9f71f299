"""The files of a store's folder: they survive a crash when they are written, and are regular files when they are read.

Writing: flush to the disk, then make visible in one step. A rename inside one folder is atomic, so a reader sees the
old file or the new one and never a mixture; the flush before it makes the new content durable first, the flush of the
folder after it makes the rename durable.

Reading: only regular files inside the store's folder are opened. A pipe or a device may never end, and a link may lead
out of the store.

The folder: below a mount point lies another folder, usually an empty one. What is written there while the disk is
unmounted is lost to the store, and hidden once the disk is mounted again: so a random id in the store is compared
(``identity.json``).
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import StorageError, may_pass
from storyframes.store.storage.access import Group
from storyframes.store.storage.locks import HAS_LOCKS, REGULAR, lock_new_file
from storyframes.store.validation import shown

IDENTITY = "identity.json"
TEMPORARY_SUFFIX = ".tmp"
_BLOCK = 1 << 20
_CANNOT_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}  # errors of file systems that cannot flush
LINK = "cannot be read: a symbolic link, or below one: a store has its files in itself"
AS_FILE = os.O_RDONLY | REGULAR
_FLUSHES_FOLDERS = hasattr(os, "O_DIRECTORY")
_TO_FLUSH = os.O_RDONLY if _FLUSHES_FOLDERS else os.O_RDWR  # Windows flushes only what may be written


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


def make_folder(folder: Path) -> None:
    """Make a folder and its parents where they are missing, each with the mode of the one above, whatever the umask.

    Raises:
        OSError: one of them cannot be made.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700)
        folder.chmod(stat.S_IMODE(folder.parent.stat().st_mode))


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
    if not REGULAR and os.path.islink(f"{root}/{path}"):
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


# --- the folder that was opened ---


@dataclass(frozen=True)
class RootIdentity:
    """A store's folder as it was when the store was opened.

    Attributes:
        device: of its file system; another one after a remount.
        inode: of the folder.
        store_id: a random text in the store; empty where it has none.
    """

    device: int
    inode: int
    store_id: str

    @classmethod
    def of(cls, root: Path, store_id: str) -> Self:
        """The identity of a folder that has this id.

        Raises:
            StorageError: there is none, or it cannot be read.
        """
        status = _root_status(root)
        return cls(status.st_dev, status.st_ino, store_id)

    def is_at(self, root: Path) -> bool:
        """Whether ``root`` is this very folder. If not, it may be the same one, mounted again: its id decides.

        Raises:
            StorageError: there is no folder, or it cannot be read.
        """
        status = _root_status(root)
        return (status.st_dev, status.st_ino) == (self.device, self.inode)

    def check_id(self, root: Path, store_id: str) -> None:
        """Check that this is the id of the store that was opened.

        Raises:
            StorageError: it is another one, or there is none.
        """
        if not store_id or store_id != self.store_id:
            raise StorageError(f"{root}: another folder is there than the feature store that was opened. {_ADVICE}")


_ADVICE = (
    "Was its disk unmounted? Nothing is written there: mount the disk again, then run the same command again; what was "
    "published before stays"
)


def new_identity() -> bytes:
    """The content of ``identity.json`` for a store that has none."""
    return seal({"id": secrets.token_hex(16)})


def store_id_in(content: bytes | None) -> str:
    """The random id that the content of ``identity.json`` has; empty where it has none, or is damaged."""
    try:
        store_id = (unseal(content, IDENTITY) or {}).get("id")
    except RecordError:
        return ""
    return store_id if isinstance(store_id, str) else ""


def _root_status(root: Path) -> os.stat_result:
    try:
        return os.stat(root)
    except (FileNotFoundError, NotADirectoryError):
        raise StorageError(f"{root}: the feature store's folder is not there any more. {_ADVICE}") from None
    except OSError as error:
        raise StorageError(f"{root}: cannot be read: {error.strerror}", transient=may_pass(error)) from None
