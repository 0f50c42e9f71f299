"""``check`` opens every file that a study names, and says everything at once."""

from __future__ import annotations

import gzip
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pandas as pd
import pytest
from support.commands import storyframes_here
from support.media.recordings import write_video, write_wave
from support.messages import missing
from typer.testing import CliRunner

from flows.cli.app import app
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.study_check import check_study
from tasks.study.problems import grouped_remarks

CONTAINER = ExtractorsSettings(openface={"backend": "container"})


def problems(study: Path, settings: ExtractorsSettings | None = None) -> list[str]:
    return [str(problem) for problem in check_study(study, settings or ExtractorsSettings())[1]]


def first_session(study: Path) -> pd.Series:
    return pd.read_csv(study / "sessions.csv").iloc[0]


def name_file(study: Path, column: str, relative: str, content: bytes) -> None:
    """Make ``relative`` the first session's file of this kind."""
    path = study / relative
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    sessions = pd.read_csv(study / "sessions.csv", dtype=str)
    sessions[column] = sessions.get(column)
    sessions.loc[0, column] = relative
    sessions.to_csv(study / "sessions.csv", index=False)


def test_the_demo_study_has_none(demo_study: Path) -> None:
    assert problems(demo_study) == []


def test_what_is_alike_is_one_line_unless_all_is_asked_for(tmp_path: Path) -> None:
    rows = [f"s{number},p{number},v/s{number}.avi,cam 1.mp4" for number in range(12)]
    (tmp_path / "sessions.csv").write_text("\n".join(["session_id,participant_id,video,audio", *rows]) + "\n")
    checked = CliRunner().invoke(app, ["check", str(tmp_path)], env={"COLUMNS": "300"})
    assert checked.exit_code == 1
    absent = "the file does not exist"
    assert (checked.stderr.count("v/s"), checked.stderr.count(absent)) == (1, 2)  # one of each column
    assert not missing(checked.stderr, absent, "11 alike", "6 more")
    every = CliRunner().invoke(app, ["check", str(tmp_path), "--all"], env={"COLUMNS": "300"})
    assert (every.stderr.count("v/s"), every.stderr.count(absent)) == (12, 24)
    found = json.loads((said := CliRunner().invoke(app, ["check", str(tmp_path), "--json"])).stdout)
    assert (said.exit_code, found["valid"]) == (1, True)
    assert sum(absent in problem["rule"] for problem in found["problems"]) == 24


def test_remarks_that_differ_in_names_and_numbers_are_one() -> None:
    captions = [
        f"t/{name}.vtt: {name[-1]} of 9 captions may begin with a name ('{name}: ...')" for name in ("a1", "b2", "c3")
    ]
    other = "sessions: numbers with a decimal comma, from row 2 on: read as a point"
    assert grouped_remarks([captions[0], other, *captions[1:]]) == [
        f"{captions[0]} (and 2 alike: t/b2.vtt, t/c3.vtt)",
        other,
    ]
    curves = [f"curves: c/s{number}.csv: {number} % of the frames have no value" for number in (4, 5)]
    assert grouped_remarks(curves) == [f"{curves[0]} (and 1 alike: c/s5.csv)"]
    assert grouped_remarks([other, other.replace("comma", "point")]) == [other, other.replace("comma", "point")]


def test_frame_rates_that_vary_or_differ_are_a_line_each(tmp_path: Path) -> None:
    """Of 14 recordings two are of another camera, and twelve of a phone that leaves frames out."""
    uneven = [number * 40 for number in range(60) if number % 7 != 3]
    jittery = np.cumsum(np.random.default_rng(0).integers(10, 90, 50)).tolist()
    made = [write_video(tmp_path / "phone.mkv", "mpeg4", uneven), write_video(tmp_path / "web.mp4", "libx264", jittery)]
    made.append(write_video(tmp_path / "slow.mkv", "mpeg4", [number * 200 for number in range(12)]))
    made.append(write_video(tmp_path / "webm.mkv", "mpeg4", [round(number * 1000 / 30) for number in range(60)]))
    names = [*[made[0].name] * 10, *[made[1].name] * 2, made[2].name, made[3].name]
    for number, name in enumerate(names):
        (tmp_path / f"s{number}.{name.split('.')[1]}").symlink_to(tmp_path / name)
    rows = [f"s{number},p{number},s{number}.{name.split('.')[1]}" for number, name in enumerate(names)]
    (tmp_path / "sessions.csv").write_text("\n".join(["session_id,participant_id,video", *rows]) + "\n")
    remarks = check_study(tmp_path, ExtractorsSettings())[0].remarks
    varying = [remark for remark in remarks if "frame rate varies" in remark]
    assert [remark.split(":")[0] for remark in varying] == [row.split(",")[2] for row in rows[:12]]
    assert not missing(varying[0], "21.6 frames", "25")
    (line,) = grouped_remarks(varying)
    assert not missing(line, "11 alike", "s1.mkv", "s2.mkv", "s3.mkv", "s4.mkv", "s5.mkv", "6 more")
    (differ,) = (remark for remark in remarks if "different frame rates" in remark)
    assert not missing(differ, "1 recording", "30")


