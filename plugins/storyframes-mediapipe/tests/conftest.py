"""The plug-in as it is installed, and the environment of its program, made once for all runs of the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

if find_spec("storyframes_mediapipe") is None:
    pytest.exit("the plug-in is not installed: run its tests with 'make test', or pip install it", 2)


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
def demo_study() -> Path:
    return ROOT / "demo/study"
