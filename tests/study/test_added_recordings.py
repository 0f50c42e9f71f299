"""``init --update``: what is added to tables that are there, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import storyframes_here
from support.media.recordings import write_recording
from support.messages import missing

from tasks.study.first_tables.sessions_from_files import Made, make_sessions
from tasks.study.forgotten_ids import ForgottenIds
from tasks.study.load import load_study


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_recording(tmp_path_factory.mktemp("film") / "a.mkv", 1).read_bytes()


def add(root: Path, film: bytes, *names: str) -> Made:
    """The study with these files too, which are recordings of their own."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(film + name.encode())
    return make_sessions(root, {"recording": "**/*"}, update=True)


def test_a_copy_of_a_recording_in_the_table_is_set_aside_whatever_it_is_called(tmp_path: Path, film: bytes) -> None:
    add(tmp_path, film, "a long name.mkv")
    (tmp_path / "b.mkv").write_bytes((tmp_path / "a long name.mkv").read_bytes())
    made = add(tmp_path, film)
    assert [session.video for session in load_study(tmp_path).sessions.values()] == ["a long name.mkv"]
    assert not missing(made.set_aside[0], "b.mkv", "the same recording as a long name.mkv")


def test_a_recording_belongs_to_the_row_that_names_it_whatever_its_id(tmp_path: Path, film: bytes) -> None:
    add(tmp_path, film, "v/ben_cam1.mkv")
    rows = "session_id,participant_id,video\ns001,p1,./v/ben_cam1.mkv\n"
    (tmp_path / "sessions.csv").write_text(rows)
    made = add(tmp_path, film, "v/ben_cam2.mkv", "v/ben_cam1.vtt")
    assert (tmp_path / "sessions.csv").read_text() == rows
    assert (made.sessions, made.participants) == (1, 1)
    assert load_study(tmp_path).tracks["s001"]["cam2"].video == "v/ben_cam2.mkv"
    assert not missing(" ".join(made.remarks), "v/ben_cam1.vtt", "left out")


def test_nobody_who_is_forgotten_is_added_again(tmp_path: Path, film: bytes) -> None:
    """Neither a session whose id was another one than its file's name, nor a track, nor a participant."""
    add(tmp_path, film, "ann.mkv", "ben_cam1.mkv", "ben_cam2.mkv", "dan.mkv")
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video\nben,ben,ben_cam1.mkv\n")
    (tmp_path / "tracks.csv").unlink()
    forgotten = ForgottenIds(frozenset({"s1", "dan"}), frozenset({"cleo"}), frozenset({("ben", "cam2")}))
    forgotten.with_files(["ann.mkv"]).write(tmp_path)
    made = add(tmp_path, film, "cleo.mkv", "eve.mkv")
    study = load_study(tmp_path)
    assert list(study.sessions) == ["ben", "eve"]
    assert [track for tracks in study.tracks.values() for track in tracks] == ["main", "main"]
    said = next(remark for remark in made.remarks if "forgotten" in remark)
    assert not missing(said, "4 ", "forgotten.json")
    assert "ann" not in said
    assert [remark for remark in made.remarks if remark.startswith("transcript:")] == []  # that list is none


def test_a_table_that_cannot_be_changed_is_named(tmp_path: Path, film: bytes) -> None:
    add(tmp_path, film, "a.mkv")
    (tmp_path / "sessions.csv").write_text("session_id;participant_id;video\na;a;a.mkv\n")
    said = storyframes_here("init", tmp_path, "--recordings", "**/*", "--update")
    assert said.returncode == 2
    assert not missing(said.stderr, "sessions.csv", "semicolon", "save it as CSV")
    (tmp_path / "sessions.csv").write_text("video\na.mkv\n")
    add(tmp_path, film)
    (tmp_path / "b.mkv").write_bytes(film)
    said = storyframes_here("init", tmp_path, "--recordings", "**/*", "--update")
    assert said.returncode == 2
    assert not missing(said.stderr, "sessions.csv", "session_id")
    assert (tmp_path / "sessions.csv").read_text() == "video\na.mkv\n"


def test_recordings_in_the_folder_of_a_report_are_named(tmp_path: Path, film: bytes) -> None:
    (tmp_path / "day 1").mkdir()
    (tmp_path / "day 1/index.html").write_text("")
    made = add(tmp_path, film, "a.mkv", "day 1/b.mkv")
    assert made.sessions == 1
    assert not missing(" ".join(made.remarks), "day 1/b.mkv", "index.html")
