"""Naming the disk that is full, in an error about a tool that could not write."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_NEXT_TO_NOTHING = 1 << 16


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
