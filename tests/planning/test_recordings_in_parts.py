"""A study whose recordings are in several files: its tables, its features, and what ``init`` makes of such names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.media.recordings import write_recording, write_wave
from support.messages import missing, naming, unlike
from support.studies import extract_session, make_study

import storyframes
from storyframes.one_file import ExtractFileError
from tasks.clip_index.shared_recordings import find_shared_recordings
from tasks.extractors.registry import ExtractorsSettings
from tasks.forgetting.owner import remaining
from tasks.forgetting.scope import Scope
from tasks.inspect.study_check import check_study
from tasks.media.container import RecordingError, open_container
from tasks.study.first_tables.sessions_from_files import Made, make_sessions
from tasks.study.forgotten_ids import ForgottenIds
from tasks.study.load import StudyError, StudyFileError, load_study

RATE = 16_000


def write_parts(folder: Path, *names: str, frames: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names, 1):
        sound = np.random.default_rng(number).integers(-9000, 9000, (frames * RATE // 25, 1))
        if name.endswith(".wav"):
            write_wave(folder / name, sound, RATE)
        else:
            write_recording(folder / name, frames, sound, RATE)


def sessions_table(root: Path, *videos: str) -> Path:
    rows = [f"s{number},p{number},{video}\n" for number, video in enumerate(videos, 1)]
    (root / "sessions.csv").write_text("session_id,participant_id,video\n" + "".join(rows))
    return root


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path / "m", "a.mkv")
    study = load_study(sessions_table(tmp_path, "m/a.mkv+b.mkv"))
    with pytest.raises(StudyFileError, match=naming("m/b.mkv", "does not exist")):
        study.path("m/a.mkv+b.mkv")


@pytest.mark.parametrize("cell", ["m/a.mkv+m/b.mkv", "m/a.mkv+../b.mkv", "m/a.mkv+/etc/b.mkv"])
def test_files_of_several_folders_are_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(StudyError, match=naming("sessions", "row 2", "m/a.mkv+b.mkv")):
        load_study(sessions_table(tmp_path, cell))


@pytest.mark.parametrize("cell", ["m/a.mkv+a.mkv", "m/a.mkv+", "m/a.mkv+.", "m/a.mkv+.."])
def test_a_file_joined_with_itself_or_with_no_name_is_refused(tmp_path: Path, cell: str) -> None:
    write_parts(tmp_path / "m", "a.mkv")
    with pytest.raises(StudyError, match=naming("sessions", "row 2", cell)):
        load_study(sessions_table(tmp_path, cell))
    with pytest.raises(RecordingError, match=naming(Path(cell).name)):
        open_container(tmp_path / cell)


def test_files_of_another_kind_are_a_problem_of_their_session(tmp_path: Path) -> None:
    write_parts(tmp_path, "a.mkv", "b.mkv", "c.mkv")
    write_recording(tmp_path / "d.mkv", 3)
    _, found = check_study(sessions_table(tmp_path, "a.mkv+b.mkv", "c.mkv+d.mkv"), ExtractorsSettings())
    assert not unlike(found, ("sessions", "row 3", "d.mkv", "c.mkv", "streams"))


def test_sessions_that_share_one_of_the_files_are_of_one_recording(tmp_path: Path) -> None:
    """Their clips show the same people at the same time, so they are in one split."""
    write_parts(tmp_path, "a.mkv", "b.mkv", "c.mkv", "d.mkv")
    study = load_study(sessions_table(tmp_path, "a.mkv+b.mkv", "b.mkv+c.mkv", "d.mkv"))
    assert [shared.sessions for shared in find_shared_recordings(study)] == [["s1", "s2"]]


@pytest.mark.parametrize(("cells", "is_cut"), [(("a.mkv+b.mkv", "b.mkv+c.mkv"), False), (("a.mkv+b.mkv",) * 2, True)])
def test_phases_of_recordings_that_share_a_file_are_on_different_clocks(
    tmp_path: Path, cells: tuple[str, ...], is_cut: bool
) -> None:
    write_parts(tmp_path, "a.mkv", "b.mkv", "c.mkv")
    sessions_table(tmp_path, *cells)
    (tmp_path / "phases.csv").write_text("session_id,phase,start_s,end_s\ns1,one,0,0.1\ns2,two,0.1,0.2\n")
    assert [shared.is_cut for shared in find_shared_recordings(load_study(tmp_path))] == [is_cut]
    _, found = check_study(tmp_path, ExtractorsSettings())
    named = [str(problem) for problem in found if "row 3" in str(problem)]
    assert is_cut or not missing(named[0], *cells, "a file in common")
    assert bool(named) != is_cut


def test_all_files_of_the_forgotten_are_removed_and_none_of_others(tmp_path: Path) -> None:
    write_parts(tmp_path, "a.mkv", "b.mkv", "c.mkv")
    sessions_table(tmp_path, "a.mkv+b.mkv", "b.mkv+c.mkv")
    forgotten = Scope(ForgottenIds(frozenset({"s1"}), frozenset({"p1"})))
    assert [path.name for path in remaining(tmp_path, forgotten).files] == ["a.mkv"]
    sessions_table(tmp_path, "a.mkv+b.mkv", "c.mkv")
    assert [path.name for path in remaining(tmp_path, forgotten).files] == ["a.mkv", "b.mkv"]


@pytest.mark.slow
def test_features_are_those_of_one_file_and_follow_a_change_of_any(tmp_path: Path) -> None:
    write_parts(tmp_path / "study", "a.wav", "b.wav", frames=50)
    samples = [np.frombuffer((tmp_path / "study" / name).read_bytes()[44:], "<i2") for name in ("a.wav", "b.wav")]
    write_wave(tmp_path / "study/whole.wav", np.concatenate(samples), RATE)
    values = []
    for name in ("whole.wav", "a.wav+b.wav"):
        store, _ = extract_session(make_study(tmp_path / "study", audio=name), tmp_path / name, "opensmile")
        values.append(store.read("s", "opensmile"))
    np.testing.assert_array_equal(values[1], values[0])
    study, root = tmp_path / "study", tmp_path / "a.wav+b.wav"
    assert extract_session(study, root, "opensmile")[1]["opensmile"].skipped
    write_wave(study / "b.wav", samples[1][::-1], RATE)
    assert not extract_session(study, root, "opensmile")[1]["opensmile"].skipped


def test_one_line_takes_joined_files(tmp_path: Path) -> None:
    write_parts(tmp_path / "m", "a.mkv", "b.mkv")
    extracted = storyframes.extract(tmp_path / "m/a.mkv+b.mkv", "frames", cache=tmp_path / "cache")
    assert len(extracted.to_pandas("frames")) == 6
    with pytest.raises(ExtractFileError, match=naming(str(tmp_path / "m/a.mkv+b.mkv"))):
        storyframes.extract(f"{tmp_path}/m/a.mkv+{tmp_path}/m/b.mkv", "frames", cache=tmp_path / "cache")
    with pytest.raises(FileNotFoundError, match=naming("m/c.mkv")):
        storyframes.extract(tmp_path / "m/a.mkv+c.mkv", "frames", cache=tmp_path / "cache")


# --- init -------------------------------------------------------------------------------------------------------------


def make(root: Path, *, joined: bool = True, update: bool = False) -> tuple[list[str], Made, list[str]]:
    """The rows of ``sessions.csv``, what was made, and the names that were asked about."""
    asked: list[str] = []
    made = make_sessions(
        root, {"recording": "m/*"}, update=update, join=lambda names: bool(asked.extend(names)) or joined
    )
    return (root / "sessions.csv").read_text().splitlines()[1:], made, asked


@pytest.mark.parametrize(
    ("names", "session"),
    [
        (("GOPR0007.mp4", "GP010007.mp4", "GP020007.mp4"), "GOPR0007"),
        (("GX010012.MP4", "GX020012.MP4"), "GX010012"),
        (("p01_part1.wav", "p01_part2.wav"), "p01"),
        (("p01-Teil 1.mkv", "p01-Teil 2.mkv"), "p01"),
    ],
)
def test_usual_names_of_parts_are_one_session_if_the_answer_is_yes(
    tmp_path: Path, names: tuple[str, ...], session: str
) -> None:
    write_parts(tmp_path / "m", *names)
    rows, made, asked = make(tmp_path)
    assert asked == [f"m/{'+'.join(names)}"]
    assert not missing(" ".join(made.remarks), asked[0], "a row for each file")
    assert (rows[0].split(",")[0], made.sessions) == (session, 1)
    assert asked[0] in rows[0]


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    write_parts(tmp_path / "m", "x_part1.mkv", "x_part2.mkv")
    rows, _, _ = make(tmp_path)
    write_parts(tmp_path / "m", "y_part1.mkv", "y_part2.mkv", frames=4)
    again, _, asked = make(tmp_path, update=True, joined=False)
    assert asked == ["m/y_part1.mkv+y_part2.mkv"]
    assert [row.split(",")[0] for row in again] == ["x", "y_part1", "y_part2"]
    assert again[0] == rows[0]
    assert make(tmp_path, update=True)[2] == []


def test_files_that_are_not_joined_are_named(tmp_path: Path) -> None:
    write_parts(tmp_path / "m", "x_part1.mkv", "x_part2.mkv", "y_part1.mkv", "y_part3.mkv", "part.mkv", "dept1.mkv")
    _, made, asked = make(tmp_path, joined=False)
    assert asked == ["m/x_part1.mkv+x_part2.mkv"]
    assert made.sessions == 6
    assert not missing(" ".join(made.remarks), "m/x_part1.mkv+x_part2.mkv", "--join")


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (("x_part1.mkv", "x_part2.mkv"), ("x_part2.vtt",)),
        (("x_part1.mkv", "x_part2.mkv"), ("x_part1.en.vtt", "x_part2.en.vtt")),
        (("GX010012.MP4", "GX020012.MP4"), ("GX010012.vtt", "GX020012.vtt")),
    ],
)
def test_captions_of_one_file_are_not_those_of_the_recording(
    tmp_path: Path, names: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    write_parts(tmp_path / "m", *names)
    for text in texts:
        (tmp_path / "m" / text).write_text("WEBVTT\n")
    rows, made, _ = make(tmp_path)
    assert [row for row in rows if ".vtt" in row] == []
    assert not missing(" ".join(made.remarks), *(f"m/{text}" for text in texts), "whole recording")


def test_captions_of_the_whole_recording_are_its_own(tmp_path: Path) -> None:
    write_parts(tmp_path / "m", "x_part1.mkv", "x_part2.mkv")
    for text in ("x.vtt", "x_part2.vtt"):
        (tmp_path / "m" / text).write_text("WEBVTT\n")
    (row,) = make(tmp_path)[0]
    assert row.endswith(",m/x.vtt")
    assert make(tmp_path, update=True)[0] == [row]


@pytest.mark.parametrize(
    ("names", "later", "whole"),
    [
        (("x_part1.mkv", "x_part2.mkv"), "x_part4.mkv", "m/x_part1.mkv+x_part2.mkv+x_part4.mkv"),
        (("GX010012.MP4", "GX020012.MP4"), "GX030012.MP4", "m/GX010012.MP4+GX020012.MP4+GX030012.MP4"),
    ],
)
def test_a_further_part_that_is_copied_later_is_not_a_session(
    tmp_path: Path, names: tuple[str, ...], later: str, whole: str
) -> None:
    write_parts(tmp_path / "m", *names)
    rows, _, _ = make(tmp_path)
    write_parts(tmp_path / "m", later, frames=4)
    again, made, asked = make(tmp_path, update=True)
    assert (again, asked) == (rows, [])
    assert not missing(" ".join(made.remarks), f"m/{later}", whole, rows[0].split(",")[0])


def test_a_further_part_of_a_single_file_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path / "m", "x_part1.mkv")
    make(tmp_path)
    write_parts(tmp_path / "m", "x_part2.mkv", frames=4)
    _, made, _ = make(tmp_path, update=True)
    assert not missing(" ".join(made.remarks), "m/x_part2.mkv", "m/x_part1.mkv+x_part2.mkv")


def test_parts_of_another_kind_are_not_asked_about_and_named(tmp_path: Path) -> None:
    write_parts(tmp_path / "m", "x_part1.mkv")
    write_recording(tmp_path / "m/x_part2.mkv", 3)  # without sound
    _, made, asked = make(tmp_path)
    assert (asked, made.sessions) == ([], 2)
    assert not missing(" ".join(made.remarks), "x_part2.mkv", "streams")
