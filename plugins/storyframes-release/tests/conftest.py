"""The fixtures of storyframes' own tests, and a store to release."""

from __future__ import annotations

import pytest

from storyframes import FeatureStore

pytest.register_assert_rewrite("support")
pytest_plugins = ["support.fixtures"]


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """Read alone: a test that changes it takes a copy."""
    from planted_store import planted_store  # which imports support, once its assertions are known

    return planted_store(tmp_path_factory.mktemp("original-of-anna-muster") / "features")
