"""The plug-in as it is installed, and the environment of its program, made once for all runs of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

if find_spec("storyframes_mediapipe") is None:
    pytest.exit("the plug-in is not installed: run its tests with 'make test', or pip install it", 2)

from storyframes_mediapipe.extractor import HOLISTIC  # noqa: E402 - where it is installed


@pytest.fixture(scope="session", autouse=True)
def private_home() -> Iterator[Path]:
    """A cache that outlives the tests: an environment takes a minute to make."""
    home = Path(sys.prefix) / "cache"
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(home))
    yield home
    patch.undo()


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of the environment, which the command makes."""
    from support.commands import storyframes

    made = storyframes("extractors", "install", "mediapipe", environment=os.environ)
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip()) / "bin/python"


@pytest.fixture(scope="session")
def bundle(private_home: Path, python: Path) -> Path:
    """MediaPipe's models as its Tasks read them, in this user's cache, made of those in a pinned wheel of before."""
    made = HOLISTIC.path
    if not made.is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        wheels = private_home / "wheels"
        subprocess.run([*command, "--dest", str(wheels), "-r", str(HERE / "old_wheel.txt")], check=True)
        (wheel,) = wheels.glob("mediapipe-*.whl")
        partial = made.with_suffix(".partial")
        subprocess.run([str(python), str(HERE / "make_bundle.py"), str(wheel), str(partial)], check=True)
        partial.rename(made)
    return made


@pytest.fixture(scope="session")
def demo_study() -> Path:
    return ROOT / "demo/study"
