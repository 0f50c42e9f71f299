"""Naming transcripts in a study's tables: in empty cells, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from support.messages import naming

from tasks.study import ChangedTables, TableChangeError, load_study

SESSIONS = 'session_id,note,participant_id,audio,transcript\ns1,"said, twice",p,a.wav,\ns2,,p,b.wav,own.vtt\n'


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "sessions.csv").write_text(SESSIONS)
    (tmp_path / "tracks.csv").write_text("session_id,track,audio,note\ns1,lapel,l.wav,007\n")
    return tmp_path


PATHS = {("s1", "main"): "t/s1.json", ("s2", "main"): "t/s2.json", ("s1", "lapel"): "t/s1@lapel.json"}


def test_empty_cells_are_filled_and_all_others_stay(study: Path) -> None:
    assert ChangedTables(study).name_transcripts(PATHS) == 2
    assert (study / "sessions.csv").read_text().splitlines() == SESSIONS.replace(
        "a.wav,", "a.wav,t/s1.json"
    ).splitlines()
    tracks = (study / "tracks.csv").read_text().splitlines()
    assert tracks == ["session_id,track,audio,note,transcript", "s1,lapel,l.wav,007,t/s1@lapel.json"]
    assert load_study(study).tracks["s1"]["lapel"].transcript == "t/s1@lapel.json"
    assert ChangedTables(study).name_transcripts(PATHS) == 0


def test_a_dry_run_counts_and_writes_nothing(study: Path) -> None:
    assert ChangedTables(study).name_transcripts(PATHS, is_dry=True) == 2
    assert (study / "sessions.csv").read_text() == SESSIONS


def test_sessions_that_are_named_after_their_video(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("video\nvideos/anna.1.mp4\nvideos/ben.mp4\n")
    assert ChangedTables(tmp_path).name_transcripts({("anna.1", "main"): "t/anna.json"}) == 1
    sessions = load_study(tmp_path).sessions
    assert (sessions["anna.1"].transcript, sessions["ben"].transcript) == ("t/anna.json", None)


def test_a_parquet_table_keeps_its_types(study: Path) -> None:
    (study / "tracks.csv").unlink()
    table = pd.DataFrame({"session_id": ["s1"], "track": ["lapel"], "audio": ["l.wav"], "gain": [3]})
    table.to_parquet(study / "tracks.parquet")
    ChangedTables(study).name_transcripts(PATHS)
    written = pd.read_parquet(study / "tracks.parquet")
    assert written.dtypes["gain"] == table.dtypes["gain"]
    assert list(written["transcript"]) == ["t/s1@lapel.json"]


def test_nothing_is_written_that_would_not_be_valid(study: Path) -> None:
    with pytest.raises(TableChangeError, match=naming("with these transcripts the study")):
        ChangedTables(study).name_transcripts({**PATHS, ("s1", "main"): "../t.json"})
    assert (study / "sessions.csv").read_text() == SESSIONS
    assert "t/s1" not in (study / "tracks.csv").read_text()
