"""Labels from tables of text: audformat's, wide and long CSV, their times, numbers and headers."""

from __future__ import annotations

import re
from pathlib import Path

import audformat
import pandas as pd
import pytest
from annotation_programs import eaf, found, refused, run
from storyframes_labels.annotation_file import ImportFaultError
from storyframes_labels.label_table import SheetOptions, TimeColumns
from storyframes_labels.read_annotations import read_annotations
from support.messages import missing

from tasks.study.labels import Label
from tasks.study.load import load_study


def test_what_audformat_wrote_is_read_back(tmp_path: Path, study: Path) -> None:
    database = audformat.Database("db")
    database.schemes["mood"] = audformat.Scheme("str")
    database.schemes["level"] = audformat.Scheme("float")
    files, starts, ends = ["wav/s1.wav", "wav/s1.wav", "wav/s2.wav"], ["0s", "1.5s", "0s"], ["1.5s", "3.25s", None]
    index = audformat.segmented_index(files, starts, ends)
    database["parts"] = audformat.Table(index)
    for scheme, values in (("mood", ["glad", None, "sad"]), ("level", [0.5, 1.0, None])):
        database["parts"][scheme] = audformat.Column(scheme_id=scheme)
        database["parts"][scheme].set(values)
    database["whole"] = audformat.Table(audformat.filewise_index(["wav/s2.wav"]))
    database["whole"]["mood"] = audformat.Column(scheme_id="mood")
    database["whole"]["mood"].set(["glad"])
    database.save(str(tmp_path / "db"), storage_format="csv")
    parts, whole = (read_annotations(tmp_path / "db" / f"db.{name}.csv") for name in ("parts", "whole"))
    assert sorted(found(parts), key=repr) == sorted(
        [
            ("mood", "glad", 0.0, 1.5),
            ("level", "0.5", 0.0, 1.5),
            ("level", "1.0", 1.5, 3.25),
            ("mood", "sad", None, None),
        ],
        key=repr,
    )
    assert found(whole) == [("mood", "glad", None, None)]
    path = tmp_path / "db" / "db.parts.csv"
    assert run(study, path, "mood=mood:nominal", "level=level:interval", session_from="wav/{session}.wav") == ""
    assert {(one.session_id, one.scheme, one.value) for one in load_study(study).labels} == {
        ("s1", "mood", "glad"),
        ("s1", "level", 0.5),
        ("s1", "level", 1.0),
        ("s2", "mood", "sad"),
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("start_s,end_s,mood,level\n0,1.5,glad,2\n2,3,,4\n", [("mood", "glad", 0, 1.5), ("level", "2", 0, 1.5)]),
        (
            "start_ms,end_ms,mood,level\n0,1500,glad,2\n2000,3000,,4\n",
            [("mood", "glad", 0, 1.5), ("level", "2", 0, 1.5)],
        ),
        (
            "tier,value,start_s,end_s\nmood,glad,0,1.5\nlevel,2,0,1.5\nlevel,4,2,3\nmood,,2,3\n",
            [("mood", "glad", 0, 1.5), ("level", "2", 0, 1.5)],
        ),
        (
            "start_s;end_s;mood;level\n0;1,5;glad;2\n;;;\n2;3;;4\n",
            [("mood", "glad", 0, 1.5), ("level", "2", 0, 1.5)],
        ),
    ],
)
def test_wide_and_long_tables_are_the_same(tmp_path: Path, content: str, expected) -> None:
    (tmp_path / "x.csv").write_text(content)
    file = read_annotations(tmp_path / "x.csv")
    assert found(file) == [*expected, ("level", "4", 2.0, 3.0)]
    assert missing(file.remarks, "'mood'", "1 without") == []


@pytest.mark.parametrize(
    "content",
    ["start_s;end_s;level;code\n0;1;0,5;1,5\n", "tier;value;start_s;end_s\nlevel;0,5;0;1\ncode;1,5;0;1\n"],
    ids=["wide", "long"],
)
def test_decimal_commas_are_points_in_numbers_alone(tmp_path: Path, study: Path, content: str) -> None:
    (tmp_path / "x.csv").write_text(content)
    assert missing(read_annotations(tmp_path / "x.csv").remarks, "numbers", "decimal") == []
    assert not run(study, tmp_path / "x.csv", "level=level:interval", "code=code:nominal", session_id="s1")
    labels = pd.read_csv(study / "labels.csv", dtype=str).set_index("scheme")
    assert labels["value"].to_dict() == {"level": "0.5", "code": "1,5"}


