"""The files that decide the values of a FeatureExtraction of this machine: the program, its libraries, its models.

An image has one digest for all of them. Here every file is hashed that the program is known to load: the folders of
models beside it, the shared libraries that the system's loader names, and the files that the settings name. A program
whose files are unknown (a script that runs something) is refused, and after a run every file that the tool says it has
read must be among the hashed ones.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from storyframes.store.records import canonical_json
from tasks.extractors.base import ExtractionError
from tasks.models.digests import model_digests

MODEL_FOLDERS = ("model", "AU_predictors", "classifiers")
"""The folders in which OpenFace looks for its models, beside the path that it was called by."""

_ELF = b"\x7fELF"
_LINKED = re.compile(r"^\s*(\S+)(?: => (\S+))?(?: \(0x[0-9a-f]+\))", re.MULTILINE)
_UNRESOLVED = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_READING = re.compile(r"^Reading .+? from: ?(/.+?)\.*(?: ?Done)?\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ToolFiles:
    """The files of a tool, and their digests."""

    digests: Mapping[str, str]  # SHA-256 of each part: the program, its libraries, its models
    paths: frozenset[Path]  # every file hashed

    def check_printed(self, printed: str) -> None:
        """Compare with the files that the tool printed it was reading.

        Raises:
            ExtractionError: it read a file that was not hashed.
        """
        for path in files_read(printed):
            if path.is_file() and path.resolve() not in self.paths:
                raise ExtractionError(
                    f"FeatureExtraction read {path}, and nobody would notice if that changed: name it, or its folder, "
                    "in [openface] loads"
                )


def find_tool_files(binary: Path, loads: Sequence[Path]) -> ToolFiles:
    """Hash ``binary`` and the files that it loads; files that have not changed since the last time are not read again.

    Args:
        binary: absolute path of FeatureExtraction.
        loads: other files and folders that decide its values.

    Raises:
        ExtractionError: the files that it loads are unknown, or one of them does not exist.
    """
    beside = [binary.parent / name for name in MODEL_FOLDERS if (binary.parent / name).is_dir()]
    is_program = _is_elf(binary)
    if not loads and not (is_program and beside):
        what = "has no models beside it" if is_program else "is a script, so what it runs and loads is unknown"
        raise ExtractionError(
            f"[openface] binary = {str(binary)!r} {what}. Name the files and folders that decide its values (the "
            "program, its libraries, its models) in [openface] loads, so that their digests tell when they change"
        )
    parts: dict[str, dict[str, Path]] = {"FeatureExtraction": {"": binary}}
    if is_program and (libraries := _libraries(binary)):
        parts["libraries"] = {path.name: path for path in libraries}
    models = {path.relative_to(binary.parent).as_posix(): path for folder in beside for path in _files(folder)}
    if models:
        parts["models"] = models
    if loads:
        parts["loads"] = {
            f"{number}/{path.relative_to(root).as_posix()}": path
            for number, root in enumerate(loads)
            for path in _files(_existing(root))
        }
    digests = model_digests({path for files in parts.values() for path in files.values()})
    return ToolFiles(
        digests={
            part: _digest_of({name: digests[path] for name, path in files.items()}) for part, files in parts.items()
        },
        paths=frozenset(path.resolve() for path in digests),
    )


def files_read(printed: str) -> list[Path]:
    """The files that FeatureExtraction printed it was reading."""
    return [Path(match[1].strip()) for match in _READING.finditer(printed)]


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF


def _libraries(program: Path) -> list[Path]:
    """The shared libraries that the system's loader gives to the program in a run."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # as in a run, without LD_LIBRARY_PATH
    ldd = shutil.which("ldd")
    if ldd is None:
        raise ExtractionError("ldd, which lists the libraries of [openface] binary, is not installed")
    listed = subprocess.run([ldd, str(program)], capture_output=True, text=True, env=environment, check=False)
    if missing := _UNRESOLVED.search(listed.stdout):
        raise ExtractionError(f"[openface] binary = {str(program)!r}: its library {missing[1]} is not found")
    named = (match[2] or match[1] for match in _LINKED.finditer(listed.stdout))
    return sorted({Path(name) for name in named if name.startswith("/")})


def _existing(path: Path) -> Path:
    if not path.exists():
        raise ExtractionError(f"[openface] loads names {str(path)!r}, which is not there")
    return path


def _files(root: Path) -> Iterator[Path]:
    """Every file of a folder, or the file itself."""
    if root.is_file():
        yield root
        return
    for parent, _, names in os.walk(root, followlinks=True):
        yield from (Path(parent, name) for name in names)


def _digest_of(digests: Mapping[str, str]) -> str:
    if list(digests) == [""]:
        return digests[""]
    return hashlib.sha256(canonical_json(dict(digests))).hexdigest()
