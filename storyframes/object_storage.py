"""A feature store under a prefix of an S3-compatible object store, through obstore."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storyframes.scratch import make_scratch_folder
from storyframes.storage import Content, FileInfo, StorageError, Update

if TYPE_CHECKING:
    from obstore.store import ObjectStore as ObstoreStore

_REQUESTS_AT_ONCE = 32


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
        return make_scratch_folder("version")

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