@pytest.mark.slow
def test_json_goes_to_stdout_where_the_bar_has_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,absent.avi\n")
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "flows.cli", "check", str(tmp_path), "--json"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=terminal, text=True, env=os.environ | {"TERM": "xterm"}
    )
    os.close(terminal)
    shown = os.read(controller, 65536).decode()
    os.close(controller)
    assert len(json.loads(done.stdout)["problems"]) == 1
    assert "checking" in shown
    assert "absent.avi" not in shown


SRT = b"1\n00:00:01,000 --> 00:00:02,000\nhello\n\n2\n00:10:00,000 --> 00:10:01,000\nlate\n"


@pytest.mark.parametrize(
    ("column", "name", "content", "message"),
    [
        ("video", "v.avi", b"\x8f\x01\xa0random\x00" * 500, "is not a media file that FFmpeg can read"),
        ("video", "v.mp4", b"", "the file is empty (0 bytes)"),
        ("audio", "a.wav", b"\x8f\x01\xa0random\x00" * 500, "is not a media file that FFmpeg can read"),
        ("audio", "a.wav", b"", "the file is empty (0 bytes)"),
        ("transcript", "t.json", b"\x00garbage", ""),
        ("transcript", "t.json", b"{}", ""),
        ("transcript", "t.txt", b"hello", "a transcript is .json, .vtt or .srt"),
        ("transcript", "t.srt", SRT, "ends at 601.00 s, but the recording is"),
        ("openface", "o.csv", b"frame, face_id\n1, 0\n", "has 2 columns, not OpenFace's 714"),
        ("openface", "o.csv.gz", b"no gzip", "cannot be read"),
    ],
)
def test_a_file_of_every_kind_that_is_none(
    study_copy: Path, column: str, name: str, content: bytes, message: str
) -> None:
    name_file(study_copy, column, f"other/{name}", content)
    (problem,) = problems(study_copy)
    assert problem.startswith(f"sessions, row 2, {column} = 'other/{name}': ")
    assert message in problem
    assert problem.count(name) == 1


def test_an_audio_file_of_pictures_only(study_copy: Path) -> None:
    silent = study_copy / "silent.avi"
    video = study_copy / first_session(study_copy)["video"]
    with av.open(str(video)) as source, av.open(str(silent), "w") as cut:
        stream = cut.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                cut.mux(packet)
    name_file(study_copy, "audio", "silent.avi", silent.read_bytes())
    (problem,) = problems(study_copy)
    assert "has no audio track" in problem


