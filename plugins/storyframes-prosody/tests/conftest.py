"""The fixtures of storyframes' own tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("support")
pytest_plugins = ["support.fixtures"]
