"""What somebody gets who installs storyframes: a source distribution, its wheel, an environment with that."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
MADE_ONCE = "STORYFRAMES_TEST_MADE"  # by tests/run.py: a folder of all its processes


@dataclass(frozen=True)
class Installed:
    """A wheel in an environment of its own.

    Attributes:
        sdist, wheel: the files that were built.
        environment: the folder of the environment.
    """

    sdist: Path
    wheel: Path
    environment: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin/python"

    @property
    def command(self) -> Path:
        return self.environment / "bin/storyframes"


def made_once(name: str, own: Path, make: Callable[[Path], Any]) -> Any:
    """Make something once for all processes of tests/run.py: the first to ask makes it, the others wait for it.

    Args:
        name: of what is made.
        own: a folder to make it in where the tests run without tests/run.py.
        make: makes it in an empty folder and returns what describes it, which all processes get.
    """
    place = Path(os.environ.get(MADE_ONCE) or own)
    described = place / f"{name}.pickle"
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not described.exists():
            described.write_bytes(pickle.dumps(make(Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place)))))
        return pickle.loads(described.read_bytes())


def clean(**more: str) -> dict[str, str]:
    """This process's environment without what leads to the checkout."""
    left_out = ("COLUMNS", "PYTHONPATH", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in left_out} | more


def install(folder: Path) -> Installed:
    """Build the source distribution, the wheel of what that holds, and install the wheel.

    The dependencies are those of the environment that runs the tests: a line in a ``.pth`` file adds their folder, and
    nothing that a ``.pth`` file there says (the checkout, installed as editable) holds for it.
    """
    built = folder / "dist"
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(built)], ROOT)
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)], source)
    (wheel,) = built.glob("*.whl")
    environment = folder / "environment"
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)], folder)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "install", "--quiet"]
    _run([*pip, "--no-deps", "--no-index", "--ignore-installed", str(wheel)], folder)
    return Installed(sdist, wheel, environment)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, env=clean(), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