def openface_table(study: Path) -> bytes:
    content = (study / first_session(study)["openface"]).read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table[:-20], "the last line has no end"),
        (lambda table: b"".join(table.splitlines(keepends=True)[:31]), "ends with frame 30, but the video holds"),
        (lambda table: table.splitlines(keepends=True)[0], "has no rows"),
        (
            lambda table: table + b"99999" + table.splitlines(keepends=True)[-1].lstrip(b"0123456789"),
            "ends with frame 99999",
        ),
    ],
)
def test_an_openface_table_that_is_cut_or_another_videos(
    study_copy: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    name_file(study_copy, "openface", "o.csv", openface_table(study_copy))
    assert problems(study_copy) == []
    name_file(study_copy, "openface", "o.csv", change(openface_table(study_copy)))
    (problem,) = problems(study_copy)
    assert message in problem
    assert problems(study_copy, CONTAINER) == []


def test_an_openface_table_that_is_not_there_matters_only_where_it_is_read(study_copy: Path) -> None:
    (study_copy / first_session(study_copy)["openface"]).unlink()
    (problem,) = problems(study_copy)
    assert problem.endswith("the file does not exist")
    assert problems(study_copy, CONTAINER) == []


def test_everything_is_in_one_report(study_copy: Path) -> None:
    """A fault of each kind: in the tables, between them, of one session, and of files; also in a row with two."""
    sessions = pd.read_csv(study_copy / "sessions.csv", dtype=str)
    sessions.loc[0, ["participant_id", "video"]] = ["p 1", "videos/absent.avi"]
    sessions.loc[1, "transcript"] = "videos"
    (study_copy / "v.avi").symlink_to("/etc/hostname")
    sessions.loc[2, "video"] = "v.avi"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    ratings = pd.read_csv(study_copy / "ratings.csv", dtype=str)
    ratings.loc[0, ["story_id", "empathy"]] = ["st-nowhere", "7"]
    ratings.to_csv(study_copy / "ratings.csv", index=False)
    phases = pd.read_csv(study_copy / "phases.csv", dtype=str)
    phases.loc[4, "end_s"] = "1700000000000"
    phases.to_csv(study_copy / "phases.csv", index=False)
    with (study_copy / "surveys.csv").open("a") as surveys:
        surveys.write("p01,pre,panas,3,4\n")
    found = problems(study_copy)
    expected = [
        "sessions, row 2, participant_id = (3 characters): an id has",
        "sessions, row 2, video = 'videos/absent.avi': the file does not exist",
        "sessions, row 3, transcript = 'videos': is not a file",
        "sessions, row 4, video = 'v.avi': leaves the study folder",
        "phases, row 6, end_s = '1700000000000.0': is later than any recording ends",
        "ratings, row 2, empathy = '7': ",
        "ratings, row 2, story_id = 'st-nowhere': is not in the table 'stories'",
        "surveys, row 28: has 5 fields, the header has 4",
    ]
    assert [problem[: len(begin)] for problem, begin in zip(found, expected, strict=True)] == expected


def test_the_tables_alone_are_checked_without_a_look_at_any_file(study_copy: Path) -> None:
    shutil.rmtree(study_copy / "videos")
    result = storyframes_here("check", study_copy, "--tables-only")
    assert result.returncode == 0, result.stderr
    assert not missing(result.stdout, "no file was opened")
    (study_copy / "stories.csv").unlink()
    result = storyframes_here("check", study_copy, "--tables-only")
    assert result.returncode == 2
    assert not missing(result.stderr, "'stories'", "is not in the table")


def test_the_command_shows_them_and_ends_with_1_or_2(study_copy: Path, tmp_path: Path) -> None:
    name_file(study_copy, "video", "v.avi", b"")
    name_file(study_copy, "video2", "w.avi", b"")
    shutil.rmtree(study_copy / "openface", ignore_errors=True)
    config = tmp_path / "storyframes.toml"
    config.write_text('[openface]\nbackend = "container"\n')
    result = storyframes_here("check", study_copy, "--config", config)
    assert result.returncode == 1
    assert "1 problem" in result.stderr
    assert not missing(" ".join(result.stderr.split()), "set aside", "0 bytes", "the file is empty", "whole copy")
    assert result.stderr.splitlines()[-1].startswith(f"Next: storyframes extract {study_copy} ")
    assert not missing(result.stdout, "not read of sessions", "video2")
    (study_copy / "stories.csv").unlink()
    result = storyframes_here("check", study_copy, "--config", config)
    assert result.returncode == 2
    assert "Next:" not in result.stderr
    assert "not read of sessions: video2\n" in result.stderr


def test_what_a_study_does_not_have_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,transcript\ns1,p1,t.vtt\n")
    shown = storyframes_here("check", tmp_path, "--tables-only").stdout
    assert not missing(shown, "sessions", "participants")
    assert [word for word in ("stories", "ratings", "survey scores", "clocks") if word in shown] == []


# --- tracks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["video", "audio"])
@pytest.mark.parametrize(
    ("session_s", "apart"), [(1000.0, True), (-1000.0, True), (1.0, False), (-1.0, False)], ids=str
)
def test_a_track_that_shares_nothing_in_time_with_its_session(
    study_copy: Path, kind: str, session_s: float, apart: bool
) -> None:
    session = first_session(study_copy)
    if kind == "audio":
        write_wave(study_copy / "lapel.wav", np.ones(8 * 8000), 8000)
    name = "lapel.wav" if kind == "audio" else session["video"]
    (study_copy / "tracks.csv").write_text(f"session_id,track,{kind},clock\n{session['session_id']},b,{name},k\n")
    (study_copy / "clocks.csv").write_text(
        f"session_id,clock,clock_s,session_s\n{session['session_id']},k,0,{session_s}\n"
    )
    found = problems(study_copy)
    if not apart:
        assert found == []
        return
    (problem,) = found
    assert not missing(problem, "tracks, row 2", kind, f"'{name}'", f"{session_s:.2f}")
    assert "they share nothing in time" in problem
    assert CliRunner().invoke(app, ["check", str(study_copy)]).exit_code == 2  # extraction sets nothing of it aside


def test_a_clock_without_rows_names_what_measures_it(study_copy: Path) -> None:
    session = first_session(study_copy)
    (study_copy / "tracks.csv").write_text(
        f"session_id,track,video,clock\n{session['session_id']},b,{session['video']},cam_b\n"
    )
    (problem,) = problems(study_copy)
    assert not missing(problem, "tracks, row 2", "clock = 'cam_b'", "'clocks'")
    assert not missing(problem, "'storyframes sync'", "measures clocks that have no")


@pytest.mark.parametrize(("sound_s", "is_wrong"), [(8, True), (605, False)])
def test_a_transcript_of_a_track_without_a_video_is_held_against_its_sound(
    study_copy: Path, sound_s: int, is_wrong: bool
) -> None:
    write_wave(study_copy / "lapel.wav", np.zeros(sound_s * 8000), 8000)
    (study_copy / "late.srt").write_bytes(SRT)
    session_id = first_session(study_copy)["session_id"]
    (study_copy / "tracks.csv").write_text(
        f"session_id,track,audio,transcript\n{session_id},lapel,lapel.wav,late.srt\n"
    )
    found = problems(study_copy)
    if not is_wrong:
        assert found == []
        return
    (problem,) = found
    assert not missing(problem, "tracks, row 2", "transcript = 'late.srt'", "ends at 601.00 s", "8.00 s")


# --- how labels become clips -----------------------------------------------------------------------------------------

LABELLED = {
    "schemes": "scheme,type,min,max\nvalence,interval,-1,1\nsplit,nominal,,\n",
    "labels": "session_id,scheme,value,rater_id\np01-s01,valence,0.5,r1\np01-s01,split,near,r1\n",
}


def label_faults(study: Path, tmp_path: Path, config: str, *options: str) -> str:
    (tmp_path / "storyframes.toml").write_text(config)
    result = CliRunner().invoke(
        app, ["check", str(study), "--config", str(tmp_path / "storyframes.toml"), *options], env={"COLUMNS": "300"}
    )
    assert result.exit_code in (0, 2), result.output
    assert (result.exit_code == 2) == ("problem" in result.output)
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("options", [(), ("--tables-only",)], ids=["all", "tables"])
def test_check_sees_that_labels_cannot_become_columns_of_the_clip_index(
    study_copy: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    for table, content in LABELLED.items():
        (study_copy / f"{table}.csv").write_text(content)
    said = label_faults(
        study_copy, tmp_path, '[labels.valenc]\nraters = "all"\n[labels.valence]\nraters = "r2"\n', *options
    )
    assert "3 problems" in said
    assert not missing(said, "clip index [labels.valenc]", "'valenc'", "'valence'")
    assert not missing(said, "clip index [labels.valence]", "raters = 'r2'", "r1")
    assert not missing(said, "'split'", "clip index the scheme")


def test_of_labels_that_are_wrong_themselves_nothing_follows(study_copy: Path, tmp_path: Path) -> None:
    """A scheme whose row cannot be read is not one that the configuration misspelt; a wrong value loses none."""
    for table, content in LABELLED.items():
        (study_copy / f"{table}.csv").write_text(content.replace("split", "place").replace("interval", "intervall"))
    config = '[labels.valence]\nraters = "all"\n'
    assert "clip index" not in label_faults(study_copy, tmp_path, config, "--tables-only")
    (study_copy / "schemes.csv").write_text(LABELLED["schemes"].replace("split", "place"))
    assert label_faults(study_copy, tmp_path, config, "--tables-only").startswith("valid")
    (study_copy / "labels.csv").write_text(LABELLED["labels"].replace("split", "place").replace("0.5", "5"))
    said = label_faults(study_copy, tmp_path, config.replace("valence", "valenc"), "--tables-only")
    assert "is outside the scheme 'valence'" in said
    assert "[labels.valenc]" in said


def test_labels_of_several_persons_that_no_rule_chooses_from_are_named(study_copy: Path, tmp_path: Path) -> None:
    session = first_session(study_copy)["session_id"]
    (study_copy / "schemes.csv").write_text("scheme,type,min,max\nvalence,interval,-1,1\n")
    (study_copy / "persons.csv").write_text(f"session_id,person_id\n{session},ann\n{session},bob\n")
    (study_copy / "labels.csv").write_text(
        f"session_id,scheme,value,person_id\n{session},valence,0.5,ann\n{session},valence,0.1,bob\n"
    )
    said = label_faults(study_copy, tmp_path, "", "--tables-only")
    assert not missing(said, session, "scheme valence")
    assert label_faults(study_copy, tmp_path, '[labels.valence]\nperson = "ann"\n', "--tables-only").startswith("valid")


def test_a_recording_in_several_sessions_is_named_with_all_of_them(study_copy: Path) -> None:
    sessions = pd.read_csv(study_copy / "sessions.csv", dtype=str)
    first, second, third = sessions["session_id"][:3]
    shutil.copyfile(study_copy / sessions["video"][2], study_copy / "copy.avi")
    sessions.loc[1, "video"] = "copy.avi"
    sessions.loc[0, "video"] = sessions["video"][2]
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    (problem,) = [one for one in problems(study_copy) if "same recording" in one]
    people = sessions["participant_id"]
    assert not missing(problem, "sessions, row 3", "video = 'copy.avi'")
    assert not missing(problem, "copy.avi", "SHA-256")
    assert f"{first} ({people[0]}) and {second} ({people[1]}) and {third} ({people[2]}), so" in problem
    assert CliRunner().invoke(app, ["check", str(study_copy)]).exit_code == 1


def test_a_session_may_name_its_own_recording_twice_and_share_a_long_one(study_copy: Path) -> None:
    sessions = pd.read_csv(study_copy / "sessions.csv", dtype=str)
    first, second = sessions["session_id"][:2]
    (study_copy / "tracks.csv").write_text(f"session_id,track,video\n{first},again,{sessions['video'][0]}\n")
    assert [one for one in problems(study_copy) if "recording" in one] == []
    sessions.loc[1, "video"] = sessions["video"][0]
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    phases = pd.read_csv(study_copy / "phases.csv")
    is_second = phases["session_id"] == second
    phases.loc[is_second, ["start_s", "end_s"]] += phases.loc[phases["session_id"] == first, "end_s"].max()
    phases.to_csv(study_copy / "phases.csv", index=False)
    study, found = check_study(study_copy, ExtractorsSettings())
    assert [str(problem) for problem in found if "same recording" in str(problem)] == []
    assert [f"{first} " in remark and f"{second} " in remark for remark in study.remarks] == [True]


def test_plug_ins_remark_on_files_of_theirs(study_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "installed/example_remarks-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: example-notes\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[storyframes.check]\nfaulty = example_remarks:fail\nnotes = example_remarks:find\n"
    )
    (installed.parent / "example_remarks.py").write_text(
        "def find(study):\n"
        "    yield f'notes of {len(study.sessions)} sessions: make them again'\n"
        "def fail(study):\n"
        "    yield 1 / 0\n"
    )
    monkeypatch.syspath_prepend(str(installed.parent))
    study, found = check_study(study_copy, ExtractorsSettings())
    assert found == []
    faulty, notes = (remark for remark in study.remarks if "notes" in remark)
    assert not missing(faulty, "example-notes 1.0", "ZeroDivisionError")
    assert notes == f"notes of {len(study.sessions)} sessions: make them again"


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("t.json", '{"task": "transcribe", "text": "", "segments": []}', ["has no words"]),
        ("t.srt", "1\n00:00:01,000 --> 00:00:02,000\n[Music]\n", ["has no words", "sounds"]),
        ("t.srt", "1\n00:00:01,00 --> 00:00:02,00\nhello\n", ["hundredths"]),
        ("t.srt", "1\n00:00:01,000 --> 00:00:02,000\nI went (you know) home\n", ["1 parentheses"]),
        ("t.srt", "1\n00:00:01,000 --> 00:00:02,000\nhello\n", []),
    ],
)
def test_transcripts_to_look_at_are_named(tmp_path: Path, name: str, content: str, parts: list[str]) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "sessions.csv").write_text(f"session_id,participant_id,transcript\ns1,p1,{name}\n")
    study, problems = check_study(tmp_path, ExtractorsSettings())
    assert problems == []
    findings = [remark for remark in study.remarks if remark.startswith(name)]
    assert len(findings) == bool(parts)
    assert not parts or not missing(findings[0], *parts)
