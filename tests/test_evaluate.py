"""``storyframes evaluate``: what it prints, where it writes, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.runs import leave_run, leave_runs, predicted
from typer.testing import CliRunner

from flows.cli.app import app
from tasks.empathy.run_record import Run


def run(*arguments: object):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_tables_go_to_stdout(tmp_path: Path) -> None:
    result = run(leave_runs(tmp_path))
    assert result.exit_code == 0, result.output
    assert "| EF-LSTM | v+a+t | 3 |" in result.stdout
    assert "as printed" not in result.stdout
    assert "the paper's Table 2 as printed" in run(tmp_path, "--published").stdout
    assert run(tmp_path, "--format", "csv").stdout.startswith("table,published,phase")
    assert run(tmp_path, "--format", "tex").stdout.startswith("% story_share")


def test_notes_are_not_lost_where_a_file_has_no_place_for_them(tmp_path: Path) -> None:
    result = run(leave_runs(tmp_path, caveats=["untrained weights"]), "--format", "csv")
    assert "untrained weights" not in result.stdout
    assert "note story_share, ef_lstm, v+a+t, seed 0 and 2 more: untrained weights" in result.stderr


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
    assert f"left out {broken}: is not a whole Parquet file" in result.stderr
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
    assert "there is no run.json in it or below" in result.stderr


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
    assert run(tmp_path, "--level", "story", "--each-once").exit_code == 0
    assert "it has test, val" in run(tmp_path, "--split", "train").stderr
