"""Labels of a file in a study: what is mapped, of which session they are, and what is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from annotation_programs import a_tier, by_hand, eaf, run
from storyframes_labels.annotation_file import ImportFaultError
from storyframes_labels.mapping import Target, parse_map
from support.messages import missing

from tasks.study.labels import Label, Scheme, SchemeType
from tasks.study.load import StudyError, load_study

# --- what is mapped, and which session --------------------------------------------------------------------------------


def test_a_tier_that_is_not_mapped_is_listed_and_refused(tmp_path: Path, study: Path) -> None:
    path = eaf(tmp_path / "x.eaf", mood=[(0, 1000, "sad")], talk=[(0, 1000, "hello you")], pose=[(0, 9, "x")])
    message = run(study, path, "mood=mood:nominal", session_id="s1")
    assert missing(message, "'talk'", "'pose'", "--map", "TIER=SCHEME", "--skip") == []
    assert "not mapped: 'pose'" in run(study, path, "mood=mood:nominal", skip=["talk"], session_id="s1")
    assert missing(run(study, path, "mod=m:nominal", session_id="s1"), "'mod'", "'mood'", "'talk'", "'pose'") == []
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
    assert missing(message, "'mood'", "annotation 1", "y.eaf") == []
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
        (["mood=mood:nominal"], {"session_id": "s1", "offset_s": -1.0}, "annotation 1: begins before 0 s"),
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
    assert missing(run(study, path, "mood=mood", session_id="s1"), "row 2", "(x.eaf: tier 'mood'", "session_id") == []
    assert (study / "labels.csv").read_bytes() == before


def test_tables_that_cannot_be_added_to_are_left_alone(tmp_path: Path, study: Path) -> None:
    path = eaf(tmp_path / "x.eaf", mood=[(0, 1000, "sad")])
    frame = pd.DataFrame({"session_id": ["s1"], "scheme": ["mood"], "value": ["glad"]})
    frame.to_parquet(tmp_path / "elsewhere.parquet")
    (study / "labels.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    assert "labels.parquet: is a link" in run(study, path, "mood=mood:nominal", session_id="s1")
    (study / "labels.parquet").unlink()
    frame.to_csv(study / "labels.csv", sep=";", index=False)
    assert missing(run(study, path, "mood=mood:nominal", session_id="s1"), "labels.csv", "CSV", "UTF-8") == []
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
    assert (
        missing(run(study, path, "mood=mood", "v=valence", session_id="s1"), "row 3", "(x.eaf: tier 'v'", "labelled")
        == []
    )
    assert (study / "schemes.parquet").read_bytes() == before


@pytest.mark.slow
def test_the_command(tmp_path: Path, study: Path) -> None:
    path = eaf(tmp_path / "s1_coded.eaf", mood=[(0, 1000, "sad"), (500, 1200, "glad")], talk=[(0, 1000, "our secret")])
    command = [sys.executable, "-m", "flows.cli", "import", "labels", str(path), "--to", str(study)]
    root = Path(__file__).parents[3]

    def call(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], capture_output=True, text=True, cwd=root)

    result = call("--map", "mood=mood:nominal", "--session-from", "{session}_coded.eaf")
    assert (result.returncode, result.stdout) == (2, "")
    assert "not mapped: 'talk'" in result.stderr
    result = call("--map", "mood=mood:nominal", "--session-from", "{session}_coded.eaf", "--skip", "talk")
    assert result.returncode == 0, result.stderr
    assert missing(result.stdout, "2 labels", "mood 2", "1 session") == []
    assert missing(result.stderr, "'mood'", "1 overlap") == []
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
