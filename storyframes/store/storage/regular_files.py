"""Opening the files of a store in a folder: regular ones, in their place.

A pipe or a device may never end, and a link may lead to what is not the store's.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from storyframes.store.storage import StorageError
from storyframes.store.validation import shown

LINK = "cannot be read: a symbolic link, or below one: a store has its files in itself"
AS_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would wait for its other end


def open_regular(root: Path, path: str) -> int:
    """Open a file of a store to read it: no pipe or device, which may never end, and nothing that lies elsewhere.

    Args:
        root: the store's folder.
        path: below it.

    Returns:
        The file's descriptor.

    Raises:
        StorageError: it is no regular file, or not in the store.
        OSError: it cannot be opened.
    """
    folder = path.rpartition("/")[0]
    check_path(path)
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
    """See that a path is one below the store.

    Raises:
        StorageError: it is none.
    """
    if not path or path.startswith("/") or {"..", "."} & {*path.split("/")} or "\0" in path:
        raise StorageError(f"{shown(path)}: cannot be used: no path below the store")


def is_in_place(root: Path, folder: str, real: str) -> bool:
    """Whether a folder below the root really lies at ``real``; the root itself may be behind links."""
    return real == os.path.join(root, folder).rstrip("/") or real == os.path.normpath(
        os.path.join(os.path.realpath(root), folder)
    )


def irregular(path: str) -> StorageError:
    return StorageError(f"{path}: cannot be read: no regular file (a link, a pipe or a device)")
