"""Private temporary folders, removed by the process that made them, or by a later one where that was killed.

What lies in them is a person's: landmarks, a cut of a recording, features that are being written. Nobody can catch
SIGKILL, so the folder's name says which process it belongs to, and every new folder is made after those of dead
processes have been removed. ``storyframes gc`` removes them as well.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from storyframes.store.storage.locks import Owner

_FOREIGN_AGE_S = 7 * 24 * 3600.0
_SEPARATOR = "."  # a colon would end a path in the lists that some tools read
_PURPOSES = "openface|outside|version|prefect|plan|check|client|dask|file"
_OWNER = r"[0-9a-f-]*\.\d+\.\d+\.\d*"
_NAME = re.compile(rf"storyframes-(?:{_PURPOSES})-(?:({_OWNER})-)?[a-z0-9_]{{8}}")
_BESIDE = re.compile(rf"\..+?-({_OWNER})-[a-z0-9_]{{8}}")


@dataclass(frozen=True)
class Leftover:
    """A folder whose process is gone."""

    path: Path
    bytes: int


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A private folder of this process below ``TMPDIR``, removed at the end of the block.

    Raises:
        OSError: it cannot be made; the disk is full, perhaps.
    """
    folder = make_scratch_folder(purpose)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_scratch_folder(purpose: str) -> Path:
    """The same without a block: whoever asked removes it. First removes what dead processes left here."""
    sweep()
    return Path(tempfile.mkdtemp(prefix=f"storyframes-{purpose}-{Owner.this_process().text(_SEPARATOR)}-"))


def sweep(*, dry_run: bool = False) -> list[Leftover]:
    """Remove this user's folders of processes that are gone; gives back what was (or, ``dry_run``, would be) removed.

    Where that cannot be told from here (another boot, machine or container; the folders of older versions name no
    process), a folder goes when nothing in it was touched for a week.
    """
    return _sweep(Path(tempfile.gettempdir()), _NAME, dry_run=dry_run)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """A private hidden folder in which ``target`` is made, so that it can be renamed to where it belongs.

    Removed at the end of the block unless it was renamed itself. First removes what dead processes left in this way
    in the same folder, whatever they were making.

    Raises:
        OSError: it cannot be made.
    """
    _sweep(target.parent, _BESIDE)
    owner = Owner.this_process().text(_SEPARATOR)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-{owner}-", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path, pattern: re.Pattern[str], *, dry_run: bool = False) -> list[Leftover]:
    found = []
    for path, owner in _folders(parent, pattern):
        gone = owner.is_gone if owner and owner.can_be_asked_after else _idle_s(path) > _FOREIGN_AGE_S
        if gone:
            found.append(Leftover(path, sum(status.st_size for status in _statuses(path))))
            if not dry_run:
                shutil.rmtree(path, ignore_errors=True)
    return found


def _folders(parent: Path, pattern: re.Pattern[str]) -> Iterator[tuple[Path, Owner | None]]:
    """This user's scratch folders, and whose they are."""
    with os.scandir(parent) as entries:
        for entry in entries:
            name = pattern.fullmatch(entry.name)
            if name and entry.is_dir(follow_symlinks=False) and _is_ours(entry):
                yield Path(entry.path), Owner.parse(name[1], _SEPARATOR) if name[1] else None


def _is_ours(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    except OSError:  # removed since it was listed
        return False


def _idle_s(folder: Path) -> float:
    return time.time() - max((status.st_mtime for status in _statuses(folder)), default=0)


def _statuses(folder: Path) -> Iterator[os.stat_result]:
    """Of the folder and everything in it."""
    for parent, folders, files in os.walk(folder):
        for name in ("", *folders, *files):
            with suppress(OSError):
                yield os.lstat(os.path.join(parent, name))
