"""Labels from ELAN, Praat, audformat and CSV: what their own libraries wrote, and what goes wrong by hand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import audformat
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pympi
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from praatio import textgrid

from tasks.study.importers.annotation_file import AnnotationFile, ImportFaultError
from tasks.study.importers.import_labels import Import, import_labels, read_annotations
from tasks.study.importers.label_table import SheetOptions, TimeColumns
from tasks.study.importers.mapping import Target, parse_map
from tasks.study.importers.owners import session_from
from tasks.study.labels import Label, Scheme, SchemeType
from tasks.study.load import StudyError, load_study

ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6)
SPANS = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 3000), VALUES), max_size=6)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,a.avi\ns2,p2,b.avi\n")
    return folder


def found(file: AnnotationFile) -> list[tuple[str, str, float | None, float | None]]:
    return [(one.tier, one.value, one.start_s, one.end_s) for one in file.annotations]


def refused(path: Path, unit: str | None = None) -> str:
    """Why the file, or a tier of it, cannot be imported."""
    try:
        return "; ".join(read_annotations(path, SheetOptions(unit)).faults.values())
    except ImportFaultError as error:
        return str(error)


def run(study: Path, path: Path, *pairs: str, **how: object) -> str:
    """Import; what is refused, or empty."""
    try:
        import_labels([read_annotations(path)], Import(targets=parse_map(pairs)[0], **how), study)
    except ImportFaultError as error:
        return str(error)
    return ""


# --- ELAN ------------------------------------------------------------------------------------------------------------


def eaf(path: Path, **tiers: list[tuple[int, int, str]]) -> Path:
    """An .eaf by pympi."""
    document = pympi.Elan.Eaf(author="x")
    document.remove_tier("default")
    for name, spans in tiers.items():
        document.add_tier(name)
        for start_ms, end_ms, value in spans:
            document.add_annotation(name, start_ms, end_ms, value)
    document.to_file(str(path))
    return path


@given(spans=SPANS)
@ANY
def test_what_pympi_wrote_is_read_back(tmp_path: Path, spans) -> None:
    at, placed = 0, []
    for gap, length, value in spans:
        placed.append((at + gap, at + gap + length, value))
        at += gap + length
    file = read_annotations(eaf(tmp_path / "x.eaf", mood=placed))
    assert found(file) == [("mood", value, start / 1000, end / 1000) for start, end, value in placed]
    assert (file.unit, file.remarks) == ("milliseconds", ())


def test_an_annotation_of_another_has_its_times_and_a_vocabulary_is_its_labels(tmp_path: Path) -> None:
    document = pympi.Elan.Eaf(author="x")
    document.remove_tier("default")
    document.add_controlled_vocabulary("moods")
    document.add_language("und")
    for value in ("glad", "sad", "très bien"):
        document.add_cv_entry("moods", value, [(value, "und", "")])
    document.add_linguistic_type("coded", constraints="Symbolic_Association", timealignable=False)
    document.linguistic_types["coded"]["CONTROLLED_VOCABULARY_REF"] = "moods"
    document.add_tier("talk")
    document.add_annotation("talk", 500, 1500, "hello")
    document.add_annotation("talk", 2000, 2100, "")
    document.add_tier("mood", ling="coded", parent="talk")
    document.add_ref_annotation("mood", "talk", 1000, "sad")
    document.to_file(str(tmp_path / "x.eaf"))
    file = read_annotations(tmp_path / "x.eaf")
    assert found(file) == [("talk", "hello", 0.5, 1.5), ("mood", "sad", 0.5, 1.5)]
    assert {tier.name: tier.vocabulary for tier in file.tiers} == {"talk": (), "mood": ("glad", "sad", "très bien")}
    assert file.remarks == ("tier 'talk': 1 without a value, left out",)


def by_hand(tiers: str, *, units: str = "milliseconds", media: str = "", slots: str = "", more: str = "") -> str:
    slots = slots or '<TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="1000"/><TIME_SLOT TIME_SLOT_ID="t2" TIME_VALUE="2500"/>'
    return (
        f'<ANNOTATION_DOCUMENT VERSION="3.0"><HEADER TIME_UNITS="{units}">{media}</HEADER>'
        f"<TIME_ORDER>{slots}</TIME_ORDER>{tiers}{more}</ANNOTATION_DOCUMENT>"
    )


def a_tier(name: str = "mood", value: str = "sad", identity: str = "a1", first: str = "t1", last: str = "t2") -> str:
    return (
        f'<TIER TIER_ID="{name}" LINGUISTIC_TYPE_REF="l"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="{identity}" '
        f'TIME_SLOT_REF1="{first}" TIME_SLOT_REF2="{last}"><ANNOTATION_VALUE>{value}</ANNOTATION_VALUE>'
        "</ALIGNABLE_ANNOTATION></ANNOTATION></TIER>"
    )


REF = (
    '<TIER TIER_ID="word"><ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a2" ANNOTATION_REF="a1"><ANNOTATION_VALUE>x'
    '</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION><ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a3" '
    'ANNOTATION_REF="a1"><ANNOTATION_VALUE>y</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION></TIER>'
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no xml", "is not XML, so no .eaf"),
        ("", "is not XML, so no .eaf"),
        ("<html/>", "is XML, but no .eaf"),
        (by_hand(a_tier(), units="PAL-frames"), "its times are PAL-frames, not milliseconds"),
        (by_hand(a_tier(first="t2", last="t1")), "tier 'mood', annotation 1: ends before it begins"),
        (by_hand(a_tier(last="t9")), "is no whole .eaf: KeyError of 't9'"),
        (by_hand(a_tier() + a_tier("other")), "tier 'other', annotation 1: has the ANNOTATION_ID of tier 'mood'"),
        (
            by_hand(a_tier(), slots='<TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="1"/><TIME_SLOT TIME_SLOT_ID="t2"/>'),
            "tier 'mood', annotation 1: has no time of its own",
        ),
        (
            by_hand(a_tier() + REF),
            "tier 'word', annotation 1; tier 'word', annotation 2: are several in one annotation of another tier",
        ),
        (by_hand(REF), "belongs to an annotation that is not there, or to itself"),
        (by_hand(REF.replace('REF="a1"', 'REF="a2"')), "belongs to an annotation that is not there, or to itself"),
    ],
)
def test_what_is_no_eaf(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.eaf").write_text(content)
    assert message in refused(tmp_path / "x.eaf")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_an_eaf_in_another_encoding(tmp_path: Path, encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + by_hand(a_tier(value="fröhlich"))
    (tmp_path / "x.eaf").write_bytes(text.encode(encoding))
    assert found(read_annotations(tmp_path / "x.eaf")) == [("mood", "fröhlich", 1.0, 2.5)]


def test_tiers_of_the_same_name_are_not_one(tmp_path: Path, study: Path) -> None:
    """pympi itself keeps the last of them alone."""
    (tmp_path / "x.eaf").write_text(by_hand(a_tier() + a_tier(identity="a2", value="glad") + a_tier("b", "c", "a3")))
    file = read_annotations(tmp_path / "x.eaf")
    assert len(file.annotations) == 3
    message = run(study, tmp_path / "x.eaf", "mood=mood:nominal", "b=b:nominal", session_id="s1")
    assert "has several tiers of the name 'mood': give each a name of its own" in message
    assert run(study, tmp_path / "x.eaf", "b=b:nominal", skip=["mood"], session_id="s1") == ""


def test_a_tier_that_cannot_be_told_costs_the_others_nothing(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.eaf").write_text(by_hand(a_tier() + REF))
    message = run(study, tmp_path / "x.eaf", "mood=mood:nominal", "word=word:nominal", session_id="s1")
    assert message.endswith("give them times in ELAN, or skip the tier")
    assert run(study, tmp_path / "x.eaf", "mood=mood:nominal", skip=["word"], session_id="s1") == ""
    assert len(load_study(study).labels) == 1


def test_media_that_begin_elsewhere_need_an_offset(tmp_path: Path, study: Path) -> None:
    media = '<MEDIA_DESCRIPTOR MEDIA_URL="a.avi" TIME_ORIGIN="3200"/>'
    (tmp_path / "x.eaf").write_text(by_hand(a_tier(), media=media))
    assert "its media begin at 3.2 s (TIME_ORIGIN)" in run(study, tmp_path / "x.eaf", "mood=m:nominal", session_id="s1")
    assert run(study, tmp_path / "x.eaf", "mood=m:nominal", session_id="s1", offset_s=3.2) == ""
    assert load_study(study).labels == (Label("s1", "m", "sad", 4.2, 5.7),)


# --- Praat -----------------------------------------------------------------------------------------------------------


@given(spans=SPANS)
@ANY
@pytest.mark.parametrize("form", ["long_textgrid", "short_textgrid"])
def test_what_praatio_wrote_is_read_back(tmp_path: Path, form: str, spans) -> None:
    at, placed = 0.0, []
    for gap, length, value in spans:
        placed.append((round(at + gap / 1000, 6), round(at + (gap + length) / 1000, 6), value))
        at = placed[-1][1]
    grid = textgrid.Textgrid()
    intervals = placed or [(0.0, 1.0, "")]
    grid.addTier(textgrid.IntervalTier("mood", intervals, 0, 100))
    grid.addTier(textgrid.PointTier("clap", [(start, value) for start, _, value in intervals], 0, 100))
    grid.save(str(tmp_path / "x.TextGrid"), format=form, includeBlankSpaces=True)
    file = read_annotations(tmp_path / "x.TextGrid")
    expected = [("mood", value, start, end) for start, end, value in placed]
    assert found(file) == expected + [("clap", value, start, start) for start, _, value in placed]
    assert [tier.name for tier in file.tiers] == ["mood", "clap"]
    assert any("without a value, left out" in remark for remark in file.remarks)


LONG = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 2.5
tiers? <exists>
size = 1
item []:
    item [1]:
        class = "IntervalTier"
        name = "mood ""now"" 7"
        xmin = 0
        xmax = 2.5
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 1.25
            text = "fröhlich ""5"" "
        intervals [2]:
            xmin = 1.25 ! a comment with 3 numbers and "a text"
            xmax = 2.5
            text = ""
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_textgrid_by_hand_in_every_encoding_that_praat_writes(tmp_path: Path, encoding: str, end: str) -> None:
    (tmp_path / "x.TextGrid").write_bytes(LONG.replace("\n", end).encode(encoding))
    file = read_annotations(tmp_path / "x.TextGrid")
    assert found(file) == [('mood "now" 7', 'fröhlich "5" ', 0.0, 1.25)]
    assert any("Windows-1252" in remark for remark in file.remarks) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "ends in the middle"),
        (LONG[: LONG.index("intervals [2]") + 40], "ends in the middle: it is cut"),
        (LONG.replace("xmax = 1.25", "xmax = later"), "a number or a text is not where it belongs"),
        (LONG.replace('text = ""', "text = 5"), "a number or a text is not where it belongs"),
        (LONG.replace("size = 2", "size = 1.5"), "a number or a text is not where it belongs"),
        (LONG.replace("xmax = 1.25", "xmax = -1"), "annotation 1: ends before it begins"),
        (LONG.replace('"TextGrid"', '"Pitch 1"'), "is no TextGrid in text form"),
        ("ooBinaryFile\x08TextGrid", "ends in the middle"),
    ],
)
def test_what_is_no_textgrid(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.TextGrid").write_text(content)
    assert message in refused(tmp_path / "x.TextGrid")


@given(content=st.text(st.sampled_from('"\n<exists> 0123.e-abIntervalTier!=[]:'), max_size=80))
@ANY
def test_no_text_whatever_is_a_textgrid_by_accident_or_a_traceback(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.TextGrid").write_text(LONG[:60] + content)
    try:
        read_annotations(tmp_path / "x.TextGrid")
    except ImportFaultError as error:
        said = str(error)
        assert said.startswith("x.TextGrid: ")


def test_tiers_of_a_textgrid_that_overlap_or_have_one_name(tmp_path: Path, study: Path) -> None:
    grid = LONG.replace("xmin = 1.25 ", "xmin = 1 ").replace('text = ""', 'text = "z"').replace('mood ""now"" 7', "m")
    (tmp_path / "x.TextGrid").write_text(grid)
    assert read_annotations(tmp_path / "x.TextGrid").remarks == ("tier 'm': 1 overlap the one before, kept",)


# --- audformat and CSV -----------------------------------------------------------------------------------------------


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
    assert "tier 'mood': 1 without a value, left out" in file.remarks


@pytest.mark.parametrize(
    "content",
    ["start_s;end_s;level;code\n0;1;0,5;1,5\n", "tier;value;start_s;end_s\nlevel;0,5;0;1\ncode;1,5;0;1\n"],
    ids=["wide", "long"],
)
def test_decimal_commas_are_points_in_numbers_alone(tmp_path: Path, study: Path, content: str) -> None:
    (tmp_path / "x.csv").write_text(content)
    assert "numbers with a decimal comma: read as a point" in read_annotations(tmp_path / "x.csv").remarks
    assert not run(study, tmp_path / "x.csv", "level=level:interval", "code=code:nominal", session_id="s1")
    labels = pd.read_csv(study / "labels.csv", dtype=str).set_index("scheme")
    assert labels["value"].to_dict() == {"level": "0.5", "code": "1,5"}


def test_commas_that_may_be_thousands_are_refused_in_values(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.csv").write_text("start_s;end_s;level\n0;1;1,500\n")
    said = run(study, tmp_path / "x.csv", "level=level:interval", session_id="s1")
    assert "row 2, level: its value must be a number with a decimal point" in said
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


# --- what is mapped, and which session --------------------------------------------------------------------------------


def test_a_tier_that_is_not_mapped_is_listed_and_refused(tmp_path: Path, study: Path) -> None:
    path = eaf(tmp_path / "x.eaf", mood=[(0, 1000, "sad")], talk=[(0, 1000, "hello you")], pose=[(0, 9, "x")])
    message = run(study, path, "mood=mood:nominal", session_id="s1")
    assert "not mapped: 'talk', 'pose'. Say --map TIER=SCHEME or --skip TIER for each" in message
    assert "not mapped: 'pose'" in run(study, path, "mood=mood:nominal", skip=["talk"], session_id="s1")
    assert "has no tier 'mod'; its tiers are 'mood', 'talk', 'pose'" in run(
        study, path, "mod=m:nominal", session_id="s1"
    )
    assert "has no tier 'tlk'" in run(study, path, "mood=m:nominal", skip=["tlk", "*"], session_id="s1")
    assert not (study / "labels.csv").exists()
    assert run(study, path, "mood=mood:nominal", skip=["*"], session_id="s1") == ""
    assert [label.value for label in load_study(study).labels] == ["sad"]


@pytest.mark.parametrize("pair", ["mood", "=x", "mood=", "mood=a b", "mood=x:number"])
def test_what_is_no_mapping(pair: str) -> None:
    with pytest.raises(ImportFaultError, match="write tier=scheme, or tier=scheme:type"):
        parse_map([pair])


def test_a_tiers_name_may_hold_anything() -> None:
    assert parse_map(["a=b:c=mood:text"]) == ({"a=b:c": Target("mood", SchemeType.TEXT)}, {})


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
    assert session_from(pattern, name) == session


def test_the_session_in_a_name_is_one_of_the_study() -> None:
    assert session_from("{session}_*.eaf", "p01_kim_v2.eaf", ["p01", "p02"]) == "p01"
    with pytest.raises(ImportFaultError, match="may be of p01, p01_2: say more of the name"):
        session_from("{session}_*.eaf", "p01_2_kim.eaf", ["p01", "p01_2"])


@pytest.mark.parametrize(("pattern", "name"), [("{session}.wav", "s1.eaf"), ("x", "s1"), ("{session}{session}", "s1")])
def test_a_name_without_a_session(pattern: str, name: str) -> None:
    with pytest.raises(ImportFaultError, match="--session-from"):
        session_from(pattern, name)


# --- what is written -------------------------------------------------------------------------------------------------


def test_labels_are_added_to_those_that_are_there(tmp_path: Path, study: Path) -> None:
    (study / "schemes.csv").write_text("scheme,type,min,max,labels,note\nvalence,interval,-1,1,,of the face\n")
    (study / "labels.csv").write_text('session_id,value,scheme,note\ns1,0.5,valence,"a, b"\n')
    (study / "labels.csv").chmod(0o640)
    path = eaf(tmp_path / "x.eaf", v=[(0, 1500, "-0.25"), (2000, 2500, "1")], mood=[(0, 1, "très bien")])
    assert run(study, path, "v=valence", "mood=mood:text", session_id="s2", rater_id="r1") == ""
    assert (study / "labels.csv").read_text() == (
        "session_id,value,scheme,note,start_s,end_s,rater_id\n"
        's1,0.5,valence,"a, b",,,\n'
        "s2,-0.25,valence,,0.0,1.5,r1\n"
        "s2,1,valence,,2.0,2.5,r1\n"
        "s2,très bien,mood,,0.0,0.001,r1\n"
    )
    assert (study / "schemes.csv").read_text() == (
        "scheme,type,min,max,labels,note\nvalence,interval,-1,1,,of the face\nmood,text,,,,\n"
    )
    assert (study / "labels.csv").stat().st_mode & 0o777 == 0o640
    loaded = load_study(study)
    assert loaded.schemes["mood"] == Scheme("mood", SchemeType.TEXT, private=True)
    assert loaded.labels[1] == Label("s2", "valence", -0.25, 0.0, 1.5, rater_id="r1")


def test_a_vocabulary_becomes_the_labels_of_a_nominal_scheme(tmp_path: Path, study: Path) -> None:
    vocabulary = (
        '<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="l" CONTROLLED_VOCABULARY_REF="cv"/><CONTROLLED_VOCABULARY CV_ID="cv">'
        '<CV_ENTRY_ML CVE_ID="1"><CVE_VALUE LANG_REF="und">sad</CVE_VALUE></CV_ENTRY_ML>'
        '<CV_ENTRY_ML CVE_ID="2"><CVE_VALUE LANG_REF="und">glad</CVE_VALUE></CV_ENTRY_ML></CONTROLLED_VOCABULARY>'
    )
    (tmp_path / "x.eaf").write_text(by_hand(a_tier(), more=vocabulary))
    assert run(study, tmp_path / "x.eaf", "mood=mood", session_id="s1") == ""
    assert load_study(study).schemes["mood"] == Scheme("mood", SchemeType.NOMINAL, labels=("sad", "glad"))
    (tmp_path / "y.eaf").write_text(by_hand(a_tier(value="angry"), more=vocabulary))
    message = run(study, tmp_path / "y.eaf", "mood=mood", session_id="s2")
    assert message.startswith(
        "y.eaf: tier 'mood', annotation 1: its value is not among the labels of the scheme 'mood'"
    )
    assert "angry" not in message


@pytest.mark.parametrize(
    ("pairs", "how", "message"),
    [
        (["mood=mood"], {"session_id": "s1"}, "what is the scheme 'mood'? The study does not declare it"),
        (["mood=mood:interval"], {"session_id": "s1"}, "tier 'mood', annotation 1: its value must be a number"),
        (["mood=mood:nominal"], {}, "of which session is it? Say --session ID or --session-from PATTERN"),
        (
            ["mood=mood:nominal"],
            {"session_id": "s3"},
            "session_id = 's3': is not in the table 'sessions'",
        ),
        (
            ["mood=mood:nominal"],
            {"session_id": "s1", "person_id": "x"},
            "person_id = 'x': is not in the table 'persons'",
        ),
        (["mood=mood:nominal"], {"session_id": "s1", "track": "x"}, "track = 'x': is no track of this session"),
        (["mood=mood:nominal"], {"session_id": "s1", "offset_s": -1.0}, "start_s = '-1.0': Input should be greater"),
        (["mood=valence:nominal"], {"session_id": "s1"}, "--map mood=valence:nominal: the study says it is interval"),
    ],
)
def test_nothing_is_written_where_something_is_wrong(
    tmp_path: Path, study: Path, pairs: list[str], how: dict[str, object], message: str
) -> None:
    (study / "schemes.csv").write_text("scheme,type\nvalence,interval\n")
    before = {path.name: path.read_bytes() for path in study.iterdir()}
    path = eaf(tmp_path / "x.eaf", mood=[(0, 1000, "sad")])
    assert message in run(study, path, *pairs, **how)
    assert {path.name: path.read_bytes() for path in study.iterdir()} == before


def test_a_file_that_is_imported_twice_is_refused(tmp_path: Path, study: Path) -> None:
    path = eaf(tmp_path / "x.eaf", mood=[(0, 1000, "sad")])
    assert run(study, path, "mood=mood:nominal", session_id="s1") == ""
    before = (study / "labels.csv").read_bytes()
    assert "is labelled twice: row 3 has the same session_id" in run(study, path, "mood=mood", session_id="s1")
    assert (study / "labels.csv").read_bytes() == before


def test_tables_that_cannot_be_added_to_are_left_alone(tmp_path: Path, study: Path) -> None:
    path = eaf(tmp_path / "x.eaf", mood=[(0, 1000, "sad")])
    frame = pd.DataFrame({"session_id": ["s1"], "scheme": ["mood"], "value": ["glad"]})
    frame.to_parquet(tmp_path / "elsewhere.parquet")
    (study / "labels.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    assert "labels.parquet: is a link" in run(study, path, "mood=mood:nominal", session_id="s1")
    (study / "labels.parquet").unlink()
    frame.to_csv(study / "labels.csv", sep=";", index=False)
    assert run(study, path, "mood=mood:nominal", session_id="s1") == (
        "labels.csv: its columns are separated by semicolons, not by commas: read so: save it as CSV UTF-8 with commas "
        "between the columns and decimal points before it is changed"
    )
    (study / "labels.csv").write_text("session_id,scheme\n")
    with pytest.raises(StudyError):
        run(study, path, "mood=mood:nominal", session_id="s1")


# --- Parquet ---------------------------------------------------------------------------------------------------------

CELLS = {  # what the labels of a Parquet table may be, each a column of a type
    "names": pd.Series(["glad", "sad"], dtype="string"),
    "categories": pd.Series(["glad", "sad"], dtype="category"),
    "whole": pd.Series([1, 2], dtype="int8"),
    "fractions": pd.Series([0.1, 2.0], dtype="float32"),
    "truth": pd.Series([True, False]),
    "decimals": pd.Series([0.25, None]),
}


@pytest.mark.parametrize("kind", list(CELLS))
@pytest.mark.parametrize("values", [["3", "4"], ["0.5", "-1"], ["007", "1_0"], ["glad", "très bien"]], ids="|".join)
def test_labels_are_added_to_a_parquet_table_as_they_would_be_to_csv(
    tmp_path: Path, study: Path, kind: str, values: list[str]
) -> None:
    """Its columns keep their types where these hold the new cells; no value, new or old, becomes another."""
    (study / "schemes.csv").write_text("scheme,type,private\nmood,text,no\n")
    frame = pd.DataFrame(
        {
            "note": [["x", "y"][place] for place in (0, 1)],
            "session_id": ["s1", "s2"],
            "scheme": "mood",
            "value": CELLS[kind],
            "end_s": pd.Series([5, 7], dtype="int32"),
            "start_s": pd.Series([1.5, 0.1], dtype="float32"),
            "made": pd.to_datetime(["2024-05-01 10:00:00.000000001", None]),
        }
    ).dropna(subset="value")
    frame.index = ["p", "q"][: len(frame)]
    frame.to_parquet(study / "labels.parquet")
    before = load_study(study).labels
    assert before
    path = eaf(tmp_path / "x.eaf", mood=[(3_600_123, 3_600_500, values[0]), (9_000_000, 9_001_000, values[1])])
    assert run(study, path, "mood=mood", session_id="s1", rater_id="r1") == ""
    assert {path.name for path in study.iterdir()} == {"sessions.csv", "schemes.csv", "labels.parquet"}
    labels = load_study(study).labels
    assert labels[: len(before)] == before
    assert labels[len(before) :] == (
        Label("s1", "mood", values[0], 3600.123, 3600.5, rater_id="r1"),
        Label("s1", "mood", values[1], 9000.0, 9001.0, rater_id="r1"),
    )
    after = pq.read_table(study / "labels.parquet")
    assert after["made"].to_pylist()[: len(frame)] == pa.array(frame["made"]).to_pylist()
    assert after["note"].to_pylist() == [*frame["note"], None, None]
    assert after["rater_id"].to_pylist() == [None] * len(frame) + ["r1", "r1"]
    assert (after["value"].type == pa.int8()) == (kind == "whole" and values == ["3", "4"])


def test_new_schemes_of_a_parquet_study(tmp_path: Path, study: Path) -> None:
    pd.DataFrame({"scheme": ["valence"], "type": ["interval"], "private": [False], "labels": [None]}).to_parquet(
        study / "schemes.parquet"
    )
    (study / "schemes.parquet").chmod(0o640)
    path = eaf(tmp_path / "x.eaf", mood=[(0, 1000, "sad")], v=[(0, 1000, "0.5")])
    assert run(study, path, "mood=mood:nominal", "v=valence", session_id="s1") == ""
    loaded = load_study(study)
    assert loaded.schemes["mood"] == Scheme("mood", SchemeType.NOMINAL)
    assert loaded.schemes["valence"] == Scheme("valence", SchemeType.INTERVAL)
    assert [label.value for label in loaded.labels] == ["sad", 0.5]
    assert (study / "schemes.parquet").stat().st_mode & 0o777 == 0o640
    before = (study / "schemes.parquet").read_bytes()
    assert "is labelled twice: row 4 has" in run(study, path, "mood=mood", "v=valence", session_id="s1")
    assert (study / "schemes.parquet").read_bytes() == before


def test_the_command(tmp_path: Path, study: Path) -> None:
    path = eaf(tmp_path / "s1_coded.eaf", mood=[(0, 1000, "sad"), (500, 1200, "glad")], talk=[(0, 1000, "our secret")])
    command = [sys.executable, "-m", "flows.cli", "import", "labels", str(path), "--to", str(study)]
    root = Path(__file__).parents[2]

    def call(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], capture_output=True, text=True, cwd=root)

    result = call("--map", "mood=mood:nominal", "--session-from", "{session}_coded.eaf")
    assert (result.returncode, result.stdout) == (2, "")
    assert "not mapped: 'talk'" in result.stderr
    result = call("--map", "mood=mood:nominal", "--session-from", "{session}_coded.eaf", "--skip", "talk")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "new scheme mood: nominal\n2 labels (mood 2) of 1 session; times read as milliseconds\n"
    assert "tier 'mood': 1 overlap the one before, kept" in result.stderr
    assert "secret" not in result.stdout + result.stderr
    assert len(load_study(study).labels) == 2
    (tmp_path / "x.csv").write_text("onset,dur,code\n500,1500,3\n")
    command[5] = str(tmp_path / "x.csv")
    mapped = ("--map", "code=code:interval", "--session", "s2", "--skip", "*")
    assert "'onset', 'dur' may be times" in call(*mapped).stderr
    result = call(*mapped, "--start", "onset", "--duration", "dur", "--unit", "ms")
    assert result.returncode == 0, result.stderr
    (label,) = [one for one in load_study(study).labels if one.scheme == "code"]
    assert (label.session_id, label.value, label.start_s, label.end_s) == ("s2", 3.0, 0.5, 2.0)
