"""Where a feature store lies: a folder of this machine, or a prefix of an S3-compatible object store.

The rest of the library speaks of paths below the store ("s1/openface/current.json") and of five things one can do
with them. What makes publishing safe is the same in both places: a version's files are written where nothing refers to
them, and one small file is replaced in one step. A folder has atomic renames and locks for it, an object store has
conditional puts (``If-Match``, ``If-None-Match``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from storyframes.durable import flush_folder, flush_tree, locked, sha256_file, write_atomically

if TYPE_CHECKING:
    from obstore.store import ObjectStore as ObstoreStore

_REQUESTS_AT_ONCE = 32


class StorageError(OSError):
    """The place cannot be reached or used; the message says what to do."""


@dataclass(frozen=True)
class FileInfo:
    """Size and modification time of one file."""

    bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Content:
    """A small file and what tells this state of it from any other."""

    data: bytes | None
    tag: str | None


Update = Callable[[bytes | None], bytes | None]
"""Makes the new content of a file from the old one; None leaves it. May be called again when somebody was faster."""


class Storage(Protocol):
    """A place for a feature store. All paths are relative to it, with forward slashes."""

    @property
    def location(self) -> str:
        """The place, as :func:`open_storage` takes it."""

    def read(self, path: str) -> bytes | None:
        """The content of a small file, None where there is none."""

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes | None]:
        """The contents of many small files."""

    def replace(self, path: str, data: bytes) -> None:
        """Make ``data`` the content of ``path`` in one durable step."""

    def update(self, path: str, change: Update) -> None:
        """Replace ``path`` by what ``change`` makes of it, so that no other update in between is lost."""

    def files(self, prefix: str = "") -> dict[str, FileInfo]:
        """Every file below a folder, by its path below the store."""

    def empty_folders(self) -> dict[str, FileInfo]:
        """Folders with nothing in them, where the place knows such a thing."""

    def records(self, names: Iterable[str], session_id: str = "*") -> list[str]:
        """The paths ``<session>/<feature>/<name>`` that exist, sorted."""

    def digest(self, path: str) -> str:
        """SHA-256 of a file as the place gives it back, past any cache of this machine's.

        Raises:
            OSError: it is not there.
        """

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files and empty folders, and the folders that become empty by it."""

    def work_folder(self, path: str) -> Path:
        """A new folder of this machine for what will be ``path``: there already, or to be sent by :meth:`commit`."""

    def commit(self, folder: Path, path: str) -> None:
        """Make everything in a work folder durable at ``path``."""

    def release(self, folder: Path) -> None:
        """The work folder has been committed and published: remove it unless it is the place itself."""

    def discard(self, folder: Path, path: str) -> None:
        """Remove a work folder and whatever of it has reached ``path``."""

    def local(self, path: str) -> Path | None:
        """Where ``path`` lies on this machine's disk, None where it does not."""

    def zarr(self, path: str) -> Any:
        """What zarr-python opens for the node at ``path``, as keyword arguments."""


