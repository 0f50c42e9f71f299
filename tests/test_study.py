from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from storyframes.study import StudyError, load_study


def rewrite(study: Path, table: str, **cells: object) -> None:
    """Set cells of the table's first row."""
    frame = pd.read_csv(study / f"{table}.csv", dtype=str)
    for column, value in cells.items():
        frame.loc[0, column] = value
    frame.to_csv(study / f"{table}.csv", index=False)


def problems(study: Path) -> list[str]:
    with pytest.raises(StudyError) as error:
        load_study(study)
    return [str(problem) for problem in error.value.problems]


def test_the_demo_study_is_valid(demo_study: Path) -> None:
    study = load_study(demo_study)
    assert list(study.sessions) == ["p01-s01", "p01-s02", "p02-s01"]
    assert len(study.phases) == 15
    assert len(study.ratings) == 9
    assert len(study.stories) == 6
    assert len(study.surveys) == 26
    assert study.sessions["p01-s01"].recorded_at.year == 2024


def test_parquet_tables_give_the_same_study(study_copy: Path) -> None:
    from_csv = load_study(study_copy)
    for table in ("sessions", "phases", "ratings", "stories", "surveys"):
        pd.read_csv(study_copy / f"{table}.csv").to_parquet(study_copy / f"{table}.parquet")
        (study_copy / f"{table}.csv").unlink()
    assert load_study(study_copy) == from_csv


def test_both_forms_of_a_table_are_ambiguous(study_copy: Path) -> None:
    pd.read_csv(study_copy / "phases.csv").to_parquet(study_copy / "phases.parquet")
    assert problems(study_copy) == ["phases: is there both as .csv and as .parquet: keep one"]


def test_only_the_sessions_are_required(study_copy: Path) -> None:
    for table in ("phases", "ratings", "stories", "surveys"):
        (study_copy / f"{table}.csv").unlink()
    assert len(load_study(study_copy).sessions) == 3
    (study_copy / "sessions.csv").unlink()
    assert problems(study_copy) == ["sessions: there is no sessions.csv or sessions.parquet: every study has one"]


