"""Files that survive a crash: write, flush to the disk, then make visible in one step.

A rename inside one folder is atomic, so a reader sees the old file or the new one and never a mixture; the flush
before it makes the new content durable first, the flush of the folder after it makes the rename durable.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from pathlib import Path

from storyframes.store.storage.locks import lock_new_file

TEMPORARY_SUFFIX = ".tmp"
_BLOCK = 1 << 20
_CANNOT_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}  # what file systems say that have no such thing


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content`` in one step, durable when this returns; private to the owner.

    The temporary file is locked until it has its name, so that ``gc`` knows it from a killed writer's.
    """
    while not _write(path, path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}"), content):
        """Somebody took the temporary file for a dead one's before it was locked."""
    flush_folder(path.parent)


def _write(path: Path, temporary: Path, content: bytes) -> bool:
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if not lock_new_file(descriptor):
                return False
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return True


def write_once(path: Path, content: bytes) -> None:
    """Create ``path`` with ``content`` unless it is there already with just that."""
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        pass
    write_atomically(path, content)


def flush_folder(folder: Path) -> bool:
    """Make the names in ``folder`` durable; whether the file system can (SMB shares and some in user space cannot)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
            descriptor = os.open(os.path.join(parent, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        flush_folder(Path(parent))


def sha256_file(path: Path | int, *, from_disk: bool = False) -> str:
    """SHA-256 of a file's content as 64 hexadecimal digits.

    ``path`` may be the descriptor of an open file, which is closed. ``from_disk`` asks the kernel to forget its cached
    copy first, so that what is hashed is what the disk gives back.
    """
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        if from_disk and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
