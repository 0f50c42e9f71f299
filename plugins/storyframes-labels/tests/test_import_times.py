"""Times as programs and spreadsheets write them, ELAN's exports, and files that are of another recording."""

from __future__ import annotations

import datetime
from pathlib import Path

import openpyxl
import pytest
from annotation_programs import a_tier, by_hand, found
from storyframes_labels.annotation_file import AnnotationFile, ImportFaultError
from storyframes_labels.clock_times import clock_seconds, is_clock_time
from storyframes_labels.import_labels import Import, Imported, import_labels
from storyframes_labels.mapping import Role
from storyframes_labels.read_annotations import read_all
from support.messages import missing

from tasks.study.load import load_study


def read(path: Path, unit: str | None = None, **times: str) -> AnnotationFile:
    return read_all([path], [], {Role(role): column for role, column in times.items()}, unit=unit)[0][0]


def refused(path: Path, unit: str | None = None, **times: str) -> str:
    with pytest.raises(ImportFaultError) as error:
        read(path, unit, **times)
    return str(error.value)


def bring(study: Path, path: Path, *pairs: str, **options: object) -> Imported:
    files, targets = read_all([path], pairs, {})
    return import_labels(files, Import(targets=targets, **options), study)


def why_not(study: Path, path: Path, *pairs: str, **options: object) -> str:
    with pytest.raises(ImportFaultError) as error:
        bring(study, path, *pairs, **options)
    assert not (study / "labels.csv").exists()
    return str(error.value)


def labels(study: Path) -> list[tuple[object, ...]]:
    return [(one.session_id, one.value, one.start_s, one.end_s, one.person_id) for one in load_study(study).labels]


# --- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:00:01.5", 1.5),
        ("01:02:03,25", 3723.25),
        ("1:02", 62.0),
        ("75:00", 4500.0),
        ("-00:00:05.000", -5.0),
        ("-0:01", -1.0),
        ("25:00:00", 90000.0),
    ],
)
def test_a_time_of_a_clock_is_its_seconds(text: str, seconds: float) -> None:
    assert clock_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "1.5", "1:60", "1:60:00", "00:00:01:12", "a:b", "1:2:3:4", ":5", "1:-5"])
def test_what_is_no_time_of_a_clock(text: str) -> None:
    assert not is_clock_time(text)
    with pytest.raises(ValueError, match="hh:mm:ss"):
        clock_seconds(text)


