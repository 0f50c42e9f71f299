"""The fixtures of storyframes' own tests, and a study without labels."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("support", "annotation_programs")
pytest_plugins = ["support.fixtures"]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two sessions without any file or label."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,a.avi\ns2,p2,b.avi\n")
    return folder
