"""``storyframes empathy evaluate``: what it prints, where it writes, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from empathy_support.runs import leave_run, leave_runs, predicted
from support.messages import missing
from typer.testing import CliRunner

from storyframes_empathy.commands.app import app
from storyframes_empathy.scores.run_record import Run


def run(*arguments: object):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_tables_go_to_stdout(tmp_path: Path) -> None:
    result = run(leave_runs(tmp_path))
    assert result.exit_code == 0, result.output
    assert "| EF-LSTM | v+a+t | 3 |" in result.stdout
    assert "as printed" not in result.stdout
    assert not missing(run(tmp_path, "--published").stdout, "the paper's Table")
    assert run(tmp_path, "--format", "csv").stdout.startswith("table,published,phase")
    assert run(tmp_path, "--format", "tex").stdout.startswith("% story_share")


def test_notes_are_not_lost_where_a_file_has_no_place_for_them(tmp_path: Path) -> None:
    result = run(leave_runs(tmp_path, caveats=["untrained weights"]), "--format", "csv")
    assert "untrained weights" not in result.stdout
    assert not missing(result.stderr, "note story_share", "ef_lstm", "2 more", "untrained weights")


def test_json_is_one_object_with_intervals(tmp_path: Path) -> None:
    result = run(leave_runs(tmp_path), "--format", "json", "--level", "story", "--published")
    found = json.loads(result.stdout)
    assert [table["published"] for table in found["tables"]] == [False, True]
    assert {one["level"] for one in found["runs"]} == {"story"}
    assert set(found["runs"][0]["intervals"]["rho"]) == {"low", "high", "reason"}


def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    out = tmp_path / "table.md"
    result = run(leave_runs(tmp_path / "runs"), "--out", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert out.read_text().startswith("### story")
    assert out.stat().st_mode & 0o777 == 0o600
    assert run(tmp_path / "runs", "--out", tmp_path / "no" / "table.md").exit_code == 1


def test_a_run_that_is_left_out_is_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    root = leave_runs(tmp_path)
    broken = next(root.rglob("0/predictions.parquet"))
    broken.write_bytes(b"PAR1")
    result = run(root)
    assert result.exit_code == 1
    assert "| EF-LSTM | v+a+t | 2 |" in result.stdout
    assert not missing(result.stderr, f"left out {broken}", "is not a whole Parquet")
    for each in root.rglob("predictions.parquet"):
        each.unlink()
    result = run(root)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no run could be scored" in result.stderr


@pytest.mark.parametrize("arguments", [(), ("nowhere",), (".", "--level", "window"), (".", "--format", "html")])
def test_a_wrong_call_ends_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments).exit_code == 2


def test_there_is_nothing_to_score_in_an_empty_folder(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 2
    assert not missing(result.stderr, "run.json", "in it or below")


def test_copies_and_splits_are_asked_for(tmp_path: Path) -> None:
    one = Run(phase="reflection", model="ridge", modalities="a")
    table = predicted(one).assign(copies=2)
    leave_run(tmp_path / "one", one, table.assign(split=["val", "test"] * (len(table) // 2)))
    counted = {
        options: json.loads(run(tmp_path, "--format", "json", *options).stdout)["runs"][0]["metrics"]["n"]
        for options in ((), ("--split", "val"), ("--each-once",))
    }
    assert counted == {(): 72, ("--split", "val"): 72, ("--each-once",): 36}
    assert "counts 2 times" in run(tmp_path, "--level", "story").stderr
    assert run(tmp_path, "--level", "story", "--each-once", "--allow-leaked").exit_code == 0
    assert "it has test, val" in run(tmp_path, "--split", "train").stderr


def test_scores_of_another_scale_are_named_with_both_scales_and_end_with_1(tmp_path: Path) -> None:
    """Predictions from 1 to 5 for labels from 0 to 1 gave an MSE of 691 without a word."""
    one = Run(phase="reflection", model="ridge", modalities="a", scheme="similar", minimum=0, maximum=1)
    table = predicted(one)
    sound = leave_run(tmp_path / "sound", one, table)
    assert run(tmp_path / "sound").exit_code == 0
    leave_run(tmp_path / "off/one", one, table.assign(score=1 + 4 * table["rating"]))
    result = run(tmp_path / "off")
    assert result.exit_code == 1
    for text in (result.stdout.replace("\\_", "_"), result.stderr):
        assert "scores go from 1 to 5, the scale 'scaled' of run.json from 0 to 1: " in text
        assert "MSE, Acc and F1 mean nothing" in text
    assert "| ridge | a | 1 |" in result.stdout  # and r is what it is
    found = json.loads(run(tmp_path / "off", "--json").stdout)
    assert (len(found["off_scale"]), found["faults"]) == (1, [])
    assert sound.exists()


@pytest.mark.parametrize(
    ("label", "least", "most", "said"),
    [
        ("rating", 0, 1, "OFF SCALE: scores go from 0 to 1, the scale 'rating' of run.json from 1 to 5"),
        ("unit", 0, 100, "OFF SCALE: scores go from 0 to 100, the scale 'unit' of run.json from 0.2 to 1"),
        ("binary", -3, 3, "OFF SCALE: scores go from -3 to 3, the scale 'binary' of run.json from 0 to 1"),
        ("scaled", -1, 1, ": scores go from -1 to 1, the scale 'scaled' of run.json from 0 to 1: 2 of 5"),  # cosines
        ("unit", -1, 0.1, ": scores go from -1 to 0.1, the scale 'unit' of run.json from 0.2 to 1: 5 of 5"),
        (
            "rating",
            -0.5,
            0.9,
            "OFF SCALE: scores go from -0.5 to 0.9, the scale 'rating' of run.json from 1 to 5: 5 of",
        ),
        ("rating", 0.5, 5.5, ": scores go from 0.5 to 5.5, the scale 'rating' of run.json from 1 to 5: 2 of 5"),
        ("rating", 1, 5, ""),
        ("scaled", 0, 1, ""),
    ],
)
def test_which_scale_was_found_and_which_expected(
    tmp_path: Path, label: str, least: float, most: float, said: str
) -> None:
    one = Run.model_validate({"phase": "reflection", "model": "m", "modalities": "a", "label": label})
    table = predicted(one).iloc[:5].assign(rating=[1.0, 2.0, 3.0, 4.0, 5.0], story_id=list("abcde"))
    step = (most - least) / 4
    leave_run(tmp_path / "one", one, table.assign(score=[least + step * at for at in range(5)]))
    result = run(tmp_path)
    assert result.exit_code == ("OFF SCALE" in said), result.output
    assert (said or "(docs/benchmark.md)") in result.stdout
    assert ("scores go from" in result.stdout) is bool(said)


def test_scores_that_are_all_above_the_ratings_are_said(tmp_path: Path) -> None:
    """Labels from 0 to 1 on a scale that was declared from 0 to 5."""
    one = Run.model_validate(
        {"phase": "p", "model": "m", "modalities": "a", "label": "rating", "scheme": "s", "minimum": 0, "maximum": 5}
    )
    table = predicted(one)
    leave_run(tmp_path / "one", one, table.assign(rating=table["rating"] / 5, score=1.5 + table["rating"] / 2))
    result = run(tmp_path)
    assert result.exit_code == 0
    assert not missing(result.stdout, "(1.5 to 4)", "on the same scale")


def test_a_leak_ends_with_1_unless_it_is_allowed(tmp_path: Path) -> None:
    one = Run(phase="reflection", model="ridge", modalities="a")
    table = predicted(one)
    table.loc[0, "split"] = "train"
    leave_run(tmp_path / "one", one, table)
    result = run(tmp_path)
    assert result.exit_code == 1
    assert not missing(result.stderr, "LEAKED", "p0", "test and in train")
    assert "| ridge | a | 1 |" in result.stdout
    allowed = run(tmp_path, "--allow-leaked")
    assert (allowed.exit_code, allowed.stderr) == (0, "")
    assert "LEAKED: the participant p0" in allowed.stdout


def test_a_storys_score_is_the_mean_of_its_clips_not_the_first(tmp_path: Path) -> None:
    """First, last, median and mean of the clips of each story differ; so do the numbers that each would give."""
    one = Run(phase="reflection", model="ridge", modalities="a")
    clips = {"t0": (2.0, [0.9, 0.1, 0.2]), "t1": (4.0, [0.1, 0.2, 0.9]), "t2": (5.0, [0.2, 1.0, 0.9])}
    table = predicted(one, people=1, clips=3).iloc[:9].copy()
    table["rating"] = [clips[story][0] for story in table["story_id"]]
    table["score"] = [score for _, scores in clips.values() for score in scores]
    leave_run(tmp_path / "one", one, table)
    metrics = json.loads(run(tmp_path, "--format", "json", "--level", "story").stdout)["runs"][0]["metrics"]
    # the means are 0.4, 0.4 and 0.7; the ratings 0.25, 0.75 and 1 on the scale from 0 to 1
    assert metrics["n"] == 3
    assert metrics["mse"] == pytest.approx((0.15**2 + 0.35**2 + 0.3**2) / 3)
    assert metrics["r"] == pytest.approx(0.4 / (0.06 * 14 / 3) ** 0.5)
    assert metrics["acc"] == pytest.approx(2 / 3)
