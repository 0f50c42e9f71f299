"""Labels, raters and persons in two spellings, and faults that name the rows of the imported file."""

from __future__ import annotations

from pathlib import Path

import pytest
from storyframes_labels.annotation_file import ImportFaultError
from storyframes_labels.import_labels import Import, Imported, import_labels
from storyframes_labels.read_annotations import read_all
from support.messages import missing

from tasks.study.load import load_study


def bring(study: Path, content: str, *pairs: str, **options: object) -> Imported:
    path = study.parent / "x.csv"
    path.write_text(content)
    read, targets = read_all([path], pairs, {})
    return import_labels(read, Import(targets=targets, **options), study)


def values(study: Path) -> list[tuple[object, ...]]:
    return [(one.value, one.rater_id, one.person_id) for one in load_study(study).labels]


SHEET = "session_id,rater_id,person_id,mood\ns1,Kim,a,happy\ns2,kim,a,Happy\ns1,KIM,A,happy\n"
PERSONS = "session_id,person_id\ns1,a\ns2,a\ns1,A\n"


def test_two_spellings_are_named_and_joined_where_the_user_says_so(study: Path) -> None:
    (study / "persons.csv").write_text(PERSONS)
    made = bring(study, SHEET, "mood=mood:nominal")
    assert values(study) == [("happy", "Kim", "a"), ("Happy", "kim", "a"), ("happy", "KIM", "A")]
    moods, raters, persons = made.remarks
    assert missing(moods, "mood", "'happy'", "'Happy'", "--fold-case") == []
    assert missing(raters, "raters", "'Kim'", "'kim'", "'KIM'", "--fold-case") == []
    assert missing(persons, "persons", "'a'", "'A'") == []
    (study / "labels.csv").unlink()
    (study / "schemes.csv").unlink()
    (study / "persons.csv").write_text(PERSONS.replace("s1,A\n", ""))
    sheet = SHEET.replace("s1,KIM,A,happy", "s2,KIM,A,sad")
    joined = bring(study, sheet.replace("s2,kim", "s2,r2"), "mood=mood:nominal", fold_case=True)
    assert values(study) == [("happy", "Kim", "a"), ("happy", "r2", "a"), ("sad", "Kim", "a")]
    assert missing(joined.remarks, "joined as 'happy'", "joined as 'Kim'", "joined as 'a'") == []


def test_the_study_s_own_spelling_is_taken_before_the_more_frequent_one(study: Path) -> None:
    (study / "labels.csv").write_text("session_id,scheme,value,rater_id\ns1,mood,HAPPY,Kim\n")
    (study / "schemes.csv").write_text("scheme,type\nmood,nominal\n")
    sheet = "session_id,rater_id,mood\ns2,kim,happy\ns2,r2,happy\ns2,r3,tre\u0301s\ns2,r4,tr\u00e9s\ns2,r5,tr\u00e9s\n"
    bring(study, sheet, "mood=mood", fold_case=True)
    assert [(value, rater) for value, rater, _ in values(study)] == [
        ("HAPPY", "Kim"),
        ("HAPPY", "Kim"),
        ("HAPPY", "r2"),
        ("tr\u00e9s", "r3"),
        ("tr\u00e9s", "r4"),
        ("tr\u00e9s", "r5"),
    ]


def test_a_declared_label_is_the_spelling(study: Path) -> None:
    (study / "schemes.csv").write_text("scheme,type,labels\nmood,nominal,Happy|sad\n")
    sheet = "session_id,mood\ns1,happy\ns2,SAD\n"
    with pytest.raises(ImportFaultError) as error:
        bring(study, sheet, "mood=mood")
    assert missing(error.value, "row 2, mood", "row 3, mood", "--fold-case") == []
    bring(study, sheet, "mood=mood", fold_case=True)
    assert [value for value, *_ in values(study)] == ["Happy", "sad"]


def refused(study: Path, content: str, *pairs: str, **options: object) -> str:
    with pytest.raises(ImportFaultError) as error:
        bring(study, content, *pairs, **options)
    return str(error.value)


def test_a_fault_of_the_study_names_the_file_s_own_row(study: Path) -> None:
    (study / "labels.csv").write_text("session_id,scheme,value\ns1,mood,glad\ns2,mood,sad\n")
    (study / "schemes.csv").write_text("scheme,type\nmood,nominal\n")
    (study / "sessions.csv").write_text("session_id,participant_id,video\n001,p1,a.avi\ns1,p1,c.avi\ns2,p2,b.avi\n")
    message = refused(study, "session_id,mood\n1,glad\n001,sad\n001,glad\n", "mood=mood")
    assert missing(message, "x.csv: row 2, mood: session_id = '1'", "'001'") == []
    message = refused(study, "session_id,rater_id,mood\n001,r,glad\n001,q,sad\n001,r,sad\n", "mood=mood")
    assert missing(message, "x.csv: row 2, mood", "labelled twice", "(x.csv: row 4, mood) has") == []
    message = refused(study, "session_id,rater_id,mood\n001,r,glad\ns2,,glad\n", "mood=mood")
    assert missing(message, "labels, row 3", "(x.csv: row 3, mood) has") == []


def test_a_fault_of_a_curve_names_the_file_s_own_row(study: Path) -> None:
    message = refused(study, "session_id,t_s,v\ns2,0,0.5\ns1,0,0.5\ns1,1,3\n", "v=v:curve:0..1", "t_s=@time")
    assert missing(message, "x.csv: row 4, v", "outside") == []
    message = refused(study, "session_id,t_s,v\ns2,0,0.5\ns1,1,0.5\ns1,1,1\n", "v=v:curve:0..1", "t_s=@time")
    assert missing(message, "x.csv: row 4, v", "after") == []
