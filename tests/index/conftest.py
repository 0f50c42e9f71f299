"""What the tests of curves share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clip_indexes import write_timed


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A study and a store with the clocks of its frames; the test puts curves into the store."""
    return write_timed(tmp_path_factory.mktemp("timed"))
