"""``init``: the first table of a study, from a folder of files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.commands import storyframes_here
from support.media.recordings import write_recording, write_wave
from support.media.video_variants import ffmpeg
from support.messages import missing, naming, unlike
from typer.testing import CliRunner

from flows.cli.app import app
from flows.settings import load_settings
from tasks.study.first_tables.recording_names import FilesError, session_in_name
from tasks.study.first_tables.sessions_from_files import Made, make_sessions
from tasks.study.load import load_study

ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)


def folder_of(root: Path, *names: str) -> Path:
    """Recordings and other files of these names, no two with the same content."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(
            recording(Path(name).suffix in (".wav", ".m4a")) + name.encode(errors="surrogateescape")
        )
    return root


@cache
def recording(is_sound: bool) -> bytes:
    with TemporaryDirectory() as folder:
        if is_sound:
            return write_wave(Path(folder, "a.wav"), np.zeros(16, int), 16_000).read_bytes()
        return write_recording(Path(folder, "a.mkv"), 1).read_bytes()


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
    assert not unlike(
        made.remarks[:3],
        ("1 hidden files", "left out"),
        ("a/s9.wav", "of no recording's name"),
        ("audio: 1 sessions have none",),
    )
    assert not missing(made.remarks[-1], "every session counts as a")
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


def test_sessions_that_several_participants_call_alike_have_both_in_their_ids(tmp_path: Path) -> None:
    root = folder_of(tmp_path, "v/anna_1.mp4", "v/anna_2.mp4", "v/ben_1.mp4")
    made = make(root, names="{participant}_{session}")
    assert table(root)[1:] == ["anna-1,anna,v/anna_1.mp4", "anna-2,anna,v/anna_2.mp4", "ben-1,ben,v/ben_1.mp4"]
    assert not unlike(made.remarks, ("several participants have sessions of",))


def test_transcripts_alone_are_a_study(tmp_path: Path) -> None:
    root = folder_of(tmp_path, "media/chat1.vtt", "media/chat2.vtt")
    make_sessions(root, {"recording": "media/*"})
    assert table(root)[1:] == ["chat1,chat1,,media/chat1.vtt", "chat2,chat2,,media/chat2.vtt"]


def test_folders_count_where_names_alone_are_not_enough(tmp_path: Path) -> None:
    root = folder_of(tmp_path, "v/anna/1.mp4", "v/ben/1.mp4", "a/ben/1.wav")
    make(root, "v/*/*.mp4", audio="a/*/*.wav")
    assert table(root)[1:] == ["anna-1,anna-1,v/anna/1.mp4,", "ben-1,ben-1,v/ben/1.mp4,a/ben/1.wav"]
    (root / "sessions.csv").unlink()
    make(root, "v/*/*.mp4", names="{participant}/*")
    assert table(root)[1:] == ["anna-1,anna,v/anna/1.mp4", "ben-1,ben,v/ben/1.mp4"]


def test_folders_of_video_and_of_sound_are_of_the_same_sessions(tmp_path: Path) -> None:
    root = folder_of(tmp_path, "m/video/p1.mp4", "m/sound/p1.wav", "m/video/p2.mp4", "m/sound/p2.wav")
    made = make_sessions(root, {"recording": "m/*/*"})
    assert table(root)[1:] == ["p1,p1,m/video/p1.mp4,m/sound/p1.wav", "p2,p2,m/video/p2.mp4,m/sound/p2.wav"]
    assert not missing(made.remarks[0], "p1", "p2")
    mixed = folder_of(tmp_path / "mixed", "anna/1.mp4", "ben/1.wav", "ben/2.mp4")  # a folder of a participant
    make_sessions(mixed, {"recording": "*/*"})
    assert [line.partition(",")[0] for line in table(mixed)[1:]] == ["anna-1", "ben-1", "ben-2"]


def test_a_recording_that_is_called_main_is_the_session_s_own(tmp_path: Path) -> None:
    made = make(folder_of(tmp_path, "v/p1_cam1.mp4", "v/p1_cam12.mp4", "v/p1_main.mp4"))
    assert (table(tmp_path)[1:], made.tracks) == (["p1,p1,v/p1_main.mp4"], 2)


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
        (["v/a.mp4"], {"names": "{person}"}, "there are {session}, {participant}, {track}, {date} and *"),
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
    for number, name in enumerate(names):
        if name not in (".", ".."):
            (root / "v" / name).write_bytes(recording(False) + bytes([number]))
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
    arguments = ["--videos", "videos/*.avi", "--transcripts", "transcripts/*.json", "--names", "{participant}-*"]
    result = storyframes_here("init", study_copy, *arguments)
    assert result.returncode == 0, result.stderr
    assert not missing(result.stdout.splitlines()[0], "sessions.csv", "3 sessions", "2 participants")
    settings = study_copy / "storyframes.toml"
    assert not unlike(result.stdout.splitlines()[1:], (settings, "a configuration that fits them"))
    assert result.stderr.splitlines()[-1] == f"Next: storyframes check {study_copy} --config {settings}"


