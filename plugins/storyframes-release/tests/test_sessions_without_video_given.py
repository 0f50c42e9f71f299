"""Sessions of sound, of a transcript, or of a silent video are exported and released."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from support.media.mixed_sessions import ROWS, extract_mixed, make, write_files
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore

RELEASE = """
title = "Sounds and words"
description = "What was heard and said."
license = "CC-BY-4.0"
version = "1.0"
authors = ["Surname, Name"]
labels = []
phases = []
leave_out = []
allow_biometric = true
allow_text_vectors = false
allow_rater_ids = false
[features]
frames = "all"
opensmile = "all"
"""


def done(*arguments: object) -> None:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)


@pytest.mark.slow
def test_sessions_without_a_camera_are_exported_and_released(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    files = write_files(tmp_path / "files")
    extract_mixed(tmp_path, make(tmp_path, files, *ROWS), files)
    store = tmp_path / "store"
    done("export", store, "--out", tmp_path / "export")
    done("export", store, "--out", tmp_path / "at_rate", "--rate", "10")
    exported = pd.read_parquet(next((tmp_path / "at_rate").rglob("podcast/opensmile*.parquet")))
    assert len(exported) == 25
    (tmp_path / "release.toml").write_text(RELEASE)
    done("release", store, "--out", tmp_path / "given", "--config", tmp_path / "release.toml")
    done("release", "verify", tmp_path / "given")
    given = FeatureStore(tmp_path / "given/features").clips()
    assert sorted(given.groupby("session_id").size()) == [3, 3, 4]  # of the chat nothing is released
