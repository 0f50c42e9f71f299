"""Private temporary folders, removed by the process that made them, or by a later one where that was killed.

They hold personal data: landmarks, a cut of a recording, features that are being written. SIGKILL cannot be caught, so
a folder's name says which process it belongs to, and folders of dead processes are removed before a new one is made.
``storyframes gc`` removes them as well. No other file makes temporary folders (a test looks), so that whatever a folder
is for, it is found again.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from storyframes.store.storage.files import file_system_now_ns, flush_folder, flush_tree
from storyframes.store.storage.processes import ProcessIdentity

_FOREIGN_AGE_NS = 7 * 24 * 3600 * 10**9
_SEPARATOR = "."  # a colon would end a path in the lists that some tools read
_PURPOSE = "[a-z0-9]+"
_OWNER = r"[0-9a-f-]*\.\d+\.\d+\.\d*"
# What older versions made: without an owner, or beside a target in the temporary folder.
_WITHOUT_OWNER = "openface|upright|outside|version|prefect|plan|check|client|dask|file|tables|init|curves"
_NAME = re.compile(
    rf"\.?storyframes-{_PURPOSE}-({_OWNER})-[a-z0-9_]{{8}}|storyframes-(?:{_WITHOUT_OWNER})-[a-z0-9_]{{8}}"
)
# In folders of the user, where a name with a version and a date (``.venv-3.11.2.0-20240102``) must not look like ours.
_BOOT = "(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?"  # empty where the system names none
_BESIDE = re.compile(rf"\..+?-({_BOOT}\.\d+\.\d+\.\d*)-[a-z0-9_]{{8}}")

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE


@dataclass(frozen=True)
class Leftover:
    """A folder whose process is gone."""

    path: Path
    bytes: int


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A private folder of this process below ``TMPDIR``, removed at the end of the block.

    Raises:
        OSError: it cannot be made, for instance on a full disk.
    """
    folder = make_scratch_folder(purpose)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_scratch_folder(purpose: str, parent: Path | None = None) -> Path:
    """The same without a block: the caller removes it. Folders of dead processes are removed first.

    Args:
        purpose: lower-case letters and digits, for who finds it.
        parent: where to make it; None for ``TMPDIR``. Elsewhere the caller sweeps, see :func:`is_left`.
    """
    if not re.fullmatch(_PURPOSE, purpose):  # else it would not be found again
        raise ValueError(f"{purpose!r} is not of lower-case letters and digits")
    sweep()
    owner = ProcessIdentity.this_process().text(_SEPARATOR)
    return Path(tempfile.mkdtemp(prefix=f"storyframes-{purpose}-{owner}-", dir=parent))


def is_left(folder: Path) -> bool | None:
    """Whether the process that made a scratch folder has ended; None where this process cannot find out."""
    name = _NAME.fullmatch(folder.name)
    owner = ProcessIdentity.parse(name[1], _SEPARATOR) if name and name[1] else None
    return owner.is_gone if owner and owner.is_checkable else None


def sweep(*, dry_run: bool = False) -> list[Leftover]:
    """Remove this user's folders of processes that have ended; returns those removed (with ``dry_run``, to remove).

    Where this process cannot find out (another boot, machine or container; folders of older versions name no process),
    a folder is removed when nothing in it was changed for a week, by the clock of its file system.
    """
    return _sweep(Path(tempfile.gettempdir()), _NAME, dry_run=dry_run)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """A private hidden folder beside ``target`` in which it is made, so that it can be renamed to its place.

    Removed at the end of the block unless it was renamed itself. Folders of dead processes beside it are removed first.

    Raises:
        OSError: it cannot be made.
    """
    _sweep(target.parent, _BESIDE)
    owner = ProcessIdentity.this_process().text(_SEPARATOR)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-{owner}-", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_folder(target: Path, check: Callable[[], object]) -> Iterator[Path]:
    """A private folder to write into, which becomes ``target``, durably, when the block ends without an error.

    Args:
        target: the folder; an earlier one is replaced.
        check: called before and after the block; raises an error where ``target`` must not be replaced.

    Raises:
        OSError: it cannot be made.
    """
    check()
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_beside(target) as made:  # as deep as the target: what is written may have paths relative to it
        yield made
        flush_tree(made)
        check()  # another process may have been faster
        if target.is_dir():
            _exchange(made, target)
        else:
            os.rename(made, target)
        flush_folder(target.parent)


def _exchange(made: Path, target: Path) -> None:
    """Replace ``target`` by ``made``: in one step if the system can, else in two."""
    rename = None
    with suppress(TypeError):  # as Windows says it, which has no such library
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None or rename(_HERE, os.fsencode(made), _HERE, os.fsencode(target), _EXCHANGE) != 0:
        with scratch_beside(target) as before:
            os.rename(target, before / target.name)
            os.rename(made, target)


def _sweep(parent: Path, pattern: re.Pattern[str], *, dry_run: bool = False) -> list[Leftover]:
    leftovers = []
    for path, owner in _folders(parent, pattern):
        is_gone = owner.is_gone if owner and owner.is_checkable else _idle_ns(path) > _FOREIGN_AGE_NS
        if is_gone:
            leftovers.append(Leftover(path, sum(status.st_size for status in _statuses(path))))
            if not dry_run:
                shutil.rmtree(path, ignore_errors=True)
    return leftovers


def _folders(parent: Path, pattern: re.Pattern[str]) -> Iterator[tuple[Path, ProcessIdentity | None]]:
    """This user's scratch folders, each with the process it belongs to."""
    with os.scandir(parent) as entries:
        for entry in entries:
            name = pattern.fullmatch(entry.name)
            if name and entry.is_dir(follow_symlinks=False) and _is_ours(entry, names_owner=bool(name[1])):
                yield Path(entry.path), ProcessIdentity.parse(name[1], _SEPARATOR) if name[1] else None


def _is_ours(entry: os.DirEntry[str], *, names_owner: bool) -> bool:
    """Whether it is this user's; one that names no process is private too: ``storyframes-tables-original`` is not."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # removed since it was listed
        return False
    is_private = names_owner or os.name != "posix" or stat.S_IMODE(status.st_mode) == 0o700
    return is_private and (not hasattr(os, "geteuid") or status.st_uid == os.geteuid())


def _idle_ns(folder: Path) -> int:
    now_ns = file_system_now_ns(folder.parent)  # this machine's clock may be another
    return now_ns - max((status.st_mtime_ns for status in _statuses(folder)), default=now_ns)


def _statuses(folder: Path) -> Iterator[os.stat_result]:
    """Of the folder and everything in it."""
    for parent, folders, files in os.walk(folder):
        for name in ("", *folders, *files):
            with suppress(OSError):
                yield os.lstat(os.path.join(parent, name))
