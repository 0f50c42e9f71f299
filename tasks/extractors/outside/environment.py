"""The environments that plug-ins run in: made from their own pinned requirements, apart from storyframes' own.

They are in this user's cache, ``environments/NAME-DIGEST``, where the digest is that of the pins and of Python's
version. One is made apart and gets its name when it is whole, so what has the name can be used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from storyframes.store.records import canonical_json, now
from storyframes.store.storage.files import flush_folder, sha256_file
from storyframes.store.storage.locks import locked
from tasks.models.digests import user_cache
from tasks.tools.tool_process import ToolResult, run_tool

_RECORD = "environment.json"
_INSTALL_S = 3600.0
_ASK_S = 120.0
_VERSION = "import platform; print(platform.python_version())"
_NOT_FOR_THE_INSTALL = (  # what is meant for another environment: pins of its own, other places to install to
    "PIP_BUILD_CONSTRAINT",
    "PIP_CONSTRAINT",
    "PIP_NO_BINARY",
    "PIP_PREFIX",
    "PIP_REQUIREMENT",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "VIRTUAL_ENV",
)


class EnvironmentMissingError(Exception):
    """There is no such environment here, or it is not as it was made; the message says which command makes it."""


class InstallError(Exception):
    """The environment could not be made; the message says why, and nothing was kept."""


@dataclass(frozen=True)
class Requirements:
    """What a plug-in's environment is made of.

    Attributes:
        name: of the environment, and of what ``storyframes extractors install`` is given.
        pins: a requirements file that names every distribution with ``==`` and ``--hash``; nothing else is installed.
        pythons: the versions that the pins are for, as ``"3.11"``; any where none is named.
        probe: a statement that has to run in the environment before it counts as made.
        own_pins: whether the pins are a user's own, and not the plug-in's.
    """

    name: str
    pins: Path
    pythons: tuple[str, ...] = ()
    probe: str = "import numpy"
    own_pins: bool = False

    @property
    def sha256(self) -> str:
        return sha256_file(self.pins)

    @property
    def command(self) -> str:
        """What makes the environment."""
        own = f" --pins {shlex.quote(str(self.pins))}" if self.own_pins else ""
        return f"storyframes extractors install {self.name}{own}"

    def with_pins(self, pins: Path) -> Requirements:
        """The same environment made of a user's own pins, for any Python.

        Raises:
            InstallError: there is no such file.
        """
        if not pins.is_file():
            raise InstallError(f"{str(pins)!r}, the pins of {self.name}, does not exist")
        return replace(self, pins=pins, pythons=(), own_pins=True)


@dataclass(frozen=True)
class Environment:
    """An environment that is here."""

    folder: Path
    python: str  # the version of its interpreter when it was made
    made_at: str  # when
    distributions: tuple[str, ...]  # what is installed in it, as ``numpy-1.26.4``

    @property
    def executable(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def damage(self) -> str:
        """What is not as it was made; empty where nothing is."""
        if not self.executable.is_file():
            return "its interpreter is gone"
        changed = set(_installed(self.folder)) ^ set(self.distributions)
        return f"{min(changed)} was installed or removed since" if changed else ""


def environments_folder() -> Path:
    """The folder of this user's environments."""
    return user_cache() / "environments"


def find_environment(requirements: Requirements) -> Environment:
    """The environment that was made from these pins; the one made last where there are several.

    Raises:
        EnvironmentMissingError: there is none, or it has been changed by hand.
    """
    if (environment := _made_last(requirements)) is None:
        raise EnvironmentMissingError(
            f"it runs in an environment of its own, which is not on this machine: '{requirements.command}' makes it"
        )
    if damage := environment.damage:
        raise EnvironmentMissingError(
            f"its environment is not as it was made ({damage}): '{requirements.command}' makes it again"
        )
    return environment


