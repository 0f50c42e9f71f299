"""A feature store in a folder of this machine, or of a file system that several machines mount."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storyframes.durable import flush_folder, flush_tree, locked, sha256_file, write_atomically
from storyframes.storage import FileInfo, Update


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
