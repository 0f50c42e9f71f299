"""The fixtures of storyframes' own tests. The plug-in is installed beside the environment (Makefile, tests/run.py)."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("support")
pytest_plugins = ["support.fixtures"]