def install_environment(
    requirements: Requirements, python: Path | None = None, wheels: Path | None = None
) -> Environment:
    """Make the environment, by this interpreter if no other is given, or find it; waits for another install of it.

    Args:
        wheels: a folder with a kept copy of all wheels that the pins name, to install from without a network.

    Raises:
        InstallError: the interpreter does not do, pip could not install the pins, or the folder does not exist.
        StorageError: another install has been at it for an hour.
        OSError: the disk is full.
    """
    interpreter = str(python or sys.executable)
    if wheels and not wheels.is_dir():
        fetch = (
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--dest",
            str(wheels),
        )
        filled = shlex.join([interpreter, *fetch, "-r", str(requirements.pins)])
        raise InstallError(f"--from {wheels}: no such folder; where there is a network, this fills it: {filled}")
    version = _version_of(interpreter)
    if requirements.pythons and version.rpartition(".")[0] not in requirements.pythons:
        raise InstallError(
            f"the pins of {requirements.name} are for Python {' and '.join(requirements.pythons)}, and {interpreter} "
            f"is {version}: name another interpreter with --python"
        )
    root = environments_folder()
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = root / f"{requirements.name}-{_digest(requirements, version)}"
    with locked(root / f".{requirements.name}.lock", wait_s=_INSTALL_S):
        if (
            (environment := _read(folder))
            and not environment.damage
            and _version_of(str(environment.executable)) == version
        ):
            return environment
        partial = root / f".{requirements.name}.partial"
        for leftover in (partial, folder):  # of an install that was killed; of an environment that was changed
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            _make(requirements, interpreter, partial, wheels)
            made = Environment(folder, version, now(), _installed(partial))
            _write(made, requirements, partial)
            os.rename(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        flush_folder(root)
    return made


def _make(requirements: Requirements, interpreter: str, folder: Path, wheels: Path | None) -> None:
    def step(what: str, *command: str) -> None:
        result = _run(command, _INSTALL_S)
        if result.exit_code:
            why = f"was stopped after {_INSTALL_S:.0f} s" if result.timed_out else _last_lines(result.output)
            raise InstallError(f"{what}: {why}")

    step(f"{interpreter} cannot make an environment", interpreter, "-I", "-m", "venv", "--without-pip", str(folder))
    python = str(folder / "bin" / "python")
    pip: tuple[str, ...] = (
        interpreter,
        "-I",
        "-m",
        "pip",
        "--python",
        python,
    )  # so that the environment holds the pins and no more
    if _run([*pip, "--version"], _ASK_S).exit_code:
        step(f"{interpreter} has neither pip nor ensurepip", python, "-I", "-m", "ensurepip")
        pip = (python, "-I", "-m", "pip")
    install = ("install", "--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet")
    pins = ("--disable-pip-version-check", "--requirement", str(requirements.pins.resolve()))
    with _copies(wheels, folder) as origin:
        step(f"pip cannot install the pins of {requirements.name}", *pip, *install, *origin, *pins)
    step(f"what was installed for {requirements.name} does not work", python, "-I", "-c", requirements.probe)


@contextmanager
def _copies(wheels: Path | None, folder: Path) -> Iterator[tuple[str, ...]]:
    """Pip's options for copies of the wheels, which nobody else can change after pip has checked their digests."""
    if wheels is None:
        yield ()
        return
    copies = folder / "wheels"  # goes with the folder where this is killed
    copies.mkdir(mode=0o700)
    try:
        for path in wheels.glob("*.whl"):
            shutil.copyfile(path, copies / path.name)
        yield "--no-index", "--find-links", str(copies)
    finally:
        shutil.rmtree(copies)


def _run(command: Sequence[str], timeout_s: float) -> ToolResult:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _NOT_FOR_THE_INSTALL and not name.startswith("PYTHON")
    }
    return run_tool(list(command), folder=Path("/"), timeout_s=timeout_s, environment=environment)


def _version_of(interpreter: str) -> str:
    path = shutil.which(interpreter)
    result = _run([path, "-I", "-c", _VERSION], _ASK_S) if path else None
    if result is None or result.exit_code or not result.output:
        raise InstallError(f"{interpreter} is no Python interpreter that runs here")
    return result.output.splitlines()[-1]


def _last_lines(output: str) -> str:
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Expected ")]  # so that the wheel's name is among them
    return " ".join(lines[-4:])[-600:] or "it printed nothing"


def _digest(requirements: Requirements, version: str) -> str:
    content = {"pins": requirements.sha256, "python": version}
    return hashlib.sha256(canonical_json(content)).hexdigest()[:16]


def _installed(folder: Path) -> tuple[str, ...]:
    folders = folder.glob("lib/python*/site-packages/*.dist-info")
    return tuple(sorted(path.name.removesuffix(".dist-info") for path in folders))


def _write(environment: Environment, requirements: Requirements, folder: Path) -> None:
    content = {
        "name": requirements.name,
        "pins": requirements.sha256,
        "python": environment.python,
        "made_at": environment.made_at,
        "distributions": list(environment.distributions),
    }
    (folder / _RECORD).write_bytes(canonical_json(content))


def _made_last(requirements: Requirements) -> Environment | None:
    pins = requirements.sha256
    environments = [
        environment
        for folder in sorted(environments_folder().glob(f"{requirements.name}-*"))
        if (environment := _read(folder, pins))
    ]
    return max(environments, key=lambda environment: environment.made_at, default=None)


def _read(folder: Path, pins: str | None = None) -> Environment | None:
    """The environment in ``folder``; None if there is none, or it has other pins."""
    try:
        content: Mapping[str, Any] = json.loads((folder / _RECORD).read_bytes())
        if pins is not None and content["pins"] != pins:
            return None
        return Environment(folder, content["python"], content["made_at"], tuple(content["distributions"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
