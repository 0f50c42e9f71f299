from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from support.messages import missing, naming, unlike
from support.work import grows_in_proportion

from tasks.study.load import StudyError, StudyFileError, load_study, read_study


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
    assert not unlike(problems(study_copy), ("csv", "parquet"))


def test_only_the_sessions_are_required(study_copy: Path) -> None:
    for table in ("phases", "ratings", "stories", "surveys"):
        (study_copy / f"{table}.csv").unlink()
    assert len(load_study(study_copy).sessions) == 3
    (study_copy / "sessions.csv").unlink()
    assert not unlike(problems(study_copy), ("sessions.csv", "sessions.parquet"))


def test_all_problems_come_in_one_report_with_table_row_column_value_and_rule(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", video="/absent.avi")
    rewrite(study_copy, "phases", end_s="-1")
    rewrite(study_copy, "ratings", empathy="6")
    rewrite(study_copy, "surveys", timepoint="two weeks later")
    assert not unlike(
        problems(study_copy),
        ("sessions, row 2", "video = '/absent.avi'"),
        ("phases, row 2", "end_s = '-1'"),
        ("ratings, row 2", "empathy = '6'"),
        ("surveys, row 2", "timepoint = (15 characters)", "'.'", "'_'", "'-'", "most 64"),
    )


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
    assert not missing(problem, "a path is relative to")


def test_symbolic_links_never_leave_the_study(study_copy: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.avi"
    outside.write_bytes(b"x")
    (study_copy / "videos/link.avi").symlink_to(outside)
    rewrite(study_copy, "sessions", video="videos/link.avi")
    with pytest.raises(StudyFileError, match=naming("videos/link.avi", "leaves the study folder through")):
        load_study(study_copy).path("videos/link.avi")


def test_a_folder_is_not_a_video(study_copy: Path) -> None:
    with pytest.raises(StudyFileError, match=r"^videos: is not a file$"):
        load_study(study_copy).path("videos")


def test_duplicates_name_each_other(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", session_id="p01-s02")
    found = problems(study_copy)
    assert any(not missing(one, "sessions, row 2", "session_id = 'p01-s02'", "row 3", "session_id") for one in found)
    assert sum("sessions" in problem and "unique" in problem for problem in found) == 1


def test_phases_that_overlap_or_run_backwards(study_copy: Path) -> None:
    phases = pd.read_csv(study_copy / "phases.csv")
    phases.loc[1, "start_s"] = 1.5
    phases.loc[6, ["start_s", "end_s"]] = [12.0, 2.0]
    phases.to_csv(study_copy / "phases.csv", index=False)
    assert not unlike(
        problems(study_copy),
        ("phases, row 3", "start_s = '1.5'", "row 2", "'warm_up'", "p01-s01", "2.0"),
        ("phases, row 8", "end_s = '2.0'", "must be after start_s", "which is 12.0"),
    )


def test_phases_that_touch_do_not_overlap(demo_study: Path) -> None:
    assert load_study(demo_study).phases[1].start_s == load_study(demo_study).phases[0].end_s


def test_ratings_of_unknown_stories_and_sessions(study_copy: Path) -> None:
    rewrite(study_copy, "ratings", story_id="st-nowhere", session_id="p09-s01")
    assert not unlike(
        problems(study_copy),
        ("ratings, row 2", "session_id = 'p09-s01'", "'sessions'"),
        ("ratings, row 2", "story_id = 'st-nowhere'", "'stories'"),
    )


def test_two_ratings_for_one_position(study_copy: Path) -> None:
    rewrite(study_copy, "ratings", position="2")
    assert any("must be unique, but row 3 has the same session_id and position" in p for p in problems(study_copy))


def test_a_misspelt_column_is_noticed(study_copy: Path) -> None:
    frame = pd.read_csv(study_copy / "sessions.csv").rename(columns={"transcript": "transcripts"})
    frame.to_csv(study_copy / "sessions.csv", index=False)
    assert not unlike(problems(study_copy), ("'transcripts'", "'transcript'"))


def test_a_missing_column_is_named_once(study_copy: Path) -> None:
    pd.read_csv(study_copy / "phases.csv").drop(columns="end_s").to_csv(study_copy / "phases.csv", index=False)
    assert not unlike(problems(study_copy), ("'end_s'", "the column"))


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "two", "", "1_4", "14,5", "0x10", "True"])
def test_times_are_finite_numbers(study_copy: Path, value: str) -> None:
    rewrite(study_copy, "phases", end_s=value)
    assert len(problems(study_copy)) == 1


@pytest.mark.parametrize("value", ["20240501", "1714550400", "-5", "May 2024"])
def test_a_date_is_no_number_of_seconds(study_copy: Path, value: str) -> None:
    rewrite(study_copy, "sessions", recorded_at=value)
    assert len(problems(study_copy)) == 1


@pytest.mark.parametrize("value", ["2024-05-01", "2024-05-01T10:30", "2024-05-01 10:30:00+02:00"])
def test_dates_as_iso_8601_writes_them(study_copy: Path, value: str) -> None:
    rewrite(study_copy, "sessions", recorded_at=value)
    assert load_study(study_copy).sessions["p01-s01"].recorded_at.year == 2024


@pytest.mark.parametrize(
    ("value", "code"), [("fr", "fr"), ("EN-us", "en"), ("yue", "yue"), ("pt_BR", "pt"), ("", None)]
)
def test_a_language_is_its_code_without_the_country(study_copy: Path, value: str, code: str | None) -> None:
    rewrite(study_copy, "sessions", language=value)
    study = load_study(study_copy)
    assert (study.sessions["p01-s01"].language, study.tracks["p01-s01"]["main"].language) == (code, code)


@pytest.mark.parametrize("value", ["English", "e", "1", "en fr"])
def test_a_language_is_not_a_word(study_copy: Path, value: str) -> None:
    rewrite(study_copy, "sessions", language=value)
    assert not missing(problems(study_copy)[0], "sessions, row 2", "language", "ISO 639")


def test_parquet_columns_of_yes_and_no_are_no_ratings(study_copy: Path) -> None:
    ratings = pd.read_csv(study_copy / "ratings.csv").assign(empathy=True)
    (study_copy / "ratings.csv").unlink()
    ratings.to_parquet(study_copy / "ratings.parquet")
    assert not missing(problems(study_copy)[0], "ratings, row 2", "empathy = 'True'")


def test_a_number_is_in_digits_as_a_spreadsheet_writes_it(study_copy: Path) -> None:
    rewrite(study_copy, "ratings", empathy="1_5")  # Python reads 15
    assert not missing(problems(study_copy)[0], "ratings, row 2", "empathy = '1_5'")


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
    assert load_study(study_copy).sessions["p01-s01"].video == "videos/absent.avi"


def test_participants_may_have_columns_of_their_own(study_copy: Path) -> None:
    (study_copy / "participants.csv").write_text("participant_id,age,instrument\np01,31,cello\np02,40,\n")
    study = load_study(study_copy)
    assert study.participants[0].model_extra == {"age": "31", "instrument": "cello"}
    (study_copy / "participants.csv").write_text("participant_id,age\np01,31\n")
    assert any(
        not missing(one, "sessions, row 4", "participant_id = 'p02'", "'participants'") for one in problems(study_copy)
    )


def test_an_unreadable_file_is_a_problem_not_a_crash(study_copy: Path) -> None:
    os.symlink("loop.avi", study_copy / "videos/loop.avi")
    with pytest.raises(StudyFileError, match="cannot be reached"):
        load_study(study_copy).path("videos/loop.avi")


# --- every problem at once -------------------------------------------------------------------------------------------


def test_a_missing_column_hides_no_other_problem(study_copy: Path) -> None:
    sessions = pd.read_csv(study_copy / "sessions.csv").drop(columns="participant_id")
    sessions.loc[0, "video"] = "../x.avi"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    (study_copy / "surveys.csv").unlink()
    assert not unlike(
        problems(study_copy), ("'participant_id'", "the column"), ("sessions, row 2", "video = '../x.avi'")
    )


def test_an_unreadable_table_is_not_reported_again_by_those_that_refer_to_it(study_copy: Path) -> None:
    (study_copy / "sessions.csv").write_bytes(b"\xff\xfe")
    assert not unlike(problems(study_copy), ("sessions.csv cannot be read", "line 1", "UTF-8", "save it as UTF-8"))


def test_files_are_known_also_of_rows_with_other_faults(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", session_id="a b", video="videos/absent.avi")
    assert read_study(study_copy).files[0][0].relative == "videos/absent.avi"


def test_a_row_with_one_fault_still_has_its_references_checked(study_copy: Path) -> None:
    rewrite(study_copy, "ratings", empathy="9", story_id="st-nowhere")
    assert not unlike(
        problems(study_copy),
        ("ratings, row 2", "empathy = '9'"),
        ("ratings, row 2", "story_id = 'st-nowhere'", "'stories'"),
    )


# --- ids that are folders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    "catalogue.parquet clips.parquet checksums.json inputs.json study.json zarr.json Zarr.JSON later.json x.lock x.tmp "
    "stories Stories STORIES CON con nul NUL.s1 aux.1.2 com1 LPT9 prn s1.".split(),
)
def test_session_ids_that_cannot_be_folders_are_refused(study_copy: Path, name: str) -> None:
    rewrite(study_copy, "sessions", session_id=name)
    assert any(f"session_id = '{name}'" in problem for problem in problems(study_copy) if "sessions," in problem)


def test_session_ids_like_them_are_not() -> None:
    from storyframes.store.layout import why_no_session

    for name in ("console", "s.json.1", "auxiliary", "com10", "nul-1", "stories-1", "p01.s01", "lock", "json"):
        assert not why_no_session(name), name


def test_every_file_at_the_top_of_a_store_is_a_name_that_no_session_can_have() -> None:
    from storyframes.store import layout

    names = [
        value for value in vars(layout).values() if isinstance(value, str) and value.endswith((".json", ".parquet"))
    ]
    assert {layout.CATALOGUE, layout.CLIPS, layout.STUDY, layout.ZARR_JSON} <= set(names)
    assert all(layout.why_no_session(name) for name in names)


def test_session_ids_that_differ_in_case_only(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", session_id="P01-S02")
    assert any(not missing(one, "sessions, row 2", "session_id = 'P01-S02'", "row 3") for one in problems(study_copy))


# --- what is there and not read --------------------------------------------------------------------------------------


def test_a_second_column_of_a_kind_is_said_not_to_be_read(study_copy: Path) -> None:
    sessions = pd.read_csv(study_copy / "sessions.csv").assign(video2="videos/other.avi", notes="x")
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    assert load_study(study_copy).unread["sessions"] == ("video2", "notes")


@pytest.mark.parametrize("table", ["sessions", "phases", "ratings", "stories", "surveys", "participants"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_that_is_a_link_to_nothing_is_a_problem(study_copy: Path, table: str, suffix: str) -> None:
    (study_copy / f"{table}.csv").unlink(missing_ok=True)
    (study_copy / f"{table}{suffix}").symlink_to("nowhere")
    assert f"{table}: {table}{suffix} is a link to nothing" in problems(study_copy)


def test_a_table_that_is_a_folder_or_named_in_capitals_is_a_problem(study_copy: Path) -> None:
    (study_copy / "ratings.csv").rename(study_copy / "Ratings.CSV")
    (study_copy / "phases.csv").unlink()
    (study_copy / "phases.parquet").mkdir()
    assert not unlike(
        problems(study_copy), ("phases.parquet", "is not a file"), ("name it ratings.csv", "CSV is not read")
    )


def test_a_link_to_a_table_is_read(study_copy: Path, tmp_path: Path) -> None:
    (study_copy / "ratings.csv").rename(tmp_path / "elsewhere.csv")
    (study_copy / "ratings.csv").symlink_to(tmp_path / "elsewhere.csv")
    assert len(load_study(study_copy).ratings) == 9


# --- what a problem shows --------------------------------------------------------------------------------------------

SECRET = "my grandfather died in the garden"


@pytest.mark.parametrize("column", ["session_id", "participant_id", "recorded_at", "video", "transcript"])
def test_a_text_in_a_column_of_the_sessions_is_not_shown(study_copy: Path, column: str) -> None:
    rewrite(study_copy, "sessions", **{column: f"/{SECRET}"})
    found = problems(study_copy)
    assert found
    assert not any("garden" in problem for problem in found)
    assert any(f"{column} = ({len(SECRET) + 1} characters)" in problem for problem in found)


@pytest.mark.parametrize(
    "content",
    [
        f"story_id,text\nst-1,Once upon a time\n{SECRET}\n",  # an unquoted line break
        f"story_id,text\nst-1,Once upon a time\n{SECRET}, and then\n",
        f"story_id,text\n{SECRET},st-1\n",  # swapped
        f"text,story_id\nst-1,{SECRET}\n",
        f'story_id,text\nst-1,"{SECRET}\n',  # never closed
        f'story_id,text\nst-1,"{SECRET}" he said\n',
        f'story_id,text\nst-1,he said "{SECRET}"\n',
        f"st-1,{SECRET}\n",  # no header
        f'story_id,text\nst-1,"{SECRET}"\nst-1,"{SECRET}"\n',
        f"story_id,text,\x1b[31m{SECRET}\nst-1,,\n",
    ],
)
def test_a_story_is_never_in_a_problem_however_the_table_is_broken(study_copy: Path, content: str) -> None:
    (study_copy / "stories.csv").write_text(content)
    (study_copy / "ratings.csv").unlink()
    found = "\n".join(problems(study_copy))
    assert found
    assert not {"grandfather", "garden", "Once", "died"} & set(found.replace("'", " ").split())


def test_what_is_shown_is_cut_and_escaped(study_copy: Path) -> None:
    rewrite(study_copy, "sessions", video="../\x1b]0;x\u202e" + "y" * 300)
    (problem,) = problems(study_copy)
    assert "\\x1b]0;x\\u202eyyy" in problem
    assert len(problem) < 200
    assert problem.isprintable()


# --- many problems ---------------------------------------------------------------------------------------------------


def write_ratings(study: Path, rows: list[str]) -> None:
    (study / "ratings.csv").write_text("\n".join(["session_id,story_id,position,empathy", *rows]) + "\n")


def test_thousands_of_a_kind_are_counted_and_the_first_shown(study_copy: Path) -> None:
    write_ratings(study_copy, ["p01-s01,st-garden,1,4"] * 8000 + ["p01-s01,st-garden,1,9"] * 500)
    with pytest.raises(StudyError) as error:
        load_study(study_copy)
    message = str(error.value)
    assert len(error.value.problems) == 502  # one for each pair of columns that must be unique, one for each bad value
    assert not missing(message, "but rows 3", "7994 more", "session_id")
    assert not missing(message, "480 more", "row 8501")
    assert len(message) < 6000


def refuse(study: Path) -> None:
    with pytest.raises(StudyError):
        load_study(study)


def test_checking_duplicates_takes_work_in_proportion_to_the_rows(study_copy: Path) -> None:
    def checking(rows: int) -> Callable[[], object]:
        write_ratings(study_copy, ["p01-s01,st-garden,1,4"] * rows)
        return lambda: refuse(study_copy)

    assert grows_in_proportion(checking, 100)


# --- one session's own -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end_s", ["1700000000000", "1700000000", "86400.5", "1e300"])
def test_a_session_whose_phases_cannot_be_seconds_is_excluded_by_name(study_copy: Path, end_s: str) -> None:
    phases = pd.read_csv(study_copy / "phases.csv", dtype=str)
    phases.loc[4, "end_s"] = end_s
    phases.to_csv(study_copy / "phases.csv", index=False)
    reading = read_study(study_copy)
    assert reading.problems == []
    (reason,) = reading.study.excluded.values()
    assert list(reading.study.excluded) == ["p01-s01"]
    assert not missing(reason, "phases, row 6", f"end_s = '{float(end_s)}'")
    assert [str(problem) for problem in reading.session_problems] == [reason]
