"""A disk that fails, and one that loses power: for tests that run a part of the store in a process of its own.

``faulty_disk.c`` is loaded before libc there. It makes chosen calls fail, or records what reaches the disk, from which
:class:`Recording` makes the disks that a loss of power could leave.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from storyframes.store.storage.local_folder import LOCK_SUFFIX

TESTS = Path(__file__).parents[2]


Found = tuple[tuple[str, bytes | None], ...]  # paths in their order, the folder itself first; None is a folder


def lay(found: Found, target: Path) -> None:
    """Make ``target`` such a folder."""
    for path, content in found:
        if content is None:
            (target / path).mkdir()
        else:
            (target / path).write_bytes(content)


def build(folder: Path) -> Path:
    """The compiled library."""
    library = folder / "faulty_disk.so"
    source = Path(__file__).parent / "faulty_disk.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def run(library: Path, code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code on such a disk; it can import the tests' modules."""
    environment = os.environ | variables | {"LD_PRELOAD": str(library), "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def faults(*calls: tuple[str, int, str]) -> dict[str, str]:
    """The environment in which each call fails with an error where the path contains a part."""
    return {"FAULTS": ";".join(f"{call}:{number}:{part}" for call, number, part in calls)}


EIO = errno.EIO


class Loss(Enum):
    """What a loss of power takes, of what was not flushed. All three are allowed to a file system."""

    ALL = "contents and names"
    CONTENTS = "contents only"  # names are in a journal: files have their length, and zeros
    SOME = "contents, and the names of some folders"


@dataclass
class _File:
    content: bytes = b""
    flushed: int = 0  # bytes of it


@dataclass
class Recording:
    """What was done to a folder, step by step.

    Attributes:
        folder: as it is after the last step.
        before: a copy of what it was before the first one.
        steps: as recorded.
        judged: what a test said of what is found, by that.
    """

    folder: Path
    before: Path
    steps: list[list[str]]
    judged: dict[object, list[str]] = field(default_factory=dict)
    _live: dict[str, _File | None] = field(default_factory=dict)  # by path; None is a folder
    _durable: dict[str, _File | None] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path, folder: Path, before: Path) -> Recording:
        return cls(folder, before, [line.split(" ") for line in file.read_text().splitlines()])

    def found_after(self, steps: int, loss: Loss, seed: int = 0) -> Found:
        """The folder that is found when the power was lost after so many steps; many losses leave the same."""
        self._replay(self.steps[:steps])
        generator = random.Random(seed)
        journaled: dict[Loss, Callable[[], bool]] = {
            Loss.ALL: lambda: False,
            Loss.CONTENTS: lambda: True,
            Loss.SOME: lambda: generator.random() < 0.5,
        }
        parents = sorted({str(Path(path).parent) for path in (*self._live, *self._durable)})
        keeps = {parent: journaled[loss]() for parent in parents}
        found: dict[str, bytes | None] = {str(self.folder): None}
        for path in sorted({*self._live, *self._durable}):
            kept = self._live if keeps[str(Path(path).parent)] else self._durable
            if path not in kept or found.get(str(Path(path).parent), b"") is not None:
                continue
            node = kept[path]
            if node is None:
                found[path] = None
                continue
            flushed = node.content[: node.flushed]
            found[path] = flushed if loss is Loss.ALL else flushed.ljust(len(node.content), b"\0")
        return tuple((str(Path(path).relative_to(self.folder)), content) for path, content in found.items())

    def _replay(self, steps: list[list[str]]) -> None:
        self._live = {}
        for path in sorted(self.before.rglob("*")):
            name = str(self.folder / path.relative_to(self.before))
            self._live[name] = None if path.is_dir() else _File(path.read_bytes(), path.stat().st_size)
        self._durable = dict(self._live)
        for what, name, *rest in steps:
            match what:
                case "create":
                    self._live[name] = _File()
                case "write":
                    _file(self._live, name).content += bytes.fromhex(rest[0])
                case "fsync":
                    _file(self._live, name).flushed = int(rest[0])
                case "mkdir":
                    self._live[name] = None
                case "rename":
                    self._live[rest[0]] = self._live.pop(name)
                case "unlink" | "rmdir":
                    del self._live[name]
                case "fsync-folder":
                    self._durable = {k: v for k, v in self._durable.items() if str(Path(k).parent) != name}
                    self._durable |= {k: v for k, v in self._live.items() if str(Path(k).parent) == name}

    def is_complete(self) -> bool:
        """Whether the steps lead to what the folder is: nothing went past the recording.

        Of a lock's file only its name counts: who holds it is written past the recording, and worth nothing afterwards.
        """
        self._replay(self.steps)
        there = {str(path): None if path.is_dir() else path.read_bytes() for path in self.folder.rglob("*")}
        live = {path: node and node.content for path, node in self._live.items()}
        locks = {path for path in there.keys() & live.keys() if path.endswith(LOCK_SUFFIX)}
        return there | dict.fromkeys(locks) == live | dict.fromkeys(locks)


def recorded(library: Path, folder: Path, code: str, *arguments: str, more: Mapping[str, str] = {}) -> Recording:
    """Run Python code and record what it does to a folder."""
    before = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-before")))
    file = folder.with_name(f"{folder.name}-steps")
    result = run(library, code, *arguments, RECORD=str(file), RECORD_UNDER=f"{folder}/", **more)
    assert result.returncode == 0, result.stderr
    return Recording.read(file, folder, before)


def _file(files: dict[str, _File | None], path: str) -> _File:
    file = files[path]
    assert file is not None, f"{path} is a folder"
    return file