def test_commas_that_may_be_thousands_are_refused_in_values(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.csv").write_text("start_s;end_s;level\n0;1;1,500\n")
    said = run(study, tmp_path / "x.csv", "level=level:interval", session_id="s1")
    assert missing(said, "row 2", "decimal") == []
    assert not (study / "labels.csv").exists()


def test_a_table_may_name_sessions_raters_and_persons(tmp_path: Path, study: Path) -> None:
    (study / "persons.csv").write_text("session_id,person_id\ns1,robot\n")
    (tmp_path / "x.csv").write_text(
        "session_id,rater_id,person_id,confidence,mood\ns1,r1,robot,0.5,glad\ns2,r2,,,sad\n"
    )
    assert run(study, tmp_path / "x.csv", "mood=mood:nominal") == ""
    assert load_study(study).labels == (
        Label("s1", "mood", "glad", person_id="robot", rater_id="r1", confidence=0.5),
        Label("s2", "mood", "sad", rater_id="r2"),
    )


def test_a_person_may_be_named_by_a_role_that_nobody_else_has(tmp_path: Path, study: Path) -> None:
    rows = ("s1,p1,teller", "s1,p2,listener", "s2,p3,teller", "s2,p4,teller", "s2,teller,")
    (study / "persons.csv").write_text("\n".join(["session_id,person_id,role", *rows]) + "\n")
    file = tmp_path / "talk.csv"
    file.write_text("session_id,person_id,mood\ns1,teller,glad\ns1,p2,sad\ns2,teller,glad\n")
    assert run(study, file, "mood=mood:nominal") == ""
    assert {(row.session_id, row.person_id) for row in load_study(study).labels} == {
        ("s1", "p1"), ("s1", "p2"), ("s2", "teller")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "unit", "message"),
    [
        ("start,end,mood\n0,1,glad\n", None, "in which unit are the columns start and end?"),
        ("start_s,end_s,mood\n0,1,glad\n", "ms", "say another unit than --unit ms"),
        ("start_s,end_ms,mood\n0,1,glad\n", None, "has several columns of times"),
        ("start_s,mood\n0,glad\n", None, "has one of the columns start_s and end_s alone"),
        ("start_s,end_s,mood\n0,,glad\n", None, "row 2: has a beginning or an end alone"),
        ("start_s,end_s,mood\n2,1,glad\n", None, "row 2, mood: ends before it begins"),
        ("start_s,end_s,mood\n0,x,glad\n", None, "row 2, end_s: must be a number with a decimal point"),
        ('start_s,end_s,mood\n0,"1,5",glad\n', None, "row 2, end_s: must be a number with a decimal point"),
        ("tier,value,start_s,end_s\n,glad,0,1\n", None, "row 2, no tier: name its tier"),
        ("file,start,end,mood\na.wav,0 days 00:00:01,,glad\n", None, "row 2: begins at 1 s and has no end"),
        ("file,start,end,mood\na.wav,1,2,glad\n", None, "row 2, start: is no time as audformat writes it"),
        ("file,mood\n,glad\n", None, "row 2: names no file"),
        ("a,b\n1\n", None, "row 2 has 1 field"),
        ("mood\nx\n", "days", "--unit days: there are s and ms"),
    ],
)
def test_what_is_no_table_of_labels(tmp_path: Path, content: str, unit: str | None, message: str) -> None:
    (tmp_path / "x.csv").write_text(content)
    assert message in refused(tmp_path / "x.csv", unit)


