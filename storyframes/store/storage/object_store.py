"""A feature store under a prefix of an S3-compatible object store, through obstore, which may not be installed."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, JoinError, PreconditionError
from obstore.store import ObjectStore as ObstoreStore
from obstore.store import from_url
from zarr.storage import ObjectStore

from storyframes.store.storage import FileInfo, StorageError, Tail, Unreadable, Update
from storyframes.store.storage.scratch import make_scratch_folder
from storyframes.store.storage.zarr_folder import present
from storyframes.store.validation import MOST_JSON_BYTES

_REQUESTS_AT_ONCE = 32
# A version is read back between its last object and its publication; this is long enough for that.
_SPARED_S = 3600.0
_LONGEST_RUN_S = 30 * 24 * 3600.0


class ObjectStorage:
    """A prefix of an S3-compatible object store; see :class:`~storyframes.store.storage.Storage` for the methods.

    Args:
        url: ``s3://bucket/prefix``.
        options: as obstore takes them.
    """

    knows_writers = False  # it has no locks
    flushes_folders = True  # a put is durable when it returns

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.location = url.rstrip("/")
        self._options = dict(options)
        self._store = _connect(self.location, self._options)

    def __repr__(self) -> str:
        return f"ObjectStorage({self.location!r})"  # the options may hold a key

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStorage, (self.location, self._options)

    @property
    def connection(self) -> Any:
        """The store of obstore, with its options, for requests that obstore does not make."""
        return self._store

    @property
    def ranges(self) -> ObjectStorage:
        return self

    def tail(self, path: str, length: int) -> Tail:
        with errors(self.location):
            try:
                got = obstore.get(self._store, path, options={"range": {"suffix": length}})
                return Tail(bytes(got.bytes()), got.meta["size"], got.meta["e_tag"] or "")
            except FileNotFoundError:
                raise MissingObjectError(f"{path} does not exist: was its version removed by gc?") from None

    def part(self, path: str, start: int, stop: int) -> Any:
        with errors(self.location):
            try:
                return obstore.get_range(self._store, path, start=start, end=stop)
            except FileNotFoundError:
                raise MissingObjectError(f"{path} does not exist: was its version removed by gc?") from None

    @property
    def store_id(self) -> str:
        return ""

    def pinned(self, store_id: str = "", *, make_id: bool = False) -> Self:
        return self

    def check_place(self) -> None:
        """A prefix cannot be unmounted."""

    def prepare(self) -> None:
        """Nothing to do: writing fails where the bucket does not exist."""

    def read(self, path: str) -> bytes | None:
        return self._get(path)[0]

    def read_many(self, paths: Iterable[str], unreadable: Unreadable | None = None) -> dict[str, bytes | None]:
        def read(path: str) -> bytes | StorageError | None:
            try:
                return self.read(path)
            except StorageError as error:
                return error

        contents: dict[str, bytes | None] = {}
        paths = list(paths)
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            for path, content in zip(paths, pool.map(read, paths), strict=True):
                if not isinstance(content, StorageError):
                    contents[path] = content
                elif unreadable is None:
                    raise content
                else:
                    unreadable(path, f"{path}: cannot be read: {content}")
        return contents

    def replace(self, path: str, data: bytes) -> None:
        with errors(self.location):
            self._put(path, data)

    def update(self, path: str, change: Update, *, wait_s: float | None = None) -> None:
        """A conditional put that starts over where another writer was faster."""
        while True:
            before, tag = self._get(path)
            data = change(before)
            if data is None:
                return
            mode: Any = "create" if tag is None else {"e_tag": tag}
            with errors(self.location), contextlib.suppress(AlreadyExistsError, PreconditionError):
                self._put(path, data, mode)
                return

    def info(self, path: str) -> FileInfo | None:
        with errors(self.location):
            try:
                return _info(obstore.head(self._store, path))
            except FileNotFoundError:
                return None

    def files(self, prefix: str = "", unreadable: Unreadable | None = None) -> dict[str, FileInfo]:
        return {item["path"]: _info(item) for item in self._list(prefix)}

    def _list(self, prefix: str = "") -> Iterator[Any]:
        below = f"{prefix.rstrip('/')}/" if prefix else None
        with errors(self.location):
            for page in obstore.list(self._store, prefix=below, chunk_size=1000):
                yield from page

    def pieces(self, unreadable: Unreadable | None = None) -> Iterator[dict[str, FileInfo]]:
        yield self.files(unreadable=unreadable)  # a session's objects need not be listed side by side

    def records(self, names: Iterable[str], session_id: str = "*", unreadable: Unreadable | None = None) -> list[str]:
        return sorted(item["path"] for item in self._records(set(names), "" if session_id == "*" else session_id))

    def states(self, names: Iterable[str], unreadable: Unreadable | None = None) -> Iterator[tuple[str, str]]:
        for item in self._records(set(names)):
            tag = item["e_tag"] or ""
            yield item["path"], f"{tag} {item['size']} {item['last_modified'].isoformat()}" if tag else ""

    def _records(self, names: set[str], prefix: str = "") -> Iterator[Any]:
        for item in self._list(prefix):
            parts = item["path"].split("/")
            if len(parts) == 3 and parts[2] in names:
                yield item

    def digest(self, path: str) -> str:
        digest = hashlib.sha256()
        with errors(self.location):
            try:
                for block in obstore.get(self._store, path).stream():
                    digest.update(block)
            except FileNotFoundError:
                raise MissingObjectError(f"{self.location}/{path} is not there") from None
        return digest.hexdigest()

    def remove(self, paths: Iterable[str]) -> None:
        if paths := list(paths):
            with errors(self.location):
                obstore.delete(self._store, paths)

    def abandoned(self, path: str) -> AbstractContextManager[bool]:
        """Nothing says whether a writer is alive. Such a file is a run's mark, and no run lasts longer than this."""
        info = self.info(path)
        return contextlib.nullcontext(info is None or time.time() - info.mtime_ns / 1e9 > _LONGEST_RUN_S)

    @contextlib.contextmanager
    def kept(self, path: str, data: bytes, *, wait: bool = True) -> Iterator[None]:
        self.replace(path, data)
        try:
            yield
        finally:
            with contextlib.suppress(StorageError):  # gc removes it
                self.remove([path])

    def writing(self, path: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def now_ns(self) -> int:
        return time.time_ns()  # services refuse requests of clocks that are wrong by a quarter of an hour

    def unused(self, path: str, newest_ns: int) -> AbstractContextManager[bool]:
        return contextlib.nullcontext(time.time() - newest_ns / 1e9 > _SPARED_S)

    def work_folder(self, path: str) -> Path:
        return make_scratch_folder("version")

    def commit(self, folder: Path, path: str) -> None:
        def send(file: Path) -> None:
            self._put(f"{path}/{file.relative_to(folder).as_posix()}", file)

        files = [file for file in folder.rglob("*") if file.is_file()]
        with errors(self.location), ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            list(pool.map(send, files))

    def release(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def discard(self, folder: Path, path: str) -> None:
        self.release(folder)
        self.remove(self.files(path))

    def local(self, path: str) -> Path | None:
        return None

    def zarr(self, path: str) -> Any:
        return {"store": _ZarrObjects(self._store, read_only=True, location=self.location), "path": path}

    def _put(self, path: str, data: bytes | Path, mode: Any = "overwrite") -> None:
        obstore.put(self._store, path, data, mode=mode)

    def _get(self, path: str) -> tuple[bytes | None, str | None]:
        """The object, and a tag that no other state of it has; None for both where there is none."""
        with errors(self.location):
            try:
                got = obstore.get(self._store, path)
                if path.endswith(".json") and got.meta["size"] > MOST_JSON_BYTES:
                    raise StorageError(
                        f"{path}: has {got.meta['size']} bytes, and of JSON at most {MOST_JSON_BYTES} are read"
                    )
                return bytes(got.bytes()), got.meta["e_tag"]
            except FileNotFoundError:
                return None, None


class MissingObjectError(StorageError, FileNotFoundError):
    """The object does not exist."""


class _ZarrObjects(ObjectStore[Any]):
    """Objects for zarr-python to read, with this library's errors; an absent shard is one."""

    def __init__(self, store: Any, *, read_only: bool = False, location: str = "") -> None:
        super().__init__(store, read_only=read_only)
        self.location = location

    def with_read_only(self, read_only: bool = False) -> _ZarrObjects:
        return type(self)(self.store, read_only=read_only, location=self.location)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        with errors(self.location):
            return present(key, await super().get(key, prototype, byte_range))

    async def exists(self, key: str) -> bool:
        with errors(self.location):
            return await super().exists(key)


@contextlib.contextmanager
def errors(location: str) -> Iterator[None]:
    """Every error of obstore as a :class:`StorageError`: with the location, without debugging output."""
    try:
        yield
    except StorageError:
        raise
    except (FileNotFoundError, ValueError) as error:  # a put without a bucket; an invalid path
        raise StorageError(f"{location}: {_first_line(error)}") from None
    except BaseError as error:
        raise StorageError(f"{location}: {_first_line(error)}", transient=_may_pass(error)) from None


def _may_pass(error: Exception) -> bool:
    """Whether a connection broke or the server was busy; not where it refused, or does not have the object.

    The status in the message decides: obstore raises GenericError for 400, 500 and a listing's 403 alike.
    """
    status = re.search(r"status code: (\d{3})", str(error))
    if status:
        return status[1] in {"408", "425", "429"} or status[1].startswith("5")
    return isinstance(error, GenericError | JoinError)


def _info(item: Any) -> FileInfo:
    return FileInfo(item["size"], round(item["last_modified"].timestamp() * 1e9))


def _connect(url: str, options: Mapping[str, Any]) -> ObstoreStore:
    try:
        return from_url(url, **options)
    except (BaseError, ValueError) as error:
        raise StorageError(f"{url} cannot be opened: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if len(text) < 300 else f"{text[:300]}…"
