"""Cells that may say that there is no value: asked once, left out, and the answer kept with the scheme."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from annotation_programs import a_tier, by_hand, run
from storyframes_labels.annotation_file import ImportFaultError
from storyframes_labels.import_labels import Import, Imported, import_labels
from storyframes_labels.missing import Answer
from storyframes_labels.read_annotations import read_all
from support.messages import missing
from typer.testing import CliRunner

from flows.cli.app import app
from tasks.study.curves import CurveSamples
from tasks.study.load import load_study


def bring(study: Path, content: str, *pairs: str, na: str = "", no: str = "", **options: object) -> Imported:
    """Import a sheet; ``na`` and ``no`` are --missing and --not-missing."""
    path = study.parent / "x.csv"
    path.write_text(content)
    read, targets = read_all([path], pairs, {}, rate=options.pop("rate", None))
    how = Import(targets=targets, answer=Answer.parse([na], [no]), **options)
    return import_labels(read, how, study)


def refused(study: Path, content: str, *pairs: str, **options: object) -> str:
    before = {path.name: path.read_bytes() for path in study.iterdir()}
    with pytest.raises(ImportFaultError) as error:
        bring(study, content, *pairs, **options)
    assert {path.name: path.read_bytes() for path in study.iterdir()} == before
    return str(error.value)


def labels(study: Path) -> list[tuple[object, ...]]:
    return [(one.session_id, one.scheme, one.value, one.rater_id) for one in load_study(study).labels]


SHEET = "session_id,rater_id,mood,level\ns1,r1,glad,3\ns2,r1,NA,-99\ns1,NA,sad,4\n"
BOTH = ("mood=mood:nominal", "level=level:interval")


def test_nothing_is_written_until_the_user_says_what_they_are(study: Path) -> None:
    message = refused(study, SHEET, *BOTH)
    assert missing(message, "x.csv", "row 3, mood", "'NA'", "row 3, level", "'-99'", "row 4", "rater") == []
    assert missing(message, "--missing NA,-99", "--not-missing") == []
    assert missing(refused(study, SHEET, *BOTH, na="NA"), "'-99'", "level", "--missing -99") == []
    assert missing(refused(study, SHEET, *BOTH, na="NA", no="-99,na"), "--missing", "--not-missing", "'NA'") == []


def test_a_rater_and_a_confidence_stay_though_their_number_is_a_missing_value(study: Path) -> None:
    sheet = "session_id,rater_id,mood,confidence\ns1,8,3,0\ns1,9,4,1\ns2,8,9,1\n"
    bring(study, sheet, "mood=mood:ordinal", na="9")
    assert [(one.value, one.rater_id, one.confidence) for one in load_study(study).labels] == [
        (3.0, "8", 0.0),
        (4.0, "9", 1.0),
    ]
    bring(study, "session_id,rater_id,mood\ns2,9,2\ns2,-99,1\n", "mood=mood:ordinal", na="-99")
    assert labels(study)[2:] == [("s2", "mood", 2.0, "9"), ("s2", "mood", 1.0, None)]


def test_missing_values_are_left_out_and_the_scheme_keeps_the_answer(study: Path) -> None:
    made = bring(study, SHEET, *BOTH, na="NA,-99")
    assert labels(study) == [
        ("s1", "mood", "glad", "r1"),
        ("s1", "level", 3.0, "r1"),
        ("s1", "mood", "sad", None),
        ("s1", "level", 4.0, None),
    ]
    schemes = load_study(study).schemes
    assert (schemes["mood"].missing, schemes["level"].missing) == (("NA",), ("-99",))
    assert missing(made.remarks, "mood", "NA", "1 place", "level", "-99", "schemes") == []
    again = "session_id,rater_id,mood,level\ns2,na,n/a,7\ns2,r2,na,-99.0\n"
    assert missing(refused(study, again, *BOTH), "'n/a'") == []
    bring(study, again.replace("n/a", "NA"), *BOTH)
    assert labels(study)[4:] == [("s2", "level", 7.0, None)]
    assert load_study(study).schemes == schemes


def test_values_that_are_none_are_kept_and_not_asked_about_again(study: Path) -> None:
    bring(study, "session_id,mood\ns1,-\ns2,glad\n", "mood=mood:nominal", no="-")
    assert load_study(study).schemes["mood"].not_missing == ("-",)
    bring(study, "session_id,rater_id,mood\ns2,r,-\n", "mood=mood")
    assert [value for _, _, value, _ in labels(study)] == ["-", "glad", "-"]
    sheet = "session_id,rater_id,mood\ns2,q,-\n"
    assert missing(refused(study, sheet, "mood=mood", na="-"), "--missing -", "not_missing", "mood") == []


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_declared_scheme_gets_the_answer_and_keeps_the_rest(study: Path, suffix: str) -> None:
    frame = pd.DataFrame({"scheme": ["mood", "other"], "type": "nominal", "note": ["a, b", "c"]})
    frame.to_csv(study / "schemes.csv", index=False)
    if suffix == "parquet":
        frame.to_parquet(study / "schemes.parquet")
        (study / "schemes.csv").unlink()
    bring(study, "session_id,mood\ns1,NA\ns2,glad\n", "mood=mood", na="NA,-99")
    table = pd.read_csv(study / "schemes.csv", keep_default_na=False) if suffix == "csv" else None
    table = pd.read_parquet(study / "schemes.parquet").fillna("") if table is None else table
    assert table.to_dict("list") == {**frame.to_dict("list"), "missing": ["NA", ""]}
    assert labels(study) == [("s2", "mood", "glad", None)]


def test_declared_labels_and_a_vocabulary_are_labels_whatever_they_look_like(study: Path) -> None:
    (study / "schemes.csv").write_text("scheme,type,labels\nmood,nominal,glad|NA\n")
    bring(study, "session_id,mood\ns1,NA\n", "mood=mood")
    assert labels(study) == [("s1", "mood", "NA", None)]
    vocabulary = (
        '<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="l" CONTROLLED_VOCABULARY_REF="cv"/><CONTROLLED_VOCABULARY CV_ID="cv">'
        '<CV_ENTRY_ML CVE_ID="1"><CVE_VALUE LANG_REF="und">?</CVE_VALUE></CV_ENTRY_ML></CONTROLLED_VOCABULARY>'
    )
    (study.parent / "x.eaf").write_text(by_hand(a_tier("gaze", "?"), more=vocabulary))
    assert run(study, study.parent / "x.eaf", "gaze=gaze", session_id="s1") == ""
    (study.parent / "x.eaf").write_text(by_hand(a_tier("gaze", "?")))
    assert (
        missing(run(study, study.parent / "x.eaf", "gaze=look:nominal", session_id="s1"), "'?'", "annotation 1") == []
    )


def test_missing_moments_are_gaps_of_a_curve(study: Path) -> None:
    sheet = "session_id,v\ns1,0.5\ns1,-99\ns1,1\n"
    assert missing(refused(study, sheet, "v=v:curve", rate=10.0), "'-99'", "row 3, v") == []
    bring(study, sheet, "v=v:curve", rate=10.0, na="-99")
    (curve,) = load_study(study).curves
    assert (study / curve.path).read_text().split() == ["time_s,value", "0.0,0.5", "0.1,", "0.2,1"]
    assert CurveSamples.read(study / curve.path).time_s.tolist() == [0.0, 0.1, 0.2]


def test_the_command_takes_both_answers_and_joins_spellings(study: Path) -> None:
    path = study.parent / "x.csv"
    path.write_text("session_id,mood,level\ns1,Glad,-99\ns2,glad,3\ns2,-,4\n")
    mapped = ["--map", "mood=mood:nominal", "--map", "level=level:interval", "--rate", "1"]
    command = ["import", "labels", str(path), "--to", str(study), *mapped]
    asked = CliRunner().invoke(app, command)
    assert (asked.exit_code, (study / "labels.csv").exists()) == (2, False)
    assert missing(asked.output, "'-99'", "'-'", "--missing") == []
    said = CliRunner().invoke(app, [*command, "--missing", "-99", "--not-missing", "-", "--fold-case"])
    assert said.exit_code == 0, said.output
    assert [value for _, _, value, _ in labels(study)] == ["Glad", "Glad", 3.0, "-", 4.0]
    assert missing(said.output, "level", "-99", "'Glad'") == []


def test_a_text_is_not_asked_about(study: Path) -> None:
    bring(study, "session_id,said\ns1,?\n", "said=said:text")
    assert labels(study) == [("s1", "said", "?", None)]
