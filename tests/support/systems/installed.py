"""What somebody gets who installs storyframes: a source distribution, its wheel, an environment with that."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]


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
