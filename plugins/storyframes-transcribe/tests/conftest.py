"""The plug-in as it is installed, a tiny model of Whisper, and studies in which it is known what is said when."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.register_assert_rewrite("support")
pytest_plugins = ["support.fixtures"]

if find_spec("storyframes_transcribe") is None:
    pytest.exit("the plug-in is not installed: run its tests with 'make test', or pip install it", 2)

from tiny_whisper import make_whisper  # noqa: E402 - where it is installed

if find_spec("faster_whisper") is None:  # all but one import it (storyframes[dev])
    collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py") if path.stem != "test_ctc"]


@pytest.fixture(scope="session")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of Whisper with random weights, which hears made-up words."""
    return make_whisper(tmp_path_factory.mktemp("models") / "tiny")