# --- recordings as labs have them -----------------------------------------------------------------------------------


def names(root: Path, *stems: str, pattern: str | None = None) -> Made:
    for path in [*root.glob("*.*"), *root.glob("media/*")]:
        path.unlink()
    folder_of(root, *(f"media/{stem}" for stem in stems))
    return make_sessions(root, {"recording": "media/*"}, pattern)


@pytest.mark.parametrize("pattern", [None, "{session}_{track}"])
def test_cameras_and_microphones_of_one_session_are_its_tracks(tmp_path: Path, pattern: str | None) -> None:
    made = names(
        tmp_path, "p01_cam1.mp4", "p01_cam2.mp4", "p01_lapel.wav", "p02_fast.mp4", "p02_fast.vtt", pattern=pattern
    )
    assert table(tmp_path) == [
        "session_id,participant_id,video,transcript",
        "p01,p01,media/p01_cam1.mp4,",
        "p02,p02,media/p02_fast.mp4,media/p02_fast.vtt",
    ]
    assert (tmp_path / "tracks.csv").read_text().splitlines() == [
        "session_id,track,video,audio",
        "p01,cam2,media/p01_cam2.mp4,",
        "p01,lapel,,media/p01_lapel.wav",
    ]
    assert made.tracks == 2
    assert ("several recordings of one session" in " ".join(made.remarks)) == (pattern is None)
    assert load_study(tmp_path).tracks["p01"]["lapel"].audio == "media/p01_lapel.wav"


def test_names_that_end_otherwise_are_sessions_of_their_own_and_patterns_are_proposed(tmp_path: Path) -> None:
    made = names(tmp_path, "ann_1.mp4", "ann_2.mp4", "ben_cam1.mp4", "ben_cam2.mp4")
    assert [row.split(",")[0] for row in table(tmp_path)[1:]] == ["ann_1", "ann_2", "ben"]
    made = names(tmp_path, "ann_1_2024-05-01.mp4", "ann_2_2024-05-02.mp4", "ben_3_2024-05-01.mp4")
    assert not missing(made.remarks[-1], "--names", "'{participant}_{session}_{date}'", "3 names")


def test_every_misfit_is_named_at_once_with_patterns_that_fit(tmp_path: Path) -> None:
    with pytest.raises(FilesError) as error:
        names(tmp_path, "a_1.mp4", "b_20240501.mp4", "c_2024-13-01.mp4", "a_2.mp4", pattern="{participant}_{date}")
    lines = str(error.value).splitlines()
    assert not missing(lines[0], "--names {participant}_{date}", "3 of 4 names")
    assert not unlike(
        [line.strip() for line in lines[1:4]],
        ("does not fit 'a_1'",),
        ("does not fit 'a_2'",),
        ("'c_2024-13-01'", "2024-13-01", "2024-05-01", "20240501"),
    )
    assert not missing(lines[4], "--names", "'{participant}_{session}'", "4 names")


def test_recordings_of_one_session_that_contradict_each_other_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(FilesError) as error:
        names(tmp_path, "s_20240501_x.mp4", "s_20240502_y.mp4", "s_20240503_z.mp4", pattern="{session}_{date}_{track}")
    assert str(error.value).splitlines() == [
        f"'s_{name}': another participant or date than 's_20240501_x' has" for name in ("20240502_y", "20240503_z")
    ]


@pytest.mark.needs("ffmpeg")
def test_a_configuration_that_fits_the_recordings(tmp_path: Path) -> None:
    for number, (rate, seconds) in enumerate([(25, 4.5), (5, 9)], start=1):
        sound = ["-f", "lavfi", "-i", f"sine=duration={seconds}"] if number == 1 else []
        picture = ["-f", "lavfi", "-i", f"testsrc2=size=32x32:rate={rate}:duration={seconds}"]
        (tmp_path / "media").mkdir(exist_ok=True)
        ffmpeg(*picture, *sound, tmp_path / f"media/s{number}.mp4")
    make_sessions(tmp_path, {"recording": "media/*"})
    text = (tmp_path / "storyframes.toml").read_text()
    assert not missing(text, "25", "# Frames per second of")
    assert "# Videos without sound: 1." in text
    configured = load_settings(tmp_path / "storyframes.toml")
    assert (configured.features, configured.clips.window_s) == (("frames", "opensmile"), 1.0)
    (tmp_path / "sessions.csv").unlink()
    (tmp_path / "storyframes.toml").write_text("# mine")
    assert "stays as it is" in " ".join(make_sessions(tmp_path, {"recording": "media/*"}).remarks)
    assert (tmp_path / "storyframes.toml").read_text() == "# mine"


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["init", str(tmp_path / "study"), "--recordings", "media/*"])
    assert (result.exit_code, (tmp_path / "study/media").is_dir()) == (0, True)
    assert f"Next: storyframes init {tmp_path / 'study'} --recordings 'media/*'\n" in result.stderr


