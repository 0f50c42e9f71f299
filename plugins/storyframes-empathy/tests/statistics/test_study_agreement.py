"""Agreement of the raters of a study's labels, in the report, and the command on tables and studies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing
from typer.testing import CliRunner

from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.commands.app import app
from storyframes_empathy.report.agreement import agreement_rows
from storyframes_empathy.statistics.agreement import Agreement, Categories, agreement
from storyframes_empathy.statistics.krippendorff import alpha_interval
from storyframes_empathy.statistics.ratings import Level, Ratings
from storyframes_empathy.statistics.study_ratings import LeftOut, study_agreement
from storyframes_report import build_report
from tasks.extractors.registry import ExtractorsSettings
from tasks.study.load import load_study

LONG = "unit,rater,value\ns1,a,1\ns1,b,2\ns2,a,3.5\ns2,b,3\ns3,a,4\n"


def of(values: np.ndarray, level: Level = Level.NUMBERS) -> Ratings:
    return Ratings(tuple(f"r{at}" for at in range(values.shape[1])), values, level)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,a.avi\ns2,p2,b.avi\n")
    (folder / "schemes.csv").write_text(
        "scheme,type,min,max,labels,private\nwarmth,ordinal,1,5,,\nmood,nominal,,,up|down,\n"
        "pace,ordinal,,,slow|even|fast,\nvalence,interval,-1,1,,yes\nnotes,text,,,,\n"
    )
    return folder


def label(study: Path, *rows: str) -> None:
    header = "session_id,scheme,value,start_s,end_s,target,rater_id\n"
    (study / "labels.csv").write_text(header + "".join(f"{row}\n" for row in rows))


def compared_of(study: Path, scheme: str, **how: object) -> Agreement:
    found = study_agreement(load_study(study), **how)[scheme].agreement
    assert found is not None
    return found


def test_a_unit_is_the_same_session_target_and_part(study: Path) -> None:
    label(
        study,
        *("s1,warmth,4,0,10,,anna", "s1,warmth,3.5,0,10,,ben", "s1,warmth,2,10,20,,anna", "s1,warmth,2,10,20,,ben"),
        *("s1,warmth,5,,,,anna", "s1,warmth,5,,,,ben", "s2,warmth,1,0,10,,anna"),
        *("s1,warmth,1,0,10,story1,anna", "s1,warmth,2,0,10,story2,ben"),
    )
    compared = compared_of(study, "warmth")
    assert (compared.units_compared, compared.ratings) == (3, 6)
    wanted = agreement(of(np.array([[4, 3.5], [2, 2], [5, 5]])))
    assert compared.alpha == pytest.approx(wanted.alpha)
    assert study_agreement(load_study(study))["warmth"].left_out == LeftOut(alone=3)


def test_parts_that_overlap_without_being_the_same_are_counted_and_left_out(study: Path) -> None:
    label(
        study,
        *("s1,mood,up,0,10,,anna", "s1,mood,up,0,10,,ben"),  # compared
        *("s1,mood,up,20,30,,anna", "s1,mood,up,20,29.9,,ben"),  # overlapping
        *("s1,mood,up,40,50,,anna", "s1,mood,down,50,60,,ben"),  # they touch: alone
        *("s1,mood,up,70,80,,anna", "s1,mood,down,75,85,,anna"),  # one rater's own
        *("s1,mood,up,90,90,,anna", "s1,mood,down,89,91,,ben"),  # a moment inside a part
        "s1,mood,down,100,110,,",
    )
    found = study_agreement(load_study(study))["mood"]
    assert found.left_out == LeftOut(overlapping=4, alone=4, nameless=1)
    assert found.agreement is not None
    assert found.agreement.units_compared == 1


def test_of_raters_who_are_asked_for_no_other_counts(study: Path) -> None:
    values = {"anna": (4, 2, 5), "ben": (4, 3, 5), "cleo": (1, 5, 1)}
    label(study, *(f"s1,warmth,{value},,,t{at},{who}" for who in values for at, value in enumerate(values[who])))
    compared = compared_of(study, "warmth", raters=("anna", "ben"))
    assert compared.alpha == pytest.approx(agreement(of(np.array([[4.0, 4], [2, 3], [5, 5]]))).alpha)
    assert compared.ratings == 6


def test_schemes_are_compared_as_what_they_are(study: Path) -> None:
    rows = [f"s1,{scheme},{value},,,t{at},{rater}" for scheme, values in (
        ("mood", ("up", "down", "up")), ("pace", ("fast", "slow", "even")), ("valence", ("-0.5", "0.25", "1"))
    ) for at, value in enumerate(values) for rater in ("a", "b")]  # fmt: skip
    label(study, *rows, "s1,notes,good,,,,a", "s1,notes,good,,,,b")
    found = study_agreement(load_study(study))
    assert set(found) == {"mood", "pace", "valence"}
    levels = {name: one.agreement.level for name, one in found.items() if one.agreement}
    assert levels == {"mood": Level.NAMES, "pace": Level.STEPS, "valence": Level.NUMBERS}
    assert "kappa" not in compared_of(study, "valence").means
    assert "kappa" in compared_of(study, "valence", categories=Categories.ROUND).means
    assert found["valence"].private


def test_steps_are_in_the_schemes_order_not_the_alphabets(study: Path) -> None:
    said = {"a": ("slow", "even", "fast"), "b": ("slow", "even", "even")}
    label(study, *(f"s1,pace,{value},,,t{at},{who}" for who, values in said.items() for at, value in enumerate(values)))
    assert compared_of(study, "pace").alpha == pytest.approx(
        agreement(of(np.array([[0.0, 0], [1, 1], [2, 1]]), Level.STEPS)).alpha
    )


@pytest.mark.slow
def test_the_report_has_a_row_for_each_scheme_that_several_used(study: Path, store_root: Path, tmp_path: Path) -> None:
    label(
        study,
        *(f"s1,pace,{value},,,t{at},{rater}" for rater in "ab" for at, value in enumerate(("slow", "fast"))),
        *("s1,mood,up,0,9,,a", "s1,mood,down,0,9,,b", "s1,mood,up,10,20,,a", "s1,mood,up,11,20,,b", "s1,mood,up,,,,"),
        *("s1,valence,1,,,,a", "s1,valence,0,,,,b", "s1,warmth,3,,,,a"),
    )
    loaded = load_study(study)
    rows = {row[0]: row[1:] for row in agreement_rows(loaded)}
    assert set(rows) == {"mood", "pace"}  # valence is private, and warmth has one rater
    assert rows["pace"] == (2, 2, "1.000 (ordinal)", "", "1.000", "", "1.000", "")
    left_out = "2 labels overlapping another rater's without being the same; 1 without a rater"
    assert (rows["mood"][1], rows["mood"][-1]) == (1, left_out)
    build_report(loaded, FeatureStore(store_root), ExtractorsSettings(), tmp_path / "site")
    assert "How far raters agree" in (tmp_path / "site/index.html").read_text()
    page = (tmp_path / "site/plug-ins/agreement.html").read_text()
    assert "How far raters agree" in page
    assert "1.000 (ordinal)" in page


# --- the command -----------------------------------------------------------------------------------------------------


def command(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["statistics", "agreement", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_on_a_table(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(LONG)
    code, out, _ = command(path, "--json")
    assert code == 0
    shown = json.loads(out)
    assert shown["raters"] == {"a": 3, "b": 2}
    assert shown["alpha"]["interval"] == pytest.approx(alpha_interval(np.array([[1.0, 2], [3.5, 3]])))
    code, out, _ = command(path, "--kappa", "above", "--threshold", 3)
    assert code == 0
    assert "whether it is above 3" in out
    assert not missing(out, "3 units", "have two ratings or more")


def test_the_command_on_a_study(study: Path) -> None:
    label(study, "s1,warmth,4,0,9,,anna", "s1,warmth,3,0,9,,ben", "s1,mood,up,0,9,,anna", "s1,mood,up,1,9,,ben")
    code, out, _ = command(study, "--json")
    assert code == 0
    assert json.loads(out)["schemes"]["mood"] == {
        "agreement": None,
        "left_out": {"overlapping": 2, "alone": 0, "nameless": 0},
    }
    code, out, _ = command(study)
    assert code == 0
    assert not missing(out, "2 labels", "that overlap another rater's part")


def test_what_the_command_refuses(tmp_path: Path, study: Path, demo_study: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(LONG + "s3,b,x\n")
    code, out, err = command(path)
    assert (code, out) == (2, "")
    assert not missing(err, "ratings.csv", "row 7", "'value'", "'x'")
    assert command(tmp_path / "none.csv")[0] == 2
    assert command(path, "--only", "a")[0] == 2
    assert "--threshold belongs to --kappa above" in command(path, "--threshold", 3)[2]
    assert "are of tables" in command(study, "--names")[2]
    code, _, err = command(demo_study)
    assert code == 2
    assert not missing(err, "no two raters labelled the")
    label(study, "s1,warmth,4,0,9,,anna", "s1,warmth,3,0,9,,ben")
    assert not missing(command(study, "--only", "anna", "--only", "z")[2], "the study has no such")
