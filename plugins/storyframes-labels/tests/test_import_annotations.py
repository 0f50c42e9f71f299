"""Labels from files of ELAN and Praat: what their own libraries wrote, what is written by hand, what is damaged."""

from __future__ import annotations

from pathlib import Path

import pympi
import pytest
from annotation_programs import a_tier, by_hand, eaf, found, refused, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from praatio import textgrid
from storyframes_labels.annotation_file import ImportFaultError
from storyframes_labels.read_annotations import read_annotations
from support.messages import missing

from tasks.study.labels import Label
from tasks.study.load import load_study

ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6)
SPANS = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 3000), VALUES), max_size=6)


# --- ELAN ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
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
    assert missing(message, "'mood'", "several") == []
    assert run(study, tmp_path / "x.eaf", "b=b:nominal", skip=["mood"], session_id="s1") == ""


def test_a_tier_that_cannot_be_told_costs_the_others_nothing(tmp_path: Path, study: Path) -> None:
    (tmp_path / "x.eaf").write_text(by_hand(a_tier() + REF))
    message = run(study, tmp_path / "x.eaf", "mood=mood:nominal", "word=word:nominal", session_id="s1")
    assert missing(message, "ELAN", "times") == []
    assert run(study, tmp_path / "x.eaf", "mood=mood:nominal", skip=["word"], session_id="s1") == ""
    assert len(load_study(study).labels) == 1


def test_media_that_begin_elsewhere_need_an_offset(tmp_path: Path, study: Path) -> None:
    media = '<MEDIA_DESCRIPTOR MEDIA_URL="a.avi" TIME_ORIGIN="3200"/>'
    (tmp_path / "x.eaf").write_text(by_hand(a_tier(), media=media))
    assert missing(run(study, tmp_path / "x.eaf", "mood=m:nominal", session_id="s1"), "3.2 s", "TIME_ORIGIN") == []
    assert run(study, tmp_path / "x.eaf", "mood=m:nominal", session_id="s1", offset_s=3.2) == ""
    assert load_study(study).labels == (Label("s1", "m", "sad", 4.2, 5.7),)


# --- Praat -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
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