def open_storage(location: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """The place that ``location`` names: a path, or a URL (``s3://bucket/prefix``).

    Args:
        location: where.
        options: for a URL, what obstore takes (``endpoint``, ``region``, ``access_key_id``, ``client_options``, …); the
            environment's ``AWS_*`` variables otherwise.

    Raises:
        StorageError: the URL's scheme is unknown, or obstore is not installed.
    """
    text = os.fspath(location)
    if "://" in text:
        return ObjectStorage(text, options or {})
    return LocalStorage(Path(text).absolute())  # workers may run in another folder


# --- a folder of this machine ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalStorage:
    """A folder."""

    root: Path

    @property
    def location(self) -> str:
        return str(self.root)

    def read(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes | None]:
        return {path: self.read(path) for path in paths}

    def replace(self, path: str, data: bytes) -> None:
        target = self.root / path
        self._make_folder(target.parent)
        write_atomically(target, data)

    def update(self, path: str, change: Update) -> None:
        """Updates of one file wait for each other (a lock beside it)."""
        with locked(self.root / f".{Path(path).name}.lock"):
            if (data := change(self.read(path))) is not None:
                self.replace(path, data)

    def files(self, prefix: str = "") -> dict[str, FileInfo]:
        found = {}
        for parent, _, names in os.walk(self.root / prefix):
            for name in names:
                path = Path(parent, name)
                with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                    status = path.stat()
                    key = path.relative_to(self.root).as_posix()
                    found[key] = FileInfo(status.st_size, status.st_mtime_ns)
        return found

    def empty_folders(self) -> dict[str, FileInfo]:
        empty = {}
        for parent, folders, names in os.walk(self.root):
            if not folders and not names:
                path = Path(parent)
                empty[path.relative_to(self.root).as_posix()] = FileInfo(0, path.stat().st_mtime_ns)
        return empty

    def records(self, names: Iterable[str], session_id: str = "*") -> list[str]:
        return sorted(
            path.relative_to(self.root).as_posix()
            for name in names
            for path in self.root.glob(f"{session_id}/*/{name}")
        )

    def digest(self, path: str) -> str:
        return sha256_file(self.root / path, from_disk=True)

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            target = self.root / path
            if not target.is_dir():
                target.unlink(missing_ok=True)
                target = target.parent
            with contextlib.suppress(OSError):  # as far up as folders are empty
                while target != self.root:
                    target.rmdir()
                    target = target.parent

    def work_folder(self, path: str) -> Path:
        folder = self.root / path
        self._make_folder(folder.parent)
        folder.mkdir(mode=0o700)
        return folder

    def commit(self, folder: Path, path: str) -> None:
        flush_tree(folder)
        flush_folder(folder.parent)

    def release(self, folder: Path) -> None:
        """It is the place itself."""

    def discard(self, folder: Path, path: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def local(self, path: str) -> Path | None:
        return self.root / path

    def zarr(self, path: str) -> Any:
        return {"store": self.root / path}

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True, mode=0o700)
            flush_folder(folder.parent)


# --- an object store -------------------------------------------------------------------------------------------------


class ObjectStorage:
    """A prefix of an S3-compatible object store, through obstore."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.location = url.rstrip("/")
        self._options = dict(options)
        self._store = _connect(self.location, self._options)

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStorage, (self.location, self._options)

    def read(self, path: str) -> bytes | None:
        return self._get(path).data

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes | None]:
        paths = list(paths)
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            return dict(zip(paths, pool.map(self.read, paths), strict=True))

    def replace(self, path: str, data: bytes) -> None:
        import obstore

        with self._errors():
            obstore.put(self._store, path, data)

    def update(self, path: str, change: Update) -> None:
        """A conditional put that starts over where somebody else was faster."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        while True:
            before = self._get(path)
            data = change(before.data)
            if data is None:
                return
            mode: Any = "create" if before.tag is None else {"e_tag": before.tag}
            with self._errors(), contextlib.suppress(AlreadyExistsError, PreconditionError):
                obstore.put(self._store, path, data, mode=mode)
                return

    def files(self, prefix: str = "") -> dict[str, FileInfo]:
        import obstore

        below = f"{prefix.rstrip('/')}/" if prefix else None
        with self._errors():
            return {
                item["path"]: FileInfo(item["size"], round(item["last_modified"].timestamp() * 1e9))
                for page in obstore.list(self._store, prefix=below)
                for item in page
            }

    def empty_folders(self) -> dict[str, FileInfo]:
        return {}  # an object store has none

    def records(self, names: Iterable[str], session_id: str = "*") -> list[str]:
        wanted = set(names)
        listed = self.files("" if session_id == "*" else session_id)
        return sorted(path for path in listed if path.count("/") == 2 and path.rsplit("/", 1)[1] in wanted)

    def digest(self, path: str) -> str:
        import hashlib

        import obstore

        digest = hashlib.sha256()
        for block in obstore.get(self._store, path).stream():
            digest.update(block)
        return digest.hexdigest()

    def remove(self, paths: Iterable[str]) -> None:
        import obstore

        if paths := list(paths):
            with self._errors():
                obstore.delete(self._store, paths)

    def work_folder(self, path: str) -> Path:
        return Path(tempfile.mkdtemp(prefix="storyframes-version-"))

    def commit(self, folder: Path, path: str) -> None:
        import obstore

        def send(file: Path) -> None:
            obstore.put(self._store, f"{path}/{file.relative_to(folder).as_posix()}", file)

        files = [file for file in folder.rglob("*") if file.is_file()]
        with self._errors(), ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            list(pool.map(send, files))

    def release(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def discard(self, folder: Path, path: str) -> None:
        self.release(folder)
        self.remove(self.files(path))

    def local(self, path: str) -> Path | None:
        return None

    def zarr(self, path: str) -> Any:
        from zarr.storage import ObjectStore

        return {"store": ObjectStore(self._store), "path": path}

    def _get(self, path: str) -> Content:
        import obstore

        with self._errors():
            try:
                got = obstore.get(self._store, path)
                return Content(bytes(got.bytes()), got.meta["e_tag"])
            except FileNotFoundError:
                return Content(None, None)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """obstore's errors with the place in them, and without its debugging output."""
        from obstore.exceptions import BaseError

        try:
            yield
        except BaseError as error:
            raise StorageError(f"{self.location}: {_first_line(error)}") from None


def _connect(url: str, options: Mapping[str, Any]) -> ObstoreStore:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError:
        raise StorageError(f"{url} needs the package obstore: pip install 'storyframes[s3]'") from None
    try:
        return from_url(url, **options)
    except (BaseError, ValueError) as error:
        raise StorageError(f"{url} cannot be opened: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if len(text) < 300 else f"{text[:300]}…"
