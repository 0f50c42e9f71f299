"""What a process works with: the code, Python, the libraries that decide values; compared between a flow and workers.

A version's name does not say which code it is: two checkouts, or a wheel and a checkout, share it.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

import storyframes
from storyframes.store.storage.files import sha256_file
from tasks.extractors.base import distribution_version

_ROOMS = ("storyframes", "tasks", "flows")
# What decides values; not the report's pages, nor what editors leave.
_CODE = {".py", ".conf", ".inc", ".json", ".toml"}


@dataclass(frozen=True)
class Installation:
    """What a process works with.

    Attributes:
        version: of storyframes.
        code: SHA-256 over the names and contents of its files as they are on the disk.
        python: major and minor version: tasks travel pickled.
        libraries: versions by distribution, without the part that names a build (``+cu124``): a GPU's is another.
    """

    version: str
    code: str
    python: str
    libraries: Mapping[str, str]

    @classmethod
    def of_this_process(cls, libraries: Iterable[str]) -> Self:
        versions = {name: distribution_version(name).partition("+")[0] for name in sorted(set(libraries))}
        python = ".".join(platform.python_version_tuple()[:2])
        return cls(storyframes.__version__, _code_digest(), python, versions)

    def differences_here(self) -> list[str]:
        """In what this process differs from the one that this describes, which is the flow's."""
        here = self.of_this_process(self.libraries)
        found = []
        if here.version != self.version:
            found.append(f"it has storyframes {here.version}, the flow has {self.version}: install the same there")
        elif here.code != self.code:
            found.append(
                f"its storyframes {here.version} is other code than the flow's (digest {here.code[:12]}, the flow's is "
                f"{self.code[:12]}): install the same wheel or commit there"
            )
        if here.python != self.python:
            found.append(f"it has Python {here.python}, the flow has {self.python}")
        for name, version in self.libraries.items():
            if here.libraries[name] != version:
                found.append(
                    f"it has {name} {here.libraries[name]}, the flow has {version}: values depend on it, install the "
                    "same there (constraints.txt)"
                )
        return found


@cache
def _code_digest() -> str:
    root = Path(storyframes.__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(path for room in _ROOMS for path in (root / room).rglob("*") if path.suffix in _CODE):
        digest.update(f"{path.relative_to(root).as_posix()} {sha256_file(path)}\n".encode())
    return digest.hexdigest()
