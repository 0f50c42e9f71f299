"""``go`` without plug-ins: where it ends early, what it takes for a sheet, and what its last screen counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import storyframes_here
from support.media.recordings import write_recording
from support.messages import missing

from storyframes.store.layout import create_store, open_store
from tasks.study.load import load_study
from tasks.study.study_identity import remember_study


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A session with two cameras."""
    (folder := tmp_path / "lab").mkdir()
    for number, name in enumerate(("a_cam1.mkv", "a_cam2.mkv"), start=2):
        write_recording(folder / name, number)
    return folder


@pytest.mark.slow
def test_sheets_that_are_not_imported_are_named_and_sessions_are_counted(lab: Path) -> None:
    for name in ("scores.csv", "scores.pdf", "a_cam1.csv"):
        (lab / name).write_text("File,Warmth\na_cam1.mkv,3\n")
    done = storyframes_here("go", lab, "--yes")
    assert done.returncode == 0, done.stderr
    assert not missing(done.stdout, "frames of 1", "  scores.csv: ")  # the plug-in that reads it is not installed
    assert not missing(
        done.stdout, "a_cam1.csv: has a recording's name", f"import labels {lab / 'a_cam1.csv'} --to {lab}"
    )


@pytest.mark.slow
def test_a_session_without_clips_is_set_aside(lab: Path) -> None:
    (lab / "phases.csv").write_text("session_id,phase,start_s,end_s\na,talk,0,1.7e12\n")
    done = storyframes_here("go", lab, "--yes")
    assert done.returncode == 1, done.stderr
    assert not missing(done.stdout.split("\nset aside\n")[1], "a: gives no clips", "phases, row 2")


@pytest.mark.slow
def test_it_ends_where_nothing_can_be_extracted(lab: Path, tmp_path: Path) -> None:
    assert storyframes_here("go", lab, lab / "gone.xlsx").returncode == 2
    assert not (lab / "sessions.csv").exists()
    (other := tmp_path / "other").mkdir()
    (other / "sessions.csv").write_text("session_id,participant_id,video\nz,z,z.mkv\n")
    create_store(store := str(tmp_path / "features"))
    remember_study(open_store(store), load_study(other))
    done = storyframes_here("go", lab, "--store", store, "--yes")
    assert done.returncode == 2
    assert not missing(done.stderr, store, "of another study")
    assert "made" not in done.stdout.splitlines()
    assert not (lab / "report").exists()
    done = storyframes_here("go", lab, "--store", "none://bucket/prefix", "--yes")
    assert done.returncode == 2
    assert not missing(done.stderr, "none://bucket/prefix")
