"""The fixtures of all tests are in support/fixtures.py, so that the tests of plug-ins have them too."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("support")
pytest_plugins = ["support.fixtures"]