def test_a_unit_that_is_said_holds(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("start,end,mood\n500,1000,glad\n")
    assert found(read_annotations(tmp_path / "x.csv", SheetOptions("ms"))) == [("mood", "glad", 0.5, 1.0)]
    assert found(read_annotations(tmp_path / "x.csv", SheetOptions("s"))) == [("mood", "glad", 500.0, 1000.0)]
    eaf(tmp_path / "x.eaf", mood=[(0, 1, "x")])
    assert "its format says the unit" in refused(tmp_path / "x.eaf", "s")


TIMES = ["onset,offset", "begin,stop", "Start (s),End (s)", "start_time,duration", "Anfang,Dauer", "von,bis", "T,U"]


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("form", ["wide", "long"])
def test_times_under_unknown_names_never_become_labels_of_the_whole_session(
    tmp_path: Path, study: Path, times: str, form: str
) -> None:
    path = tmp_path / "x.csv"
    is_long = form == "long"
    rows = [("s1", 0.5, 2, "glad"), ("s2", 2, 3.5, "sad")]
    path.write_text(
        f"session_id,{times},{'tier,value' if is_long else 'mood'}\n"
        + "".join(f"{session},{start},{end},{'mood,' * is_long}{value}\n" for session, start, end, value in rows)
    )
    how = {"skip": [] if is_long else ["*"]}
    why = run(study, path, "mood=mood:nominal", **how)
    first, second = (repr(name) for name in times.split(","))
    assert f"x.csv: {first}, {second} may be times" in why
    assert "--start" in why
    assert "--no-times" in why
    assert not (study / "labels.csv").exists()
    assert run(study, path, "mood=mood:nominal", no_times=True, **how) == ""
    assert [(label.value, label.start_s) for label in load_study(study).labels] == [("glad", None), ("sad", None)]


def test_a_column_of_times_that_is_skipped_by_name_is_refused_as_well(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.csv").write_text("onset,item,mood\n1,3,glad\n")
    how = {"session_id": "s1", "skip": ["onset", "item"]}
    assert "x.csv: 'onset' may be times" in run(study, tmp_path / "x.csv", "mood=mood:nominal", **how)


def test_numbers_that_are_no_times_are_left_out_as_asked(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.csv").write_text("session_id,item,count,mood\ns1,3,1,glad\ns2,1,2,sad\n")
    assert run(study, tmp_path / "x.csv", "mood=mood:nominal", skip=["*"]) == ""
    (tmp_path / "x.csv").write_text("session_id,item,level\ns1,1,4\ns2,2,5\n")  # no pair: level is a label
    assert run(study, tmp_path / "x.csv", "level=level:interval", skip=["*"]) == ""


@pytest.mark.parametrize(
    ("content", "unit", "columns"),
    [
        ("onset,offset,mood\n0.5,2,glad\n2,3.5,sad\n", "s", {"start": "onset", "end": "offset"}),
        ("Start (s),End (s),mood\n0.5,2,glad\n2,3.5,sad\n", None, {"start": "Start (s)", "end": "End (s)"}),
        ("onset,duration,mood\n500,1500,glad\n2000,1500,sad\n", "ms", {"start": "onset", "duration": "duration"}),
        ("on_ms,dur_ms,mood\n500,1500,glad\n2000,1500,sad\n", None, {"start": "on_ms", "duration": "dur_ms"}),
        ("a;b;mood\n0,5;2,0;glad\n2,0;3,5;sad\n", "s", {"start": "a", "end": "b"}),
        ("file,onset,offset,mood\na,0.5,2,glad\na,2,3.5,sad\n", "s", {"start": "onset", "end": "offset"}),
    ],
)
def test_columns_of_times_can_be_named(tmp_path: Path, content: str, unit: str | None, columns: dict[str, str]) -> None:
    (tmp_path / "x.csv").write_text(content)
    file = read_annotations(tmp_path / "x.csv", SheetOptions(unit, TimeColumns(**columns)))
    assert found(file) == [("mood", "glad", 0.5, 2.0), ("mood", "sad", 2.0, 3.5)]


@pytest.mark.parametrize(
    ("columns", "unit", "message"),
    [
        ({"start": "onset", "end": "x"}, "s", "has no column 'x'"),
        ({"start": "onset", "end": "stop_ms"}, "s", "say another unit than --unit s"),
        ({"start": "onset", "end": "stop_ms"}, None, "in which unit are the columns onset and stop_ms?"),
        ({"start": "onset"}, "s", "--start needs --end or --duration"),
        ({"start": "onset", "end": "stop_ms", "duration": "stop_ms"}, "ms", "--start needs --end or --duration"),
        ({"end": "stop_ms"}, "ms", "--start needs --end or --duration"),
    ],
)
def test_columns_of_times_that_cannot_be(
    tmp_path: Path, columns: dict[str, str], unit: str | None, message: str
) -> None:
    (tmp_path / "x.csv").write_text("onset,stop_ms,mood\n0,1,glad\n")
    with pytest.raises(ImportFaultError, match=re.escape(message)):
        read_annotations(tmp_path / "x.csv", SheetOptions(unit, TimeColumns(**columns)))


def test_a_file_that_has_times_is_not_imported_without_them(tmp_path: Path, study: Path) -> None:
    path = eaf(tmp_path / "x.eaf", mood=[(0, 1000, "sad")])
    assert "x.eaf: has times (milliseconds)" in run(study, path, "mood=m:nominal", session_id="s1", no_times=True)


@pytest.mark.parametrize(
    ("content", "tier", "message"),
    [
        ("glad,3\nsad,4\n", "glad", "row 1 is no header: its field 2 is a number"),
        ("0:00:01.5,glad\n0:00:02,sad\n", "glad", "row 1 is no header: its field 1 is a number"),
        ("s1,glad\ns2,sad\n", "glad", "row 1 is no header: its field 1 is a session of the study"),
        ("glad\nsad\nglad\n", "glad", "row 1 is no header: its field 1 is a value of row 3 as well"),
    ],
)
def test_a_table_without_a_header_is_refused_and_loses_no_row(
    tmp_path: Path, study: Path, content: str, tier: str, message: str
) -> None:
    (tmp_path / "x.csv").write_text(content)
    why = run(study, tmp_path / "x.csv", f"{tier}=mood:nominal", session_id="s1", skip=["*"], no_times=True)
    assert message in why
    assert "glad" not in why


def test_columns_that_are_called_by_numbers_are_a_header_beside_a_known_name(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.csv").write_text("session_id,1,2\ns1,5,3\ns2,4,1\n")
    assert run(study, tmp_path / "x.csv", "1=first:interval", "2=second:interval") == ""
    assert [label.value for label in load_study(study).labels] == [5.0, 3.0, 4.0, 1.0]
