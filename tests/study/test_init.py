"""``init``: the first table of a study, from a folder of files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks.study.load import load_study
from tasks.study.sessions_from_files import FilesError, Made, make_sessions

ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)


def folder_of(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    return root


def make(root: Path, videos: str = "v/*", names: str | None = None, **globs: str) -> Made:
    return make_sessions(root, {"video": videos, **globs}, names)


def refused(root: Path, videos: str = "v/*", names: str | None = None, **globs: str) -> str:
    with pytest.raises(FilesError) as error:
        make(root, videos, names, **globs)
    assert not (root / "sessions.csv").exists()
    return str(error.value)


def table(root: Path) -> list[str]:
    return (root / "sessions.csv").read_text().splitlines()


def test_what_belongs_together_by_its_name(tmp_path: Path) -> None:
    root = folder_of(tmp_path, "v/s1.mp4", "v/s1_b.mp4", "v/s2.avi", "a/s1.wav", "a/s1_b_lapel.wav", "a/s9.wav")
    folder_of(root, "t/s1.en.vtt", "t/s2.json", "o/s2.csv.gz", "v/._s1.mp4")
    made = make(root, audio="a/*.wav", transcript="t/*", openface="o/*")
    assert table(root) == [
        "session_id,participant_id,video,audio,transcript,openface",
        "s1,s1,v/s1.mp4,a/s1.wav,t/s1.en.vtt,",
        "s1_b,s1_b,v/s1_b.mp4,a/s1_b_lapel.wav,,",
        "s2,s2,v/s2.avi,,t/s2.json,o/s2.csv.gz",
    ]
    assert made.files == {"video": 3, "audio": 2, "transcript": 2, "openface": 1}
    assert made.remarks[:3] == (
        "video: 1 hidden files, left out",
        "audio: of no video's name, left out: a/s9.wav",
        "audio: 1 sessions have none",
    )
    assert "every session counts as a participant of its own" in made.remarks[-1]
    assert len(load_study(root).sessions) == 3


def test_a_pattern_tells_participant_session_and_date(tmp_path: Path) -> None:
    root = folder_of(
        tmp_path, "v/anna_s1_2024-05-01_cam.mp4", "v/anna_s2_20240508_cam.mp4", "v/ben_s3_2024-05-01_x.mp4"
    )
    made = make(root, names="{participant}_{session}_{date}_*")
    assert table(root) == [
        "session_id,participant_id,video,recorded_at",
        "s1,anna,v/anna_s1_2024-05-01_cam.mp4,2024-05-01",
        "s2,anna,v/anna_s2_20240508_cam.mp4,2024-05-08",
        "s3,ben,v/ben_s3_2024-05-01_x.mp4,2024-05-01",
    ]
    assert (made.sessions, made.participants, made.remarks) == (3, 2, ())


def test_folders_count_where_names_alone_are_not_enough(tmp_path: Path) -> None:
    root = folder_of(tmp_path, "v/anna/1.mp4", "v/ben/1.mp4", "a/ben/1.wav")
    make(root, "v/*/*.mp4", audio="a/*/*.wav")
    assert table(root)[1:] == ["anna-1,anna-1,v/anna/1.mp4,", "ben-1,ben-1,v/ben/1.mp4,a/ben/1.wav"]
    (root / "sessions.csv").unlink()
    make(root, "v/*/*.mp4", names="{participant}/*")
    assert table(root)[1:] == ["anna-1,anna,v/anna/1.mp4", "ben-1,ben,v/ben/1.mp4"]


def test_names_that_are_no_ids_become_some_and_that_is_said(tmp_path: Path) -> None:
    root = folder_of(tmp_path, "v/Jörg & Ann (1).mp4")
    made = make(root)
    assert table(root)[1].startswith("Jorg-Ann-1,Jorg-Ann-1,")
    assert made.remarks[0] == "named Jorg-Ann-1, because 'Jörg & Ann (1)' is no id"


@pytest.mark.parametrize(
    ("files", "how", "message"),
    [
        (["v/a.mp4"], {"videos": "w/*"}, "--videos w/*: finds no file in"),
        (["v/a.mp4"], {"videos": "/v/*"}, "write it without the folder"),
        (["v/a.mp4"], {"videos": "../v/*"}, "write it without the folder"),
        (["v/a.mp4"], {"videos": "v/**x"}, "--videos v/**x: "),
        (["v/a.mp4"], {"transcript": "t/*"}, "--transcripts t/*: finds no file in"),
        (["v/a.mp4", "v/a.avi"], {}, "v/a.avi and v/a.mp4 would all be the session a"),
        (["v/a b.mp4", "v/a+b.mp4"], {}, "would all be the session a-b"),
        (["v/ö.mp4", "v/に.mp4"], {}, "has nothing that an id may have"),
        (["v/a.mp4", "a/a.wav", "a/a_2.wav"], {"audio": "a/*"}, "v/a.mp4 has 2 files for audio: a/a.wav, a/a_2.wav"),
        (["v/a_b_c.mp4"], {"names": "{participant}_{session}"}, "fits 'a_b_c' in more than one way"),
        (["v/a.mp4"], {"names": "{participant}_{session}"}, "does not fit 'a'"),
        (["v/a.mp4"], {"names": "{person}"}, "there are {session}, {participant}, {date} and *"),
        (["v/a_b.mp4"], {"names": "{session}_{session}"}, "has a field twice"),
        (["v/a_2024-13-01.mp4"], {"names": "{session}_{date}"}, "2024-13-01 is no date as 2024-05-01 or 20240501"),
        (["v/con.mp4"], {}, "is the name of a device on Windows"),
    ],
)
def test_what_is_refused(tmp_path: Path, files: list[str], how: dict[str, str], message: str) -> None:
    assert message in refused(folder_of(tmp_path, *files), **how)


@pytest.mark.parametrize("name", ["sessions.csv", "sessions.parquet"])
def test_a_table_that_is_there_stays(tmp_path: Path, name: str) -> None:
    root = folder_of(tmp_path, "v/a.mp4")
    (root / name).write_bytes(b"mine")
    with pytest.raises(FilesError, match="is there already"):
        make(root)
    assert (root / name).read_bytes() == b"mine"


@given(
    names=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20), max_size=4)
)
@example(names=["0\r"])
@example(names=["0\x0c"])
@ANY
def test_whatever_the_files_are_called_it_is_a_valid_study_or_refused(tmp_path_factory, names: list[str]) -> None:
    root = tmp_path_factory.mktemp("study")
    (root / "v").mkdir()
    for name in names:
        if name not in (".", ".."):
            (root / "v" / name).write_bytes(b"")
    try:
        made = make(root)
    except FilesError:
        assert not (root / "sessions.csv").exists()
    else:
        study = load_study(root)
        assert len(study.sessions) == made.sessions
        assert all(study.path(session.video).is_file() for session in study.sessions.values())


def test_the_command(study_copy: Path) -> None:
    for path in study_copy.glob("*.csv"):
        path.unlink()
    command = [sys.executable, "-m", "flows.cli"]
    root = Path(__file__).parents[2]
    arguments = [
        "--videos",
        "videos/*.avi",
        "--transcripts",
        "transcripts/*.json",
        "--names",
        "{participant}-*",
    ]
    result = subprocess.run([*command, "init", str(study_copy), *arguments], capture_output=True, text=True, cwd=root)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0].endswith("sessions.csv: 3 sessions of 2 participants")
    assert result.stdout.splitlines()[1] == f"next: storyframes check {study_copy}"
