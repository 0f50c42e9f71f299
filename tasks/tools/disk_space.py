"""Which disk is full, for errors about a tool or a process that could not write."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_FULL_BYTES = 1 << 16  # a disk with less is full
ENOUGH = 16 << 20
"""Bytes that suffice for what a run keeps in these folders: databases of some megabytes, semaphores."""


def is_full(folder: Path) -> bool:
    """Whether the folder's disk has no room."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize < _FULL_BYTES


def no_room_for_temporary_files() -> str:
    return (
        f"the disk of the temporary folder (TMPDIR, {tempfile.gettempdir()}) is full: make room there, or set TMPDIR "
        "to a folder on another disk"
    )


def places_without_room(least: int = _FULL_BYTES) -> list[str]:
    """One sentence for each folder that every run writes to and that has less room than ``least`` bytes.

    These are the temporary folder, the folder of the Prefect server's database, and the kernel's shared memory, where
    Python keeps the semaphores of its processes.
    """
    problems: list[str] = []
    if not hasattr(os, "statvfs"):
        return problems
    for name, folder, remedy, needed in _folders_of_a_run():
        existing = next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
        disk = os.statvfs(existing)
        if disk.f_flag & os.ST_RDONLY:
            continue  # the first write fails and says so
        free = disk.f_bavail * disk.f_frsize
        if free < min(least, needed):
            problems.append(f"{folder} ({name}) has {free:,} bytes free: {remedy}")
        elif disk.f_files and not disk.f_favail:
            problems.append(f"{folder} ({name}) has room for no more files (inodes): {remedy}")
    return problems


def _folders_of_a_run() -> Iterator[tuple[str, Path, str, int]]:
    """Each folder: its name, its path, what to do where it is full, and the bytes that suffice."""
    # Not tempfile.gettempdir(): where TMPDIR is full it silently takes another folder, and other libraries do not.
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - where other libraries write
    yield "TMPDIR", Path(temporary), "make room there, or set TMPDIR to a folder on another disk", ENOUGH
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # unchanged where there is no home
    yield "XDG_STATE_HOME", Path(home), "make room there, or set XDG_STATE_HOME to a folder on another disk", ENOUGH
    shared = Path("/dev/shm")  # noqa: S108 - the system's own
    if shared.is_dir():
        remedy = "remove what nobody uses there, or make it larger (--shm-size of a container)"
        yield "shared memory", shared, remedy, _FULL_BYTES  # semaphores have 32 bytes
