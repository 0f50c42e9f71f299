"""What the tests of training share."""

from __future__ import annotations

import pytest
from empathy_support.training import small

from storyframes.store.feature_store import FeatureStore


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """A small planted study. Read alone: a test that changes one makes or copies it."""
    return small(tmp_path_factory.mktemp("small"))
