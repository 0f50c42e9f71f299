"""Which files a recording is: one, or several that follow each other, whose names are joined: ``media/a.mp4+b.mp4``."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path, PurePosixPath

VIDEO_SUFFIXES = ".mp4 .mov .m4v .avi .mkv .webm .mpg .mpeg .mts .m2ts .ts .wmv .dv .flv .ogv .mxf .3gp".split()
SOUND_SUFFIXES = ".wav .m4a .mp3 .flac .ogg .oga .opus .aac .aif .aiff .amr .wma .caf .w64 .au".split()
_SEAM = re.compile(rf"({'|'.join(map(re.escape, [*VIDEO_SUFFIXES, *SOUND_SUFFIXES]))})\+", re.IGNORECASE)


class RecordingError(Exception):
    """The recording cannot be read; the message names the file and what is wrong with it."""


def file_names(joined: str) -> list[str]:
    """The names that are joined by ``+``, each with the suffix of a recording; of any other name that name itself."""
    return _SEAM.sub("\\1\0", joined).split("\0")


def check_joined_names(joined: str) -> None:
    """Refuse joined names of which another one than the first has a folder, or which are not of different files.

    Raises:
        ValueError: the message has the names, and the rule.
    """
    first, *others = file_names(joined)
    if any("/" in name for name in others):
        once = "+".join([first, *(PurePosixPath(name).name for name in others)])
        raise ValueError(f"the files of one recording are in one folder, which is named once: {once}")
    names = [PurePosixPath(first).name, *others]
    if others and (len({*names}) < len(names) or not {"", ".", ".."}.isdisjoint(names)):
        raise ValueError(f"'+' joins different files, each with its name: {joined}")


def recording_files(path: Path) -> list[Path]:
    """The files of a recording in their order: that of its path, or those whose names the path joins.

    Raises:
        RecordingError: the path joins a file with itself, or with an empty name.

    >>> [file.as_posix() for file in recording_files(Path("media/a.mp4+b.mp4"))]
    ['media/a.mp4', 'media/b.mp4']
    """
    names = file_names(path.name)
    if len(names) == 1 or os.path.isfile(path):  # Path.is_file raises an error for names of more than 255 bytes
        return [path]
    try:
        check_joined_names(path.name)
    except ValueError as error:
        raise RecordingError(str(error)) from None
    return [path.with_name(name) for name in names]


def recording_state(path: Path) -> tuple[int, int]:
    """Bytes and modification time of a recording, by which a change is noticed.

    Of several files it is the sum of the sizes, and a number below 2**63 that follows from the times in their order:
    files that exchange their names are a change.

    Raises:
        OSError: a file cannot be read.
    """
    states = [file.stat() for file in recording_files(path)]
    return sum(state.st_size for state in states), reduce(_one_time, (state.st_mtime_ns for state in states))


def _one_time(time_ns: int, next_ns: int) -> int:
    return (31 * time_ns + next_ns) % 2**63


def recording_digest(path: Path, digest: Callable[[Path], str]) -> str:
    """The digest of a recording's content, given that of a file's.

    Raises:
        OSError: a file cannot be read.
    """
    digests = [digest(file) for file in recording_files(path)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("+".join(digests).encode()).hexdigest()
