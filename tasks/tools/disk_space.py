"""Naming the disk that is full, in an error about a tool or a process that could not write."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_NEXT_TO_NOTHING = 1 << 16
ENOUGH = 16 << 20
"""Bytes with which nothing that a run keeps in these places should fail: databases of some megabytes, semaphores."""


def is_full(folder: Path) -> bool:
    """Whether nothing more fits on the folder's disk."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize < _NEXT_TO_NOTHING


def no_room_for_temporary_files() -> str:
    """The sentence for a person."""
    return (
        f"the disk of the temporary folder (TMPDIR, {tempfile.gettempdir()}) is full: make room there, or set TMPDIR "
        "to a folder on another disk"
    )


def places_without_room(least: int = _NEXT_TO_NOTHING) -> list[str]:
    """In a sentence each, the places that every run writes to and that have less room than this many bytes.

    They are the temporary folder, the folder of the Prefect server's database, and the kernel's shared memory, where
    Python keeps the semaphores of its processes.
    """
    found = []
    for name, folder, remedy, needed in _places():
        there = next((each for each in (folder, *folder.parents) if each.is_dir()), Path("/"))
        disk = os.statvfs(there)
        if disk.f_flag & os.ST_RDONLY:
            continue  # whoever writes there says so
        free = disk.f_bavail * disk.f_frsize
        if free < min(least, needed):
            found.append(f"{folder} ({name}) has {free:,} bytes free: {remedy}")
        elif disk.f_files and not disk.f_favail:
            found.append(f"{folder} ({name}) has room for no more files (inodes): {remedy}")
    return found


def _places() -> Iterator[tuple[str, Path, str, int]]:
    """Each place with what it is called, what to do where it is full, and the bytes with which it never is."""
    # Not tempfile's word: where TMPDIR is full, it takes another folder in silence, and other libraries do not.
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - where libraries write that ask nobody
    yield "TMPDIR", Path(temporary), "make room there, or set TMPDIR to a folder on another disk", ENOUGH
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # as it is where there is no home
    yield "XDG_STATE_HOME", Path(home), "make room there, or set XDG_STATE_HOME to a folder on another disk", ENOUGH
    shared = Path("/dev/shm")  # noqa: S108 - the system's own
    if shared.is_dir():
        remedy = "remove what nobody uses there, or make it larger (--shm-size of a container)"
        yield "shared memory", shared, remedy, _NEXT_TO_NOTHING  # semaphores have 32 bytes