def test_a_sheet_s_clock_times_need_no_unit(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("onset,offset,mood\n00:00:01.5,0:00:02,glad\n,,sad\n1:00:00,01:00:03.25,sad\n")
    file = read(path, start="onset", end="offset")
    assert found(file) == [("mood", "glad", 1.5, 2.0), ("mood", "sad", None, None), ("mood", "sad", 3600.0, 3603.25)]
    assert (file.unit, file.remarks) == ("hours:minutes:seconds", ())
    path.write_text("start_s,end_s,mood\n00:00:01,2.5,glad\n")
    assert found(read(path)) == [("mood", "glad", 1.0, 2.5)]
    path.write_text("onset,offset,mood\n00:00:01,2.5,glad\n")
    assert "in which unit" in refused(path, start="onset", end="offset")
    assert missing(refused(path, "ms", start="onset", end="offset"), "row 2, onset") == []
    path.write_text("onset,offset,mood\n00:00:01:12,00:00:02:00,glad\n")
    assert missing(refused(path, "s", start="onset", end="offset"), "row 2, onset", "frames") == []


def test_times_of_two_parts_are_minutes_and_seconds_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("onset,offset,mood\n0:00:58,1:02,glad\n")
    file = read(tmp_path / "x.csv", start="onset", end="offset")
    assert found(file) == [("mood", "glad", 58.0, 62.0)]
    assert missing(file.remarks, "row 2, offset", "minutes:seconds") == []


def test_excel_s_time_cells_are_the_times_that_they_show(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    cells = [
        (datetime.time(0, 1, 2, 500_000), "mm:ss.0"),
        (datetime.time(0, 0, 3), "h:mm:ss"),
        (datetime.timedelta(hours=25, seconds=1), "[h]:mm:ss"),
        (datetime.time(1, 2), "h:mm"),
    ]
    book.active.append(["onset", "mood"])
    for number, (value, form) in enumerate(cells, start=2):
        book.active.append([value, "glad"])
        book.active.cell(number, 1).number_format = form
    book.save(tmp_path / "x.xlsx")
    file = read(tmp_path / "x.xlsx", time="onset")
    assert [start_s for _, _, start_s, _ in found(file)] == [62.5, 3.0, 90001.0, 62.0]
    assert missing(file.remarks, "row 5, onset", "minutes:seconds") == []


def test_a_point_before_three_digits_between_semicolons_is_said_to_be_one(tmp_path: Path, study: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("session_id;level\ns1;1.500\ns2;12.250\n")
    made = read(path)
    assert [value for _, value, _, _ in found(made)] == ["1.500", "12.250"]
    assert missing(made.remarks, "level", "row 2", "1.500", "1.5,") == []
    for other in (
        "session_id;level\ns1;1.500\ns2;12.25\n",
        "session_id,level\ns1,1.500\n",
        "session_id;level\ns1;0.500\n",
    ):
        path.write_text(other)
        assert not any("thousands" in remark for remark in read(path).remarks)
    (study / "schemes.csv").write_text("scheme;type;max\nlevel;interval;1.500\n")
    assert missing(load_study(study).remarks, "schemes", "max", "row 2", "1.500") == []


# --- ELAN's exports --------------------------------------------------------------------------------------------------

HEADER = "\t".join(
    f"{what} - {form}" for what in ("Temps de départ", "Temps final", "Durée") for form in ("hh:mm:ss.ms", "ss.msec")
)
BY_COLUMN = (
    f"{HEADER}\tgaze\tmood - passive\n"
    "00:00:01.500\t1.5\t00:00:02.000\t2.0\t00:00:00.500\t0.5\taway\tsad\n"
    '00:00:02.000\t2.0\t00:01:02.250\t62.25\t00:01:00.250\t60.25\t\tglad "now\n\n'
)


def test_an_export_of_elan_with_a_column_for_each_tier(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(BY_COLUMN)
    file = read(tmp_path / "x.txt")
    assert found(file) == [
        ("gaze", "away", 1.5, 2.0),
        ("mood - passive", "sad", 1.5, 2.0),
        ("mood - passive", 'glad "now', 2.0, 62.25),
    ]
    assert file.annotations[2].place == "row 3, mood - passive"


def test_an_export_of_elan_with_a_row_for_each_annotation(tmp_path: Path, study: Path) -> None:
    media = '"#file:///home/x/a.avi -- offset: 0"\n\n'
    path = tmp_path / "x.txt"
    path.write_text(
        media + "gaze\tAnna\t00:00:01.500\t1500\t00:00:02.000\t2000\t00:00:00.500\t500\taway\n"
        "gaze\tBen\t00:00:03.000\t3000\t00:00:04.000\t4000\t00:00:01.000\t1000\t\n"
        "nod\t\t00:00:05.000\t5000\t00:00:05.250\t5250\t00:00:00.250\t250\tyes\n"
    )
    bring(study, path, "gaze=gaze:nominal", "nod=nod:nominal")
    assert labels(study) == [("s1", "away", 1.5, 2.0, "Anna"), ("s1", "yes", 5.0, 5.25, None)]
    path.write_text("gaze\t00:00:01.500\t00:00:02.000\taway\ts2.eaf\n")
    assert found(read(path)) == [("gaze", "away", 1.5, 2.0)]
    assert read(path).annotations[0].file == "s2.eaf"
    (tmp_path / "x.csv").write_text('"gaze","00:00:01.500","00:00:02.000","a, b"\n')
    assert found(read(tmp_path / "x.csv")) == [("gaze", "a, b", 1.5, 2.0)]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("00:00:01.500\t00:00:02.000\taway\n", ("row 1", "tier names")),
        ("gaze\t00:00:01.500\t00:00:02.000\t00:00:01.500\taway\n", ("row 1", "duration")),
        ("gaze\t00:00:01.500\t00:00:02.000\taway\ngaze\t00:00:03.000\n", ("row 2", "cells")),
        (BY_COLUMN.replace("00:01:02.250", "x"), ("row 3", "times")),
    ],
)
def test_an_export_of_elan_that_cannot_be_read_names_the_row(
    tmp_path: Path, content: str, named: tuple[str, ...]
) -> None:
    (tmp_path / "x.txt").write_text(content)
    assert missing(refused(tmp_path / "x.txt"), "x.txt", *named) == []


def test_an_export_of_elan_without_its_ends_is_a_sheet_with_times(tmp_path: Path, study: Path) -> None:
    (tmp_path / "s1.txt").write_text("Begin Time - msec\tgaze\n1\taway\n")
    message = why_not(study, tmp_path / "s1.txt", "gaze=gaze:nominal", skip=["*"], session_id="s1")
    assert missing(message, "s1.txt", "'Begin Time - msec'", "--start") == []


def test_an_export_whose_media_begin_elsewhere_needs_an_offset(tmp_path: Path, study: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text('"#file:///a.avi -- offset: 3200"\n\ngaze\t00:00:01.500\t00:00:02.000\taway\n')
    assert missing(why_not(study, path, "gaze=gaze:nominal"), "x.txt", "3.2 s", "--offset") == []


# --- BORIS and ELAN --------------------------------------------------------------------------------------------------


def test_a_negative_time_of_boris_is_before_the_recording(tmp_path: Path, study: Path) -> None:
    head = "Observation id,Subject,Behavior,Behavior type,Time,Media file name\n"
    path = tmp_path / "x.csv"
    path.write_text(head + "s1,,talk,START,-00:00:05.000,a.avi\ns1,,talk,STOP,00:00:07.500,a.avi\n")
    assert found(read(path)) == [("Behavior", "talk", -5.0, 7.5)]
    assert missing(why_not(study, path, "Behavior=b:nominal"), "x.csv", "row 3, Behavior", "0 s", "--offset") == []
    bring(study, path, "Behavior=b:nominal", offset_s=10.0)
    assert labels(study) == [("s1", "talk", 5.0, 17.5, None)]


def an_eaf(path: Path, *media: str, participant: str = "") -> Path:
    described = "".join(f'<MEDIA_DESCRIPTOR MEDIA_URL="file:///D:/x/{name}"/>' for name in media)
    tier = a_tier().replace("<TIER ", f'<TIER PARTICIPANT="{participant}" ') if participant else a_tier()
    path.write_text(by_hand(tier, media=described))
    return path


def test_a_file_whose_name_and_media_are_of_different_recordings_is_refused(tmp_path: Path, study: Path) -> None:
    (study / "tracks.csv").write_text("session_id,track,video\ns1,cam2,a2.avi\n")
    mood = "mood=mood:nominal"
    for name, media in (("b", "a.avi"), ("s2", "a.avi"), ("a", "a2.avi"), ("a2", "a.avi")):
        message = why_not(study, an_eaf(tmp_path / f"{name}.eaf", media), mood)
        assert missing(message, f"{name}.eaf", media, "s1", "--session") == []
    assert (
        missing(why_not(study, an_eaf(tmp_path / "x.eaf", "a.avi", "b.avi"), mood), "a.avi", "b.avi", "s1", "s2") == []
    )
    coded = an_eaf(tmp_path / "s2_coded.eaf", "a.avi")
    assert missing(why_not(study, coded, mood, session_from="{session}_coded.eaf"), "s2_coded.eaf", "s1", "s2") == []
    for name, media, options in (
        ("a", ("a.avi", "a2.avi"), {}),
        ("x", ("a.avi",), {}),
        ("b", ("a.avi",), {"session_id": "s1"}),
        ("a", ("a2.avi",), {"track": "cam2"}),
    ):
        bring(study, an_eaf(tmp_path / f"{name}.eaf", *media), mood, **options)
        assert [session for session, *_ in labels(study)] == ["s1"], name
        (study / "labels.csv").unlink()
        (study / "schemes.csv").unlink()


def test_a_tier_s_participant_is_the_person(tmp_path: Path, study: Path) -> None:
    made = bring(study, an_eaf(tmp_path / "x.eaf", "a.avi", participant="Anna B."), "mood=mood:nominal")
    assert labels(study) == [("s1", "sad", 1.0, 2.5, "Anna-B")]
    assert [row["person_id"] for row in made.rows["persons"]] == ["Anna-B"]
    path = an_eaf(tmp_path / "y.eaf", "b.avi", participant="小明")
    assert missing(read(path).remarks, "'mood'", "PARTICIPANT") == []
    bring(study, path, "mood=mood")
    assert labels(study)[1] == ("s2", "sad", 1.0, 2.5, None)