@pytest.mark.parametrize("column", ["video", "recording"])
def test_a_broken_and_a_doubled_recording_are_set_aside(tmp_path: Path, column: str) -> None:
    root = folder_of(tmp_path, "v/a.mp4", "v/b.mp4")
    (root / "v/cut.mp4").write_bytes(recording(False)[:40])
    (root / "v/a (copy).mp4").write_bytes((root / "v/a.mp4").read_bytes())
    made = make_sessions(root, {column: "v/*"})
    assert [line.split(",")[0] for line in table(root)[1:]] == ["a", "b"]
    assert not unlike(
        made.set_aside,
        ("v/cut.mp4", "is not a media file that FFmpeg can read", "whole copy"),
        ("v/a (copy).mp4", "the same recording as v/a.mp4", "remove one"),
    )
    (root / "sessions.csv").unlink()
    said = storyframes_here("init", root, "--recordings", "v/*")
    assert (said.returncode, said.stderr.count("set aside")) == (1, 2)
    assert said.stderr.splitlines()[-1] == f"Next: storyframes check {root} --config {root / 'storyframes.toml'}"
    (root / "v/a.mp4").unlink()
    (root / "v/b.mp4").write_bytes(b"")
    (root / "v/a (copy).mp4").unlink()
    (root / "sessions.csv").unlink()
    with pytest.raises(FilesError, match=naming("v/b.mp4", "v/cut.mp4", "0 bytes")):
        make_sessions(root, {column: "v/*"})
    assert not (root / "sessions.csv").exists()


def test_sessions_without_a_video(tmp_path: Path) -> None:
    made = names(tmp_path, "p10_voice.wav", "p11_voice.m4a", "p12_film.mp4", "notes.txt")
    assert table(tmp_path)[1:] == [
        "p10_voice,p10_voice,,media/p10_voice.wav",
        "p11_voice,p11_voice,,media/p11_voice.m4a",
        "p12_film,p12_film,media/p12_film.mp4,",
    ]
    assert any(not missing(one, "media/notes.txt", "neither recordings nor transcripts") for one in made.remarks)
    assert load_settings(tmp_path / "storyframes.toml").features == ("frames", "opensmile")
    for path in tmp_path.glob("*.*"):
        path.unlink()
    folder_of(tmp_path, "texts/t1.vtt")
    make_sessions(tmp_path, {"transcript": "texts/*"})
    assert table(tmp_path)[1:] == ["t1,t1,,texts/t1.vtt"]
    assert load_settings(tmp_path / "storyframes.toml").features == ("sbert",)


def test_a_pattern_that_finds_nothing_is_answered_with_one_that_does(tmp_path: Path) -> None:
    root = folder_of(tmp_path, "2024/phone/p01.mp4", "2024/phone/p02.MOV", "notes.txt", "one.wav")
    with pytest.raises(FilesError, match=naming("perhaps --recordings '2024/phone/*'", "finds no file in")):
        make_sessions(root, {"recording": "media/*"})


# --- --session-from -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "session"),
    [
        ("{session}.eaf", "s1.eaf", "s1"),
        ("{session}_coded_*.eaf", "p01-s01_coded_by_anna.eaf", "p01-s01"),
        ("wav/{session}.wav", "wav/s1.wav", "s1"),
        ("{session}.wav", "deep/down/s1.wav", "s1"),
        ("*/{session}/film.wav", "deep\\down\\s1\\film.wav", "s1"),
    ],
)
def test_the_session_in_a_name(pattern: str, name: str, session: str) -> None:
    assert session_in_name(pattern, name) == session


def test_the_session_in_a_name_is_one_of_the_study() -> None:
    assert session_in_name("{session}_*.eaf", "p01_kim_v2.eaf", ["p01", "p02"]) == "p01"
    with pytest.raises(FilesError, match=naming("may be of p01", "p01_2")):
        session_in_name("{session}_*.eaf", "p01_2_kim.eaf", ["p01", "p01_2"])


@pytest.mark.parametrize(("pattern", "name"), [("{session}.wav", "s1.eaf"), ("x", "s1"), ("{session}{session}", "s1")])
def test_a_name_without_a_session(pattern: str, name: str) -> None:
    with pytest.raises(FilesError, match="--session-from"):
        session_in_name(pattern, name)