def test_all_problems_come_in_one_report_with_table_row_column_value_and_rule(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", video="videos/absent.avi")
    rewrite(study_copy, "phases", end_s="-1")
    rewrite(study_copy, "ratings", empathy="6")
    rewrite(study_copy, "surveys", timepoint="later")
    assert problems(study_copy) == [
        "sessions, row 1, video = 'videos/absent.avi': the file does not exist",
        "phases, row 1, end_s = '-1': Input should be greater than or equal to 0",
        "ratings, row 1, empathy = '6': Input should be less than or equal to 5",
        "surveys, row 1, timepoint = 'later': Input should be 'pre', 'mid' or 'post'",
    ]


@pytest.mark.parametrize("name", ["../p01", "a b", "-x", ".x", "x" * 65, "s/1", "s\n1", "ü"])
def test_unsafe_ids_are_refused(study_copy: Path, name: str) -> None:
    rewrite(study_copy, "sessions", session_id=name)
    assert any("session_id" in problem and "an id has letters" in problem for problem in problems(study_copy))


def test_the_name_of_the_stories_is_reserved(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", session_id="stories")
    assert any("'stories' is reserved" in problem for problem in problems(study_copy))


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.avi", "videos/../../secret.avi", "videos\\a.avi"])
def test_paths_never_leave_the_study(study_copy: Path, path: str) -> None:
    rewrite(study_copy, "sessions", video=path)
    (problem,) = problems(study_copy)
    assert "a path is relative to the study folder and never leaves it" in problem


def test_symbolic_links_never_leave_the_study(study_copy: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.avi"
    outside.write_bytes(b"x")
    (study_copy / "videos/link.avi").symlink_to(outside)
    rewrite(study_copy, "sessions", video="videos/link.avi")
    (problem,) = problems(study_copy)
    assert "leaves the study folder through a symbolic link" in problem


def test_a_folder_is_not_a_video(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", video="videos")
    assert problems(study_copy) == ["sessions, row 1, video = 'videos': is not a file"]


def test_duplicates_name_each_other(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", session_id="p01-s02")
    found = problems(study_copy)
    assert "sessions, row 1, session_id = 'p01-s02': must be unique, but row 2 has the same session_id" in found
    assert "sessions, row 2, session_id = 'p01-s02': must be unique, but row 1 has the same session_id" in found


def test_phases_that_overlap_or_run_backwards(study_copy: Path) -> None:
    phases = pd.read_csv(study_copy / "phases.csv")
    phases.loc[1, "start_s"] = 1.5
    phases.loc[6, ["start_s", "end_s"]] = [12.0, 2.0]
    phases.to_csv(study_copy / "phases.csv", index=False)
    assert problems(study_copy) == [
        "phases, row 2, start_s = '1.5': overlaps row 1 ('warm_up' of p01-s01 ends at 2.0)",
        "phases, row 7, end_s = '2.0': must be after start_s, which is 12.0",
    ]


def test_phases_that_touch_do_not_overlap(demo_study: Path) -> None:
    assert load_study(demo_study).phases[1].start_s == load_study(demo_study).phases[0].end_s


def test_ratings_of_unknown_stories_and_sessions(study_copy: Path) -> None:
    rewrite(study_copy, "ratings", story_id="st-nowhere", session_id="p09-s01")
    assert problems(study_copy) == [
        "ratings, row 1, session_id = 'p09-s01': is not in the table 'sessions'",
        "ratings, row 1, story_id = 'st-nowhere': is not in the table 'stories'",
    ]


def test_two_ratings_for_one_position(study_copy: Path) -> None:
    rewrite(study_copy, "ratings", position="2")
    assert any("must be unique, but row 2 has the same session_id and position" in p for p in problems(study_copy))


def test_a_misspelt_column_is_noticed(study_copy: Path) -> None:
    frame = pd.read_csv(study_copy / "sessions.csv").rename(columns={"transcript": "transcripts"})
    frame.to_csv(study_copy / "sessions.csv", index=False)
    assert problems(study_copy) == ["sessions: the column 'transcripts' is unknown: is 'transcript' meant?"]


def test_a_missing_column_is_named_once(study_copy: Path) -> None:
    pd.read_csv(study_copy / "phases.csv").drop(columns="end_s").to_csv(study_copy / "phases.csv", index=False)
    assert problems(study_copy) == ["phases: the column 'end_s' is missing"]


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "two", ""])
def test_times_are_finite_numbers(study_copy: Path, value: str) -> None:
    rewrite(study_copy, "phases", end_s=value)
    assert len(problems(study_copy)) == 1


def test_a_storys_text_is_never_in_a_problem(study_copy: Path) -> None:
    frame = pd.read_csv(study_copy / "stories.csv")
    frame["story_id"] = "same"
    frame.to_csv(study_copy / "stories.csv", index=False)
    (study_copy / "ratings.csv").unlink()
    assert "grandfather" not in "\n".join(problems(study_copy))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00garbage\x81", b'session_id,"unclosed\n'])
def test_an_unreadable_table_is_a_problem(study_copy: Path, content: bytes) -> None:
    (study_copy / "sessions.csv").write_bytes(content)
    assert problems(study_copy)


def test_a_damaged_parquet_table_is_a_problem(study_copy: Path) -> None:
    (study_copy / "phases.csv").unlink()
    (study_copy / "phases.parquet").write_bytes(b"PAR1 nothing PAR1")
    (problem,) = problems(study_copy)
    assert problem.startswith("phases: phases.parquet cannot be read")


def test_files_need_not_exist_where_only_the_tables_are_used(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", video="videos/absent.avi")
    assert load_study(study_copy, check_files=False).sessions["p01-s01"].video == "videos/absent.avi"


def test_participants_may_have_columns_of_their_own(study_copy: Path) -> None:
    (study_copy / "participants.csv").write_text("participant_id,age,instrument\np01,31,cello\np02,40,\n")
    study = load_study(study_copy)
    assert study.participants[0].model_extra == {"age": "31", "instrument": "cello"}
    (study_copy / "participants.csv").write_text("participant_id,age\np01,31\n")
    assert "sessions, row 3, participant_id = 'p02': is not in the table 'participants'" in problems(study_copy)


def test_an_unreadable_file_is_a_problem_not_a_crash(study_copy: Path) -> None:
    os.symlink("loop.avi", study_copy / "videos/loop.avi")
    rewrite(study_copy, "sessions", video="videos/loop.avi")
    (problem,) = problems(study_copy)
    assert "cannot be reached" in problem
