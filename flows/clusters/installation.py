"""What a process works with: the code, Python, and the libraries that decide values.

A version's name does not say which code it is: two checkouts, or a wheel and a checkout, share it.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import storyframes
from storyframes.store.storage.files import sha256_file
from tasks.extractors.base import distribution_version

VALUES_DEPEND_ON = ("torch", "openvino", "av", "opencv-python-headless", "opensmile", "numpy")
_ROOMS = ("storyframes", "tasks", "flows")
# What decides values; not the report's pages, nor what editors leave.
_CODE = {".py", ".conf", ".inc", ".json", ".toml"}


@dataclass(frozen=True)
class Installation:
    """What a process works with."""

    version: str  # of storyframes
    code: str  # SHA-256 over the names and contents of its files as they are on the disk
    python: str  # major and minor version: tasks travel pickled
    # versions by distribution, without the part that names a build (``+cu124``): a GPU's is another
    libraries: Mapping[str, str]
    # by package of a plug-in that does the work, the digest of its code; "" where it is not installed
    plug_ins: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_this_process(cls, libraries: Iterable[str], plug_ins: Iterable[str] = ()) -> Self:
        versions = {name: distribution_version(name).partition("+")[0] for name in sorted(set(libraries))}
        python = ".".join(platform.python_version_tuple()[:2])
        plug_in_code = {package: _package_digest(package) for package in plug_ins}
        return cls(storyframes.__version__, _code_digest(), python, versions, plug_in_code)

    def differences_here(self) -> list[str]:
        """In what this process differs from the one that this describes, which is the flow's."""
        return self.of_this_process(self.libraries, self.plug_ins).differences_from(self, "the flow")

    def differences_from(self, other: Installation, name: str) -> list[str]:
        """In what this differs from ``other``, which messages call by ``name``."""
        differences = []
        if self.version != other.version:
            differences.append(f"it has storyframes {self.version}, {name} has {other.version}: install the same there")
        elif self.code != other.code:
            differences.append(
                f"its storyframes {self.version} is other code than {name}'s (digest {self.code[:12]}, {name}'s is "
                f"{other.code[:12]}): install the same wheel or commit there"
            )
        if self.python != other.python:
            differences.append(f"it has Python {self.python}, {name} has {other.python}")
        for library, version in other.libraries.items():
            if self.libraries.get(library) != version:
                differences.append(
                    f"it has {library} {self.libraries.get(library)}, {name} has {version}: values depend on it, "
                    "install the same there (constraints.txt)"
                )
        for package, code in other.plug_ins.items():
            own = self.plug_ins.get(package)
            if not own:
                differences.append(f"it lacks the plug-in {package}: install the same as {name}'s there")
            elif own != code:
                differences.append(
                    f"its plug-in {package} is other code than {name}'s (digest {own[:12]}, {name}'s is {code[:12]}): "
                    "install the same wheel or commit there"
                )
        return differences


@cache
def _package_digest(package: str) -> str:
    """Of the code of an installed package, or of a module by itself; "" where there is none."""
    spec = find_spec(package)
    if spec is None:
        return ""
    if folders := spec.submodule_search_locations:
        return _digest(Path(folders[0]), (".",))
    return sha256_file(Path(spec.origin)) if spec.origin and Path(spec.origin).is_file() else ""


@cache
def _code_digest() -> str:
    return _digest(Path(storyframes.__file__).parent.parent, _ROOMS)


def _digest(root: Path, folders: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*") if path.suffix in _CODE):
        digest.update(f"{path.relative_to(root).as_posix()} {sha256_file(path)}\n".encode())
    return digest.hexdigest()
