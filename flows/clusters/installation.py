"""What a process works with: the code, Python, the libraries that decide values; compared between a flow and workers.

A version's name does not say which code it is: two checkouts, or a wheel and a checkout, share it.
"""

from __future__ import annotations

import hashlib
import pickle
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

import storyframes
from storyframes.store.storage.files import sha256_file
from tasks.extractors.base import distribution_version

if TYPE_CHECKING:
    from distributed import Worker

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
        here = self.of_this_process(self.libraries, self.plug_ins)
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
        for package, code in self.plug_ins.items():
            if not here.plug_ins[package]:
                found.append(f"it lacks the plug-in {package}: install the same as the flow's there")
            elif here.plug_ins[package] != code:
                found.append(
                    f"its plug-in {package} is other code than the flow's (digest {here.plug_ins[package][:12]}, the "
                    f"flow's is {code[:12]}): install the same wheel or commit there"
                )
        return found


def plug_in_problems(installation: Installation, question: bytes, worker: Worker) -> list[str]:
    """Why this worker cannot do a plug-in's work; for :func:`flows.clusters.admission.admit_workers`.

    Args:
        question: a pickled function without arguments that gives such reasons; only a worker that has the plug-in can
            read it.
    """
    problems = installation.differences_here()
    try:
        ask = pickle.loads(question)  # noqa: S301 - the flow packed it
    except ImportError as error:
        return problems or [f"it lacks {error.name}: install the same as the flow's there"]
    return problems + list(ask())


@cache
def _package_digest(package: str) -> str:
    """Of the code of an installed package; "" where there is none."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return _digest(Path(folders[0]), (".",)) if folders else ""


@cache
def _code_digest() -> str:
    return _digest(Path(storyframes.__file__).parent.parent, _ROOMS)


def _digest(root: Path, folders: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*") if path.suffix in _CODE):
        digest.update(f"{path.relative_to(root).as_posix()} {sha256_file(path)}\n".encode())
    return digest.hexdigest()
