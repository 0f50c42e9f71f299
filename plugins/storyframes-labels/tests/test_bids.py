"""A BIDS data set as a study: ``init --bids``, by the text of BEP047 (commit 07ca171 of its pull request)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from storyframes_labels.bids_tables import read_bids
from support.media.recordings import write_recording, write_wave

from tasks.study import Study, UnusableFileError, load_study
from tasks.study.first_tables.sessions_from_data_set import make_study_of
from tasks.study.first_tables.sessions_from_files import Made


@cache
def recording(is_sound: bool) -> bytes:
    with TemporaryDirectory() as folder:
        if is_sound:
            return write_wave(Path(folder, "a.wav"), np.zeros(1600, int), 16_000).read_bytes()
        return write_recording(Path(folder, "a.mkv"), 3).read_bytes()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data set"
    folder.mkdir()
    (folder / "dataset_description.json").write_text('{"Name": "x", "BIDSVersion": "1.11.1"}')
    (folder / "participants.tsv").write_text("participant_id\tage\nsub-01\t25\nsub-02\t30\n")
    return folder


def add(data: Path, *names: str) -> None:
    """Recordings of these names, no two with the same content."""
    for name in names:
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(recording(path.suffix in (".wav", ".flac")) + name.encode())


def made(data: Path) -> tuple[Made, Study]:
    study = data.parent / "study"
    study.mkdir()
    done = make_study_of(study, data, read_bids)
    return done, load_study(study)


def aside(done: Made, file: str) -> str:
    (line,) = [line for line in done.set_aside if line.startswith(f"{file}: ")]
    return line


def test_runs_are_sessions_and_recordings_are_tracks(data: Path) -> None:
    person = "sub-01/ses-a/beh/sub-01_ses-a_task-talk_run-1"
    add(data, f"{person}_audiovideo.mp4", f"{person}_recording-face_video.mkv", f"{person}_audio.wav")
    add(data, f"{person}_recording-face_audio.flac", "sub-02/beh/sub-02_recording-room_video.avi")
    done, study = made(data)
    talk, room = "sub-01_ses-a_task-talk_run-1", "sub-02"
    assert study.sessions[talk].video == f"{person}_audiovideo.mp4"
    assert study.sessions[talk].participant_id == "sub-01"
    tracks = {name: track.video or track.audio for name, track in study.tracks[talk].items() if name != "main"}
    assert tracks == {
        "audio": f"{person}_audio.wav",
        "face": f"{person}_recording-face_video.mkv",
        "face-audio": f"{person}_recording-face_audio.flac",
    }
    assert study.sessions[room].video == "sub-02/beh/sub-02_recording-room_video.avi"
    assert any("alignment" in remark and talk in remark and room not in remark for remark in done.remarks)
    assert study.path(study.sessions[talk].video).samefile(data / f"{person}_audiovideo.mp4")
    assert not [path for path in study.root.iterdir() if path.suffix not in (".csv", ".toml")]  # nothing is copied
    assert list(pd.read_csv(study.root / "participants.csv")) == ["participant_id"]  # ages stay where they are


def test_acq_times_are_clocks_as_exact_as_they_are_written(data: Path) -> None:
    person = "sub-01/beh/sub-01_task-talk"
    add(data, f"{person}_video.mp4", f"{person}_recording-a_audio.wav", f"{person}_recording-b_audio.wav")
    (data / "sub-01/sub-01_scans.tsv").write_text(
        "filename\tacq_time\n"
        "beh/sub-01_task-talk_video.mp4\t2025-12-15T10:00:02\n"
        "beh/sub-01_task-talk_recording-a_audio.wav\t2025-12-15T10:00:00.250000\n"
        "beh/sub-01_task-talk_recording-b_audio.wav\t2025-12-15T10:00:05\n"
    )
    _, study = made(data)
    session = "sub-01_task-talk"
    assert {name: clock.session_s for name, clock in study.clocks[session].items()} == {"a": (-1.75,), "b": (3.0,)}
    assert study.clock_errors[session] == {"b": 0.41}
    assert study.sessions[session].recorded_at.isoformat() == "2025-12-15T10:00:02"


def test_times_that_are_not_known_make_no_clocks(data: Path) -> None:
    person = "sub-01/beh/sub-01"
    add(data, f"{person}_video.mp4", f"{person}_recording-a_audio.wav", f"{person}_recording-b_audio.wav")
    (data / "sub-01/sub-01_scans.tsv").write_text(
        "filename\tacq_time\nbeh/sub-01_video.mp4\t2025-12-15T10:00:02\n"
        "beh/sub-01_recording-a_audio.wav\tn/a\nbeh/sub-01_recording-b_audio.wav\tyesterday at T\n"
    )
    done, study = made(data)
    assert study.clocks == {}
    assert any("yesterday at T" in remark and "recording-b" in remark for remark in done.remarks)


def test_events_are_labels_and_what_is_unknown_is_set_aside(data: Path) -> None:
    events = "sub-01/beh/sub-01_task-talk_events.tsv"
    add(data, "sub-01/beh/sub-01_task-talk_audio.wav")
    (data / "task-talk_events.json").write_text(json.dumps({"mood": {"Levels": {"up": "", "down": ""}}}))
    (data / events).write_text(
        "onset\tduration\ttrial_type\tmood\tsaid\n"
        '0.1\t0.2\t"ah"\tup\thello\n'  # row 2; quotes are characters in BIDS
        "n/a\t1\tpause\tup\t\n"
        "1\tn/a\tpause\tup\t\n"
        "-1\t1\tpause\tup\t\n"
        "0.1\t0.2\tpause\tn/a\t\n"
        "2\t0\tn/a\tdown\t\n"
        "3\t0\tbroken\n"
    )
    done, study = made(data)
    labels = [(label.scheme, label.value, label.start_s, label.end_s) for label in study.labels]
    assert labels == [
        ("trial_type", '"ah"', 0.1, 0.3),
        ("mood", "up", 0.1, 0.3),
        ("mood", "down", 2.0, 2.0),
    ]
    for row in (3, 4, 5):
        assert "n/a is unknown" in aside(done, f"{events}, row {row}")
    assert "second event" in aside(done, f"{events}, row 6, trial_type")
    assert "3 fields" in aside(done, f"{events}, row 8")
    assert any(events in remark and remark.endswith("said") for remark in done.remarks)
    assert "hello" not in (study.root / "labels.csv").read_text() + str(done)


@pytest.mark.parametrize(
    ("names", "times", "is_clear"),
    [
        (["_recording-a_audio.wav", "_recording-b_audio.wav"], [], False),
        (["_recording-a_audio.wav", "_recording-b_audio.wav"], ["00", "00"], True),
        (["_recording-a_audio.wav", "_recording-b_audio.wav"], ["00", "01"], False),
        (["_audio.wav", "_recording-b_audio.wav"], [], False),
        (["_audio.wav", "_recording-b_audio.wav"], ["00", "01"], True),
        (["_audio.wav", "_recording-b_audio.wav"], ["01", "00"], False),
        (["_audio.wav", "_video.mp4"], [], False),
        (["_audio.wav", "_recording-b_audio.wav"], ["00", "00Z"], False),
    ],
)
def test_second_0_of_events_is_not_guessed(data: Path, names: list[str], times: list[str], is_clear: bool) -> None:
    add(data, *(f"sub-01/beh/sub-01{name}" for name in names))
    rows = [f"beh/sub-01{name}\t2025-12-15T10:00:{second}" for name, second in zip(names, times, strict=False)]
    if rows:
        (data / "sub-01/sub-01_scans.tsv").write_text("\n".join(["filename\tacq_time", *rows]))
    (data / "sub-01/beh/sub-01_events.tsv").write_text("onset\tduration\ttrial_type\n1\t1\tx\n")
    done, study = made(data)
    assert len(study.labels) == is_clear
    assert is_clear or "second 0" in aside(done, "sub-01/beh/sub-01_events.tsv")
    assert any("time zone" in remark for remark in done.remarks) == ("00Z" in times)


@pytest.mark.parametrize("lost", ["_video.mp4", "_recording-b_audio.wav", "_split-2_audio.wav"])
def test_second_0_is_open_where_a_recording_of_the_run_is_set_aside(data: Path, lost: str) -> None:
    add(data, "sub-01/beh/sub-01_recording-a_audio.wav", "sub-02/beh/sub-02_audio.wav")
    (data / f"sub-01/beh/sub-01{lost}").write_bytes(b"placeholder")
    for person in ("sub-01", "sub-02"):
        (data / f"{person}/beh/{person}_events.tsv").write_text("onset\tduration\ttrial_type\n1\t1\tx\n")
    done, study = made(data)
    assert [label.session_id for label in study.labels] == ["sub-02"]
    assert "second 0" in aside(done, "sub-01/beh/sub-01_events.tsv")


def test_splits_are_one_recording_and_a_gap_is_none(data: Path) -> None:
    add(data, *(f"sub-01/beh/sub-01_task-x_split-{number:03}_video.mp4" for number in (1, 2, 3)))
    add(data, *(f"sub-02/beh/sub-02_task-x_split-{number}_video.mp4" for number in (1, 3)))
    add(data, *(f"sub-02/beh/sub-02_task-y_split-{number}_audio.wav" for number in range(1, 12)))
    done, study = made(data)
    first = "sub-01/beh/sub-01_task-x_split-001_video.mp4"
    assert study.sessions["sub-01_task-x"].video == (
        f"{first}+sub-01_task-x_split-002_video.mp4+sub-01_task-x_split-003_video.mp4"
    )
    assert "sub-02_task-x" not in study.sessions
    parts = study.sessions["sub-02_task-y"].audio.split("+")
    assert [part.split("split-")[1].split("_")[0] for part in parts] == [str(number) for number in range(1, 12)]
    assert "without a gap" in aside(done, "sub-02/beh/sub-02_task-x_split-3_video.mp4")


def test_what_cannot_be_read_is_set_aside_and_the_rest_goes_on(data: Path) -> None:
    beh = "sub-01/beh/sub-01"
    add(
        data, f"{beh}_task-x_video.mp4", f"{beh}_dir-x_video.mp4", f"{beh}_task-y_video.webm", f"{beh}_task-z_image.jpg"
    )
    add(data, "sub-01/beh/sub-02_task-x_video.mp4", f"{beh}_physio.tsv.gz", f"{beh}_task-two_video.mp4")
    add(data, f"{beh}_task-a+b_video.mp4")
    add(data, f"{beh}_task-two_video.mkv")
    (data / f"{beh}_task-empty_video.mp4").write_bytes(b"placeholder")
    (data / f"{beh}_task-gone_video.mp4").symlink_to("../../.git/annex/objects/gone")
    (data.parent / "secret.mp4").write_bytes(recording(False))
    (data / f"{beh}_task-out_video.mp4").symlink_to(data.parent / "secret.mp4")
    (data / f"{beh}_task-alone_events.tsv").write_text("onset\tduration\ttrial_type\n1\t1\tx\n")
    done, study = made(data)
    assert list(study.sessions) == ["sub-01_task-x"]
    for name, reason in {
        f"{beh}_dir-x_video.mp4": "'dir-x'",
        f"{beh}_task-a+b_video.mp4": "'task-a+b'",
        f"{beh}_task-y_video.webm": ".webm",
        f"{beh}_task-z_image.jpg": "still image",
        "sub-01/beh/sub-02_task-x_video.mp4": "another folder",
        f"{beh}_task-empty_video.mp4": "is not a media file",
        f"{beh}_task-gone_video.mp4": "datalad get",
        f"{beh}_task-out_video.mp4": "symbolic link",
        f"{beh}_task-alone_events.tsv": "without a recording",
        f"{beh}_task-two_video.mkv": "split-1",
        f"{beh}_task-two_video.mp4": "split-1",
    }.items():
        assert reason in aside(done, name)
    assert any("1 of _physio" in remark for remark in done.remarks)


def test_other_folders_and_studies_that_are_there_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UnusableFileError, match="dataset_description.json"):
        make_study_of(tmp_path, tmp_path, read_bids)
    add(data, "sub-01/beh/sub-01_video.mp4")
    (tmp_path / "study").mkdir()
    (tmp_path / "study/labels.csv").write_text("session_id\n")
    with pytest.raises(UnusableFileError, match="labels.csv"):
        make_study_of(tmp_path / "study", data, read_bids)
    (data / "dataset_description.json").write_text('{"BIDSVersion": "1.11.1", "DatasetType": "derivative"}')
    with pytest.raises(UnusableFileError, match="'derivative'"):
        make_study_of(tmp_path / "new", data, read_bids)


def test_one_wrong_name_or_row_does_not_refuse_the_data_set(data: Path) -> None:
    beh, long = "sub-01/beh/sub-01", "a" * 70
    add(data, f"{beh}_audio.wav", f"{beh}_recording-Cam_audio.wav", f"{beh}_recording-cam_audio.wav")
    add(data, f"{beh}_recording-{long}_audio.wav", "sub-A/beh/sub-A_audio.wav", "sub-a/beh/sub-a_audio.wav")
    add(data, "sub-02/beh/sub-02_audio.wav", "sub-03/beh/sub-03_audio.wav", "sub-04/beh/sub-04_audio.wav")
    (data / "events.json").write_text(json.dumps({"My scheme (1)": {"Levels": {"a": ""}}}))
    header = "onset\tduration\ttrial_type\tMy scheme (1)\n"
    tables = {
        "sub-02": f"{header}1\t1\tx\ta\n1.0\t1.0\tx\ta\n1e-3\t1e-99999\ty\ta\n2e9\t1\tz\ta\n",
        "sub-03": "onset\tonset\tduration\ttrial_type\n1\t2\t1\tx\n",
        "sub-04": f"onset\tduration\ttrial_type\n1\t1\t{'x' * 140_000}\n2\t1\tx\n3\t1\t\0\n4\t1\ta\u2028b\n1_0\t1\tx\n",
    }
    for person, text in tables.items():
        (data / f"{person}/beh/{person}_events.tsv").write_text(text)
    done, study = made(data)
    assert [*study.sessions] == ["sub-01", "sub-02", "sub-03", "sub-04", "sub-A"]
    assert [*study.tracks["sub-01"]] == ["main", "Cam"]
    labels = [(label.session_id, label.value, label.start_s, label.end_s) for label in study.labels]
    assert labels == [
        ("sub-02", "x", 1, 2),
        ("sub-02", "y", 0.001, 0.001),
        ("sub-04", "x", 2, 3),
        ("sub-04", "a\u2028b", 4, 5),
    ]
    for name, reason in {
        f"{beh}_recording-cam_audio.wav": "case",
        f"{beh}_recording-{long}_audio.wav": "64",
        "sub-a/beh/sub-a_audio.wav": "case",
        "sub-02/beh/sub-02_events.tsv, row 3, trial_type": "second event",
        "sub-02/beh/sub-02_events.tsv, row 5": "2e9",
        "sub-02/beh/sub-02_events.tsv, My scheme (1)": "id",
        "sub-03/beh/sub-03_events.tsv": "'onset'",
        "sub-04/beh/sub-04_events.tsv, row 2": "131,072",
        "sub-04/beh/sub-04_events.tsv, row 4": "zero byte",
        "sub-04/beh/sub-04_events.tsv, row 6": "1_0",
    }.items():
        assert reason in aside(done, name)


def test_a_file_that_is_twice_in_scans_tsv_has_no_time(data: Path) -> None:
    add(data, "sub-01/beh/sub-01_audio.wav")
    row = "beh/sub-01_audio.wav\t2025-12-15T10:00:0"
    (data / "sub-01/sub-01_scans.tsv").write_text(f"filename\tacq_time\n{row}0\n{row}1\n")
    done, study = made(data)
    assert study.sessions["sub-01"].recorded_at is None
    assert any("twice" in remark for remark in done.remarks)
