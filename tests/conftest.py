"""The fixtures of all tests are in support/fixtures.py, so that the tests of plug-ins have them too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# make demo adds the distributions of plugins/ to the environment (Makefile): these tests and their processes see none.
os.environ["STORYFRAMES_ALONE"] = "1"
sys.path[:] = [place for place in sys.path if place != str(Path(sys.prefix) / "plugins")]

pytest.register_assert_rewrite("support")
pytest_plugins = ["support.fixtures"]
