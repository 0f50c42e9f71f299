"""Cells that may say that there is no label, and labels in two spellings: what the tables make of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.messages import missing

from tasks.study.curves import CurveSamples
from tasks.study.labels import Scheme, SchemeType, did_you_mean
from tasks.study.load import Study, StudyError, load_study
from tasks.study.missing_values import is_one_of, possibly_missing


@pytest.mark.parametrize(
    ("values", "limits", "found"),
    [
        (["NA", "glad", "N/A", "#n/a", "NaN", "null", "#DIV/0!", "-", ".", "?", "…"], (), 9),
        (["Nadia", "none", "no", "n", "a-b", "?!"], (), 0),
        (["1", "7", "-99", "999"], (), 2),
        (["1", "7", "99", "-9", "88"], (), 3),
        (["1", "7", "9"], (), 0),
        (["60", "98", "99"], (), 0),
        (["5", "99"], (0, 100), 0),
        (["5", "99"], (1, 7), 1),
        (["600", "2500", "999"], (0, 5000), 0),
        (["6", "25", "999"], (0, 5000), 1),
        (["99"], (), 0),
    ],
)
def test_which_values_may_be_missing(values: list[str], limits: tuple[float, ...], found: int) -> None:
    codes = possibly_missing(values, *limits)
    assert len(codes) == found, codes
    assert [*codes] == [value for value in values if value in codes]


def test_a_code_is_the_same_in_other_letters_and_numbers() -> None:
    assert is_one_of("n/a", ["N/A"])
    assert is_one_of(" -99.0", ["-99"])
    assert not is_one_of("9", ["99", "NA"])
    assert not is_one_of("x", ["nan"])  # which is a number, and equal to none


SCHEMES = "scheme,type,min,max,labels,missing,not_missing\n"


def write(folder: Path, schemes: str, labels: str, **tables: str) -> Path:
    (folder / "sessions.csv").write_text("session_id,participant_id,video\n001,p1,a.avi\ns2,p2,b.avi\n")
    (folder / "schemes.csv").write_text(SCHEMES + schemes)
    (folder / "labels.csv").write_text("session_id,scheme,value,rater_id\n" + labels)
    for name, content in tables.items():
        (folder / f"{name}.csv").write_text(content)
    return folder


def labels(study: Study) -> list[tuple[str, float | str]]:
    return [(label.scheme, label.value) for label in study.labels]


def test_what_a_scheme_calls_missing_is_no_label_and_is_counted(tmp_path: Path) -> None:
    schemes = "mood,nominal,,,,NA|?,-\nlevel,interval,,,,-99,\n"
    rows = "001,mood,glad,\n001,mood,na,r1\ns2,mood,-,\n001,level,2,\ns2,level,-99.0,\n"
    study = load_study(write(tmp_path, schemes, rows))
    assert labels(study) == [("mood", "glad"), ("mood", "-"), ("level", 2.0)]
    assert study.schemes["mood"] == Scheme("mood", SchemeType.NOMINAL, missing=("NA", "?"), not_missing=("-",))
    assert len(study.remarks) == 2
    assert missing(study.remarks[0], "labels", "mood", "1", "row 3") == []
    assert missing(study.remarks[1], "labels", "level", "1", "row 6") == []


def test_values_and_raters_that_may_be_missing_are_named_with_what_to_write(tmp_path: Path) -> None:
    schemes = "mood,nominal,,,,,\nlevel,interval,1,7,,,\ncode,nominal,,,NA|x,,\nnote,text,,,,,\n"
    rows = "001,mood,NA,r1\ns2,mood,glad,NA\n001,level,3,\n001,code,NA,\n001,note,?,\n001,free,a,\ns2,free,NULL,\n"
    study = load_study(write(tmp_path, schemes, rows))
    assert ("mood", "NA") in labels(study)
    free, mood, rater = (remark for remark in study.remarks if "missing" in remark or "nobody" in remark)
    assert missing(mood, "'NA'", "mood", "not_missing", "schemes", "storyframes index") == []
    assert missing(free, "'NULL'", "free") == []
    assert missing(rater, "'NA'", "raters") == []
    named = load_study(write(tmp_path, schemes, rows, raters="rater_id\nr1\nNA\n"))
    assert not [remark for remark in named.remarks if "nobody" in remark]


@pytest.mark.parametrize("row", ["mood,nominal,,,,NA|-,-", "mood,nominal,,,glad|NA,na,"])
def test_a_code_is_either_missing_or_not(tmp_path: Path, row: str) -> None:
    with pytest.raises(StudyError) as error:
        load_study(write(tmp_path, row + "\n", ""))
    assert missing(error.value, "schemes, row 2", "missing") == []


def test_missing_moments_of_a_curve_are_gaps(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("time_s,value\n0,1\n1,-99\n2,NA\n3,0.5\n")
    curve = CurveSamples.read(path, Scheme("v", SchemeType.CURVE, -1, 1, missing=("-99", "NA")))
    np.testing.assert_array_equal(curve.value, [1, np.nan, np.nan, 0.5])
    assert curve.remarks == ()
    path.write_text("time_s,value\n0,1\n1,-99\n2,0.5\n")
    (remark,) = CurveSamples.read(path, Scheme("v", SchemeType.CURVE)).remarks
    assert missing(remark, "c.csv", "'-99'", "schemes") == []
    assert CurveSamples.read(path, Scheme("v", SchemeType.CURVE, not_missing=("-99",))).remarks == ()


def test_labels_raters_and_persons_in_two_spellings_are_named(tmp_path: Path) -> None:
    schemes = "mood,nominal,,,,,\nnote,text,,,,,\n"
    rows = "001,mood,Happy,Kim\ns2,mood,happy,kim\n001,mood,tre\u0301s,\ns2,mood,tr\u00e9s,\n001,note,A,\ns2,note,a,\n"
    persons = "session_id,person_id\n001,Mum\ns2,mum\n"
    study = load_study(write(tmp_path, schemes, rows, persons=persons))
    letters, accents, raters, people = study.remarks
    assert missing(letters, "'Happy'", "'happy'", "mood", "--fold-case") == []
    assert missing(accents, "mood", "--fold-case") == []
    assert missing(raters, "raters", "'Kim'", "'kim'") == []
    assert missing(people, "persons", "'Mum'", "'mum'") == []


def test_a_private_label_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "schemes.csv").write_text("")
    write(tmp_path, "", "001,ill,Yes,\ns2,ill,yes,\n")
    (tmp_path / "schemes.csv").write_text("scheme,type,private\nill,nominal,yes\n")
    (remark,) = load_study(tmp_path).remarks
    assert "ill" in remark
    assert "yes" not in remark.lower()


def test_a_number_without_its_zeros_is_asked_about(tmp_path: Path) -> None:
    assert missing(did_you_mean("1", {"001", "002"}), "'001'") == []
    assert missing(did_you_mean("s7", {"S007", "s070"}), "'S007'") == []
    with pytest.raises(StudyError) as error:
        load_study(
            write(tmp_path, "mood,nominal,,,,,\n", "1,mood,glad,\n", phases="session_id,phase,start_s,end_s\n1,a,0,1\n")
        )
    for table in ("labels", "phases"):
        assert missing(error.value, f"{table}, row 2, session_id = '1'", "'001'") == []
