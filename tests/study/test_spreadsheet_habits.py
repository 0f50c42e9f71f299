"""Tables as spreadsheets write them: read where that can mean one thing only, and said; else refused with the cure."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commands import storyframes_here
from support.messages import missing, naming, unlike

from tasks.study.curves import CurveError, CurveSamples
from tasks.study.load import Study, StudyError, load_study

ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)

TABLES = {
    "sessions": [
        ["session_id", "participant_id", "video", "recorded_at"],
        ["s1", "p1", "videos/first/a.avi", "2024-05-01T10:30"],
        ["s2", "p2", "videos/b.avi", ""],
    ],
    "phases": [["session_id", "phase", "start_s", "end_s"], ["s1", "talk", "0.5", "12.25"], ["s2", "talk", "1", "9"]],
    "stories": [["story_id", "text"], ["st-1", "Gestern ging Jörg “nach Haus”, ganz müde; so war’s."]],
    "schemes": [
        ["scheme", "type", "min", "max", "labels"],
        ["valence", "interval", "-1.5", "1.5", ""],
        ["mood", "nominal", "", "", "très bien|gut"],
    ],
    "labels": [
        ["session_id", "scheme", "value", "start_s", "end_s", "confidence"],
        ["s1", "valence", "-0.75", "0", "1.5", "0.5"],
        ["s1", "mood", "très bien", "", "", ""],
        ["s2", "valence", "1", "", "", "1"],
    ],
}


def write_table(
    path: Path,
    rows: list[list[str]],
    *,
    separator: str = ",",
    encoding: str = "utf-8",
    end: str = "\n",
    decimal: str = ".",
    empty_rows: tuple[int, ...] = (),
    empty_columns: int = 0,
    short_rows: bool = False,
    backslash: bool = False,
    said: bool = False,
) -> None:
    """The rows as a spreadsheet with these habits writes them."""
    numbers = {"start_s", "end_s", "min", "max", "value", "confidence", "time_s"}
    written = io.StringIO(newline="")
    if said:
        written.write(f"sep={separator}{end}")
    writer = csv.writer(written, delimiter=separator, lineterminator=end)
    for place, row in enumerate(rows):
        if place in empty_rows and place:
            writer.writerow([""] * (len(row) + empty_columns) if len(row) + empty_columns > 1 else [" "])
        cells = list(row)
        for at, name in enumerate(rows[0]):
            if place and name in numbers and cells[at].replace(".", "").lstrip("-").isdigit():
                cells[at] = cells[at].replace(".", decimal)
            if place and name == "video" and backslash:
                cells[at] = cells[at].replace("/", "\\")
        writer.writerow(cells + [""] * (0 if short_rows and place else empty_columns))
    path.write_bytes(written.getvalue().encode(encoding))


def write_study(folder: Path, **habits) -> Path:
    for name in ("videos/first/a.avi", "videos/b.avi"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    for table, rows in TABLES.items():
        write_table(folder / f"{table}.csv", rows, **habits)
    return folder


def plain(study: Study) -> Study:
    return replace(study, remarks=())


@given(
    separator=st.sampled_from([",", ";", "\t"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "cp1252"]),
    end=st.sampled_from(["\n", "\r\n"]),
    comma=st.booleans(),
    empty_rows=st.lists(st.integers(1, 4), max_size=2).map(tuple),
    empty_columns=st.integers(0, 2),
    short_rows=st.booleans(),
    backslash=st.booleans(),
    said=st.booleans(),
)
@ANY
def test_every_mixture_of_habits_reads_as_the_plain_study(
    tmp_path: Path, separator: str, comma: bool, **habits
) -> None:
    comma = comma and separator != ","
    expected = plain(load_study(write_study(tmp_path)))
    study = load_study(write_study(tmp_path, separator=separator, decimal="," if comma else ".", **habits))
    assert plain(study) == expected
    said = "\n".join(study.remarks)
    assert ("are separated by" in said) == (separator != ",")
    assert ("Windows-1252" in said) == (habits["encoding"] == "cp1252")
    assert ("decimal comma" in said) == comma
    assert ("left out" in said) == any(row < 4 for row in habits["empty_rows"])
    assert ("\\" in said) == habits["backslash"]


def remarks(study: Path) -> tuple[str, ...]:
    return load_study(study).remarks


def problems(study: Path) -> list[str]:
    with pytest.raises(StudyError) as error:
        load_study(study)
    return [str(problem) for problem in error.value.problems]


def test_what_is_said(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    write_table(study / "sessions.csv", TABLES["sessions"], separator=";", backslash=True, empty_rows=(2,))
    write_table(study / "stories.csv", TABLES["stories"], encoding="cp1252")
    write_table(study / "phases.csv", TABLES["phases"], separator="\t", decimal=",")
    assert not unlike(
        remarks(study),
        ("sessions.csv", "its columns are separated by"),
        ("from row 3 on", "an empty row is left"),
        ("from row 2 on", "paths with \\ between their"),
        ("phases.csv", "its columns are separated by"),
        ("from row 2 on", "numbers with a decimal comma"),
        ("stories.csv", "UTF-8", "line 2", "read as Windows-1252", "save it as UTF-8"),
    )


def test_rows_after_an_empty_one_keep_their_number_and_line(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    (study / "phases.csv").write_text("sep=;\nsession_id;phase;start_s;end_s\n;;;\ns1;talk;2;1\n")
    assert not unlike(
        problems(study), ("phases, row 3", "line 4", "end_s = '1.0'", "must be after start_s", "which is 2.0")
    )


# --- what may mean two things ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        (("1,500", "2,250"), "start_s"),  # thousands, in English
        (("1,5", "2.25"), "start_s"),  # a comma here, a point there
        (("1.234,5", "2"), "start_s"),  # both in one number
    ],
)
def test_commas_that_may_not_be_decimal_ones(tmp_path: Path, cells: tuple[str, str], column: str) -> None:
    study = write_study(tmp_path)
    (study / "phases.csv").write_text(f"session_id;phase;start_s;end_s\ns1;talk;{cells[0]};{cells[1]}\n")
    found = problems(study)
    assert found[0].startswith(f"phases, row 2, {column} = '{cells[0]}': ")
    assert "decimal point" in found[0] or "valid number" in found[0]


def test_a_decimal_comma_between_commas_is_refused_with_the_cure(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    (study / "phases.csv").write_text('session_id,phase,start_s,end_s\ns1,talk,"0,5",12\n')
    assert not unlike(problems(study), ("phases, row 2", "start_s = '0,5'", "is 0.5 meant?"))
    write_study(tmp_path)
    (study / "labels.csv").write_text('session_id,scheme,value\ns1,valence,"0,5"\n')
    assert not unlike(problems(study), ("labels, row 2", "value = '0,5'", "'valence'", "-1.5", "1.5"))


def test_a_comma_in_a_name_of_a_label_stays(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    (study / "schemes.csv").write_text("scheme;type\nnote;nominal\nvalence;interval\n")
    (study / "labels.csv").write_text("session_id;scheme;value\ns1;note;1,5\ns1;valence;1,5\n")
    assert [label.value for label in load_study(study).labels] == ["1,5", 1.5]


@pytest.mark.parametrize(
    "content",
    [
        "story_id,text\nst-1,über müde\n".encode("mac_roman"),
        "story_id,text\nst-1,über müde\n".encode("utf-16"),
        "story_id,text\nst-1,über\nst-2,".encode() + "müde\n".encode("cp1252"),  # both in one file
        "story_id,text\nst-1,これは\n".encode("shift_jis"),
        "story_id,text\nst-1,\x07ü\n".encode("cp1252"),
    ],
)
def test_letters_that_may_be_others_are_refused_with_the_cure(tmp_path: Path, content: bytes) -> None:
    study = write_study(tmp_path)
    (study / "stories.csv").write_bytes(content)
    (problem,) = problems(study)
    assert problem.endswith("save it as UTF-8")


@pytest.mark.parametrize(
    "cell", ["45413", "45413.4375", "45413,4375", "1.7e9", "1714550400", "01.05.2024", "05/01/2024", "0", "24-05-01"]
)
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_date_is_never_guessed_and_never_1970(tmp_path: Path, cell: str, separator: str) -> None:
    study = write_study(tmp_path)
    rows = [["session_id", "participant_id", "video", "recorded_at"], ["s1", "p1", "a.avi", cell]]
    write_table(study / "sessions.csv", rows, separator=separator)
    for table in ("phases", "labels"):
        (study / f"{table}.csv").unlink()
    (problem,) = problems(study)
    assert not missing(problem, "8601 writes", "2024-05-01T10:30")
    assert ("may be 2024-05-01 (or 2028-05-02, counted from 1904)" in problem) == cell.startswith("45413")


@pytest.mark.parametrize("value", [45413.4375, 45413, 1.7e9])
def test_a_date_of_parquet_is_never_1970_either(tmp_path: Path, value: float) -> None:
    study = write_study(tmp_path)
    sessions = pd.read_csv(study / "sessions.csv").assign(recorded_at=value)
    (study / "sessions.csv").unlink()
    sessions.to_parquet(study / "sessions.parquet")
    assert all("recorded_at" in problem and "ISO 8601" in problem for problem in problems(study))
    sessions.assign(recorded_at=pd.Timestamp("2024-05-01")).to_parquet(study / "sessions.parquet")
    assert load_study(study).sessions["s1"].recorded_at.year == 2024


@pytest.mark.parametrize(
    "path", ["C:\\videos\\b.avi", "..\\b.avi", "\\\\server\\b.avi", "videos\\absent.avi", "\\b.avi"]
)
def test_backslashes_that_lead_nowhere_are_refused_with_the_cure(tmp_path: Path, path: str) -> None:
    study = write_study(tmp_path)
    (tmp_path.parent / "b.avi").write_bytes(b"")
    rows = [["session_id", "participant_id", "video"], ["s1", "p1", path]]
    write_table(study / "sessions.csv", rows)
    for table in ("phases", "labels"):
        (study / f"{table}.csv").unlink()
    (problem,) = problems(study)
    assert not missing(problem, "write / between its folders")


def test_a_file_whose_name_has_a_backslash_is_not_taken_for_another(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    (study / "videos\\b.avi").write_bytes(b"")
    write_table(study / "sessions.csv", TABLES["sessions"], backslash=True)
    assert [problem.split(":")[0] for problem in problems(study)] == ["sessions, row 3, video = 'videos\\\\b.avi'"]


def test_a_row_that_is_too_long_or_too_short_stays_a_fault(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    (study / "phases.csv").write_text("session_id;phase;start_s;end_s;;\ns1;talk;0\ns1;a;1;2;;;\ns1;b;3;4\n")
    assert not unlike(
        problems(study),
        ("phases, row 2", "has 3 fields", "the header has 6"),
        ("phases, row 3", "has 7 fields", "the header has 6"),
    )


# --- curves ----------------------------------------------------------------------------------------------------------


def test_a_curve_with_a_spreadsheets_habits(tmp_path: Path) -> None:
    rows = [["time_s", "value"], ["0", "0.5"], ["0.04", "1.25"]]
    write_table(tmp_path / "c.csv", rows, separator=";", decimal=",", end="\r\n", empty_rows=(2,))
    samples = CurveSamples.read(tmp_path / "c.csv")
    np.testing.assert_array_equal(samples.time_s, [0, 0.04])
    np.testing.assert_array_equal(samples.value, [0.5, 1.25])
    assert len(samples.remarks) == 3
    (tmp_path / "c.csv").write_text('time_s,value\n0,"0,5"\n')
    with pytest.raises(CurveError, match=naming("row 2", "must be a finite number")):
        CurveSamples.read(tmp_path / "c.csv")


# --- the command -----------------------------------------------------------------------------------------------------


def test_check_says_how_tables_were_read_and_is_content(study_copy: Path) -> None:
    for table in ("phases", "sessions"):
        frame = pd.read_csv(study_copy / f"{table}.csv", dtype=str)
        frame.to_csv(study_copy / f"{table}.csv", index=False, sep=";")
    result = storyframes_here("check", study_copy)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("semicolons") == 2
    (study_copy / "ratings.csv").write_text("session_id,story_id,position,empathy\np01-s01,nowhere,1,4\n")
    result = storyframes_here("check", study_copy)
    assert result.returncode == 2
    assert result.stderr.count("semicolons") == 2


def test_a_study_of_videos_alone_is_valid_and_gives_clips(study_copy: Path, tmp_path: Path) -> None:
    for table in ("phases", "ratings", "stories", "surveys"):
        (study_copy / f"{table}.csv").unlink()
    (study_copy / "sessions.csv").write_text("video\nvideos/p01-s01.avi\n")
    result = storyframes_here("check", study_copy)
    assert result.returncode == 0, result.stderr
    assert "named after its video" in " ".join(result.stdout.split())
    result = storyframes_here("index", study_copy, "--out", tmp_path / "clips.parquet")
    assert result.returncode == 0, result.stderr
    clips = pd.read_parquet(tmp_path / "clips.parquet")
    assert set(clips["phase"]) == {"session"}
    assert clips["empathy"].isna().all()
