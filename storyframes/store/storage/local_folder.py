"""A feature store in a folder of this machine, or of a file system that several machines mount."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from storyframes.store.storage import FileInfo, StorageError, Unreadable, Update, may_pass, reason_of
from storyframes.store.storage.access import SHARING, Group
from storyframes.store.storage.files import (
    AS_FILE,
    IDENTITY,
    LINK,
    TEMPORARY_SUFFIX,
    RootIdentity,
    check_path,
    file_system_now_ns,
    flush_folder,
    flush_tree,
    irregular,
    is_in_place,
    new_identity,
    open_regular,
    sha256_file,
    store_id_in,
    write_atomically,
)
from storyframes.store.storage.locks import check_has_locks, held, if_free, locked
from storyframes.store.validation import MOST_JSON_BYTES

LOCK_SUFFIX = ".lock"
_SETTLED_NS = 10_000_000_000  # the coarsest clock of a file system has ticks of two seconds


@dataclass(frozen=True)
class LocalStorage:
    """A folder; see :class:`~storyframes.store.storage.Storage` for the methods."""

    root: Path
    opened: RootIdentity | None = field(default=None, compare=False)  # the folder that is written to; None: any

    ranges = None
    knows_writers = True  # the kernel frees a lock however its process ends

    @property
    def location(self) -> str:
        return str(self.root)

    @property
    def flushes_folders(self) -> bool:
        return flush_folder(self.root)

    @property
    def group(self) -> Group | None:
        """The group with which the store is shared now.

        Raises:
            StorageError: its record is damaged or cannot be read, or its group is no longer the one of the folder.
        """
        content = self.read(SHARING)
        group = None if content is None else Group.parse(content)
        if group:
            group.check(self.root)
        return group

    @property
    def store_id(self) -> str:
        return self.opened.store_id if self.opened else ""

    def pinned(self, store_id: str = "", *, make_id: bool = False) -> Self:
        if make_id:
            self.update(IDENTITY, lambda content: None if store_id_in(content) else new_identity())
        if self.opened and not make_id and store_id in ("", self.opened.store_id):
            return self
        opened = RootIdentity.of(self.root, self._read_store_id())
        if store_id:
            opened.check_id(self.root, store_id)
        return replace(self, opened=opened)

    def check_place(self) -> None:
        if self.opened and not self.opened.is_at(self.root):
            self.opened.check_id(self.root, self._read_store_id())

    def _read_store_id(self) -> str:
        try:
            return store_id_in(self.read(IDENTITY))
        except StorageError as error:
            if error.transient:  # a network file system: which folder it is, is not known
                raise
            return ""

    def prepare(self) -> None:
        check_has_locks(self.root)
        self._make_folder(self.root)
        with locked(self.root / f".store{LOCK_SUFFIX}", group=self.group):
            """The file system has locks."""

    def read(self, path: str) -> bytes | None:
        try:
            with open(open_regular(self.root, path), "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if path.endswith(".json") and size > MOST_JSON_BYTES:
                    raise StorageError(f"{path}: has {size} bytes, and of JSON at most {MOST_JSON_BYTES} are read")
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from None

    def read_many(self, paths: Iterable[str], unreadable: Unreadable | None = None) -> dict[str, bytes | None]:
        contents = {}
        for path in paths:
            with _reporting(path, unreadable):
                contents[path] = self.read(path)
        return contents

    def replace(self, path: str, data: bytes) -> None:
        write_atomically(self._target(path), data, self.group)

    def update(self, path: str, change: Update, *, wait_s: float | None = None) -> None:
        """A lock beside the file makes its updates wait for each other."""
        target = self._target(path)
        with locked(target.with_name(f".{target.name}{LOCK_SUFFIX}"), wait_s, self.group):
            if (data := change(self.read(path))) is not None:
                self.replace(path, data)

    def info(self, path: str) -> FileInfo | None:
        try:
            status = (self.root / path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from None
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise irregular(path)
        return FileInfo(status.st_size, status.st_mtime_ns)

    def files(self, prefix: str = "", unreadable: Unreadable | None = None) -> dict[str, FileInfo]:
        infos = {}
        for folder, names in self._walk(prefix, unreadable):
            for name in names:
                path = _join(folder, name)
                with _reporting(path, unreadable):
                    if info := self.info(path):  # None: removed since it was listed
                        infos[path] = info
        return infos

    def pieces(self, unreadable: Unreadable | None = None) -> Iterator[dict[str, FileInfo]]:
        own, sessions = {}, []
        for name in sorted(entry.name for entry in self._entries("", unreadable)):
            with _reporting(name, unreadable):
                path = self.root / name
                if path.is_dir() and not path.is_symlink():
                    sessions.append(name)
                elif info := self.info(name):
                    own[name] = info
        yield own
        for session in sessions:
            yield self.files(session, unreadable) | self._empty_folders(session, unreadable)

    def _empty_folders(self, session: str, unreadable: Unreadable | None) -> dict[str, FileInfo]:
        empty = {}
        for folder, names in self._walk(session, unreadable):
            if not names and not self._folders_in(folder, unreadable) and (info := self.info(folder)):
                empty[folder] = FileInfo(0, info.mtime_ns)
        return empty

    def records(self, names: Iterable[str], session_id: str = "*", unreadable: Unreadable | None = None) -> list[str]:
        return sorted(self._records(set(names), session_id, unreadable))

    def now_ns(self) -> int:
        return file_system_now_ns(self.root)

    def states(self, names: Iterable[str], unreadable: Unreadable | None = None) -> Iterator[tuple[str, str]]:
        now_ns = self.now_ns()
        for path in self._records(set(names), "*", unreadable):
            state = None
            with _reporting(path, unreadable), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = _status_when_opened(f"{self.root}/{path}")
                state = state_of(status, now_ns) if stat.S_ISREG(status.st_mode) else ""
            if state is not None:
                yield path, state

    def _records(self, names: set[str], session_id: str, unreadable: Unreadable | None) -> Iterator[str]:
        every = session_id == "*"
        sessions = sorted(self._folders_in("", unreadable), key=in_order) if every else [session_id]
        for session in sessions:
            for feature in self._folders_in(session, unreadable):
                yield from (
                    _join(feature, entry.name) for entry in self._entries(feature, unreadable) if entry.name in names
                )

    def digest(self, path: str) -> str:
        try:
            return sha256_file(open_regular(self.root, path), from_disk=True)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            raise _unreadable(path, error) from None

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            target = self.root / path
            if not target.is_dir():
                target.unlink(missing_ok=True)
                target = target.parent
            # Empty folders go too, up to the version's: in a feature's folder another writer may be about to write.
            with contextlib.suppress(OSError):
                while len(target.relative_to(self.root).parts) > 2:
                    target.rmdir()
                    target = target.parent

    def abandoned(self, path: str) -> AbstractContextManager[bool]:
        return if_free(self.root / path)

    @contextlib.contextmanager
    def kept(self, path: str, data: bytes, *, wait: bool = True) -> Iterator[None]:
        self.check_place()
        target = self.root / path
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(held(target, self.group, wait=wait))
                target.write_bytes(data)  # and closed, before which a network file system may not show it to others
            except StorageError:
                raise
            except OSError as error:
                raise _unwritable(target, error) from None
            yield

    def writing(self, path: str) -> AbstractContextManager[None]:
        self.check_place()
        return held(self._lease(path), self.group)

    def unused(self, path: str, newest_ns: int) -> AbstractContextManager[bool]:
        return if_free(self._lease(path))

    def work_folder(self, path: str) -> Path:
        folder = self._target(path)
        folder.mkdir(mode=0o700)
        if group := self.group:
            group.admit(folder)
        return folder

    def commit(self, folder: Path, path: str) -> None:
        self.check_place()
        if group := self.group:
            for written in (folder, *folder.rglob("*")):
                group.admit(written)
        flush_tree(folder)
        flush_folder(folder.parent)

    def release(self, folder: Path) -> None:
        """It is the version itself."""

    def discard(self, folder: Path, path: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def local(self, path: str) -> Path | None:
        if path:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.close(open_regular(self.root, path))
        return self.root / path

    def zarr(self, path: str) -> Any:
        from storyframes.store.storage.zarr_folder import ZarrFolder

        self._check_folder(path)
        return {"store": ZarrFolder(self.root / path, read_only=True)}

    def _lease(self, path: str) -> Path:
        version = self.root / path
        return version.with_name(f".{version.name}{LOCK_SUFFIX}")

    def _target(self, path: str) -> Path:
        """The file to write for a path of the store; the folders above it are made."""
        check_path(path)
        check_has_locks(self.root)
        self.check_place()
        self._check_folder(path.rpartition("/")[0])
        self._make_folder((self.root / path).parent)
        return self.root / path

    def _check_folder(self, path: str) -> None:
        """Check that a folder of the store is inside it, and not behind a link."""
        if not is_in_place(self.root, path, os.path.realpath(self.root / path)):
            raise StorageError(f"{path}: {LINK}")

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_folder(folder.parent)
            if group := self.group:
                _make_shared(folder, group)
            else:
                folder.mkdir(exist_ok=True, mode=0o700)
            flush_folder(folder.parent)

    def _walk(self, folder: str, unreadable: Unreadable | None) -> Iterator[tuple[str, list[str]]]:
        """Every folder at and below ``folder``, with the names of its files."""
        names = []
        for entry in self._entries(folder, unreadable):
            path = _join(folder, entry.name)
            with _reporting(path, unreadable):
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(path, unreadable)
                elif entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                elif unreadable is not None:
                    raise irregular(path)
        yield folder, names

    def _folders_in(self, folder: str, unreadable: Unreadable | None) -> list[str]:
        folders = []
        for entry in self._entries(folder, unreadable):
            path = _join(folder, entry.name)
            with _reporting(path, unreadable):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif unreadable is not None and entry.is_dir():
                    raise irregular(path)
        return folders

    def _entries(self, folder: str, unreadable: Unreadable | None) -> list[os.DirEntry[str]]:
        with _reporting(folder, unreadable):
            try:
                with os.scandir(f"{self.root}/{folder}") as entries:
                    return [entry for entry in entries if not (is_foreign(entry.name) and entry.is_dir())]
            except (FileNotFoundError, NotADirectoryError):
                """Removed since it was listed, or never made."""
        return []


def state_of(status: os.stat_result, now_ns: int) -> str:
    """What distinguishes a file's content from any other that it had or gets; empty where nothing is certain to.

    A replaced file has another inode and another ``ctime``, which cannot be set: a copy or a backup has its own. But
    inodes are reused, and a clock does not change within its tick, so a file that changed a moment ago (or in the
    future) may change again unnoticed. Times in whole seconds are those of a file system without finer ones, or of one
    in front of an object store, whose inodes are made up.

    Args:
        now_ns: the file system's time before ``status`` was asked for.
    """
    times = status.st_mtime_ns, status.st_ctime_ns
    if now_ns - max(times) < _SETTLED_NS or not all(time_ns % 1_000_000_000 for time_ns in times):
        return ""
    return f"{status.st_ino} {status.st_size} {times[0]} {times[1]}"


def _status_when_opened(path: str) -> os.stat_result:
    """The status of a file from opening it, for which a network file system asks its server instead of its cache."""
    descriptor = os.open(path, AS_FILE)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _make_shared(folder: Path, group: Group) -> None:
    """Make a folder that is the group's from the first moment; another member may make it meanwhile."""
    made = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    made.mkdir(mode=0o700)
    try:
        group.admit(made)
        made.rename(folder)
    except OSError:
        made.rmdir()
        if not folder.is_dir():
            raise


def in_order(session_id: str) -> str:
    """The key by which sessions are sorted as the paths of what is in them are."""
    return f"{session_id}/"


def is_foreign(name: str) -> bool:
    """Whether it is the file system's own folder (snapshots, lost+found); none of a store begins with a dot."""
    return name.startswith(".") or name == "lost+found"


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _unreadable(path: str, error: OSError) -> StorageError:
    if isinstance(error, StorageError):
        return error
    reason = reason_of(error)
    return StorageError(f"{path or 'the store'}: cannot be read: {reason}", transient=may_pass(error))


def _unwritable(path: Path, error: OSError) -> StorageError:
    reason = reason_of(error)
    return StorageError(f"{path.parent}: nothing can be written there: {reason}", transient=may_pass(error))


@contextlib.contextmanager
def _reporting(path: str, unreadable: Unreadable | None) -> Iterator[None]:
    """Report an error to ``unreadable``, or raise it as a :class:`StorageError`."""
    try:
        yield
    except OSError as error:
        reported = _unreadable(path, error)
        if unreadable is None:
            raise reported from None
        unreadable(path, str(reported))
