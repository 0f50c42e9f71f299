"""``import labels --yes --answers``: what is proposed for columns, what is kept of it, and what a second call does."""

from __future__ import annotations

from pathlib import Path

import pytest
from storyframes_labels.mapping import proposals
from storyframes_labels.read_annotations import read_annotations
from support.media.newcomer import write_sheet
from support.messages import missing
from typer.testing import CliRunner

from flows.cli.app import app
from tasks.study.labels import SchemeType
from tasks.study.load import load_study


@pytest.fixture
def answers(study: Path) -> Path:
    return study / "answers.txt"


def bring(sheet: Path, answers: Path) -> tuple[int, str]:
    words = ["import", "labels", str(sheet), "--to", str(answers.parent), "--yes", "--answers", str(answers)]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    return done.exit_code, done.output


def test_answers_are_found_again_as_spreadsheets_and_people_write_them(tmp_path: Path, answers: Path) -> None:
    """A wrapped header, blanks around the sign, a last line without its end; and a column that was empty at first."""
    header, study = ("File", "Empathy\n(0-100)", "Later"), answers.parent
    sheet = write_sheet(tmp_path / "r.xlsx", header, ("b.avi", 3, None))
    assert bring(sheet, answers)[0] == 0
    lines = ["File=@file", "Empathy (0-100)=empathy:interval:0..100"]
    assert answers.read_text().splitlines() == lines
    assert bring(sheet, answers)[0] == 0
    assert answers.read_text().splitlines() == lines
    (study / "labels.csv").unlink()
    (study / "schemes.csv").unlink()
    answers.write_text("\ufeffFile = @file\r\nEmpathy (0-100) = warmth:interval:0..100")
    assert bring(write_sheet(sheet, header, ("b.avi", 3, 4)), answers)[0] == 0
    assert {(label.scheme, label.value) for label in load_study(study).labels} == {("warmth", 3), ("later", 4)}
    assert answers.read_text("utf-8-sig").splitlines()[1:] == [
        "Empathy (0-100) = warmth:interval:0..100",
        "Later=later:interval",
    ]


@pytest.mark.parametrize("kept", [b"File=@file\nMood=mood:nominall\n", "Gefühl=skip\n".encode("latin-1")])
def test_a_wrong_answer_is_refused_with_the_file_to_correct(tmp_path: Path, answers: Path, kept: bytes) -> None:
    answers.write_bytes(kept)
    code, output = bring(write_sheet(tmp_path / "r.xlsx", ("File", "Mood"), ("b.avi", "glad")), answers)
    assert code == 2
    assert not missing(output, str(answers))
    assert answers.read_bytes() == kept


def test_a_column_of_persons_is_left_out_of_a_study_that_names_none(tmp_path: Path, answers: Path) -> None:
    sheet = write_sheet(tmp_path / "r.xlsx", ("File", "Subject", "Mood"), ("b.avi", "S7", "glad"))
    assert bring(sheet, answers)[0] == 0
    assert {(label.scheme, label.value) for label in load_study(answers.parent).labels} == {("mood", "glad")}


def test_labels_of_a_file_are_of_the_recording_that_joins_it(tmp_path: Path, answers: Path) -> None:
    """Times of a later file count from another second than the recording's."""
    sessions = answers.parent / "sessions.csv"
    sessions.write_text("session_id,participant_id,video\ns1,p1,m/x_part1.mkv+x_part2.mkv\n")
    sheet = write_sheet(tmp_path / "r.xlsx", ("File", "Mood"), ("x_part1.mkv", 3))
    assert bring(sheet, answers)[0] == 0
    sheet = write_sheet(tmp_path / "t.xlsx", ("File", "Start_s", "End_s", "Gaze"), ("x_part2.mkv", 0, 1, "away"))
    code, output = bring(sheet, answers)
    assert code == 2
    assert not missing(output, "x_part2.mkv", "s1", "--offset")
    assert [(label.session_id, label.value) for label in load_study(answers.parent).labels] == [("s1", 3)]


def test_a_file_of_the_name_of_another_session_s_later_file_has_its_own_times(tmp_path: Path, answers: Path) -> None:
    rows = "s1,p1,d1/am.mp4+pm.mp4\ns2,p2,d2/pm.mp4\n"
    (answers.parent / "sessions.csv").write_text(f"session_id,participant_id,video\n{rows}")
    for folder, code in (("d2", 0), ("d1", 2)):
        header, row = ("File", "Start_s", "End_s", "Gaze"), (f"{folder}/pm.mp4", 0, 1, "away")
        assert bring(write_sheet(tmp_path / f"{folder}.xlsx", header, row), answers)[0] == code
    assert [label.session_id for label in load_study(answers.parent).labels] == ["s2"]


def test_two_columns_are_not_one_scheme(tmp_path: Path, answers: Path) -> None:
    long = "How much did you feel that the other person understood what you were telling them "
    header = ("File", "Empathy (1-5)", "empathy", "empathy 2", "共感", "不安", f"{long}then", f"{long}now")
    assert bring(write_sheet(tmp_path / "r.xlsx", header, ("b.avi", 1, 2, 3, 4, 5, 6, 7)), answers)[0] == 0
    labels = load_study(answers.parent).labels
    assert [(label.value, label.rater_id) for label in labels] == [(value, None) for value in range(1, 8)]
    assert len({label.scheme for label in labels}) == 7


def test_what_somebody_said_is_proposed_as_private_text(tmp_path: Path, answers: Path) -> None:
    rows = [("b.avi", "I think that she listened", "glad")]
    assert bring(write_sheet(tmp_path / "r.xlsx", ("File", "Comment", "Mood"), *rows), answers)[0] == 0
    schemes = load_study(answers.parent).schemes
    assert (schemes["comment"].type, schemes["comment"].private) == (SchemeType.TEXT, True)
    assert schemes["mood"].type is SchemeType.NOMINAL
    words = tmp_path / "words.csv"
    words.write_text("start_s,end_s,word\n" + "".join(f"{n},{n + 1},w{n}\n" for n in range(60)))
    assert proposals([read_annotations(words)], ["word"]) == {"word": "word:text"}


def test_labels_that_the_study_has_are_known_however_their_table_was_saved(tmp_path: Path, answers: Path) -> None:
    sheet, table = tmp_path / "b.csv", answers.parent / "labels.csv"
    sheet.write_text("start_s,end_s,gaze\n0.5,1.5,away\n")
    assert bring(sheet, answers)[0] == 0
    header, row = table.read_text().splitlines()
    rows = f"{header},note\n{row.replace('1.5', '1.50')},mine\n"
    table.write_text(rows)
    code, output = bring(sheet, answers)
    assert (code, table.read_text()) == (0, rows), output
    table.write_text(rows.replace(",", ";"))
    code, output = bring(sheet, answers)
    assert code == 2
    assert not missing(output, "labels.csv", "semicolon")


def test_a_rating_that_was_corrected_is_no_second_one(tmp_path: Path, answers: Path) -> None:
    sheet = tmp_path / "r.csv"
    sheet.write_text("File,Rater,Warmth\nb.avi,Kim,3\n")
    assert bring(sheet, answers)[0] == 0
    rows = (answers.parent / "labels.csv").read_text()
    sheet.write_text("File,Rater,Warmth\nb.avi,Kim,4\n")
    code, output = bring(sheet, answers)
    assert (code, (answers.parent / "labels.csv").read_text()) == (2, rows)
    assert not missing(output, "twice", "Warmth")
