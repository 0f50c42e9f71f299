"""Every command that reports says the same to scripts: ``--json`` gives JSON on stdout, with the same exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands import storyframes_here
from support.studies import make_study
from typer.testing import CliRunner

from flows.cli.app import app


def run(*arguments: object) -> tuple[int, Any]:
    """The exit code of a command and what its JSON says; the same command without ``--json`` ends alike."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    plain = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == plain.exit_code, (done.output, plain.output)
    return done.exit_code, json.loads(done.stdout)


@pytest.fixture
def study(demo_study: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo_study, tmp_path / "study"))


def test_a_study_is_checked_for_scripts(study: Path) -> None:
    code, said = run("check", study, "--tables-only")
    assert (code, said["valid"], said["sessions"]) == (0, True, 3)
    (study / "phases.csv").write_text("session_id,phase,start_s,end_s\nnobody,talk,0,1\n")
    code, said = run("check", study, "--tables-only")
    assert (code, said["valid"]) == (2, False)
    assert said["problems"][0]["table"] == "phases"
    assert said["problems"][0]["row"] == 2


def test_the_clip_index_is_written_and_counted_for_scripts(study: Path, tmp_path: Path) -> None:
    code, said = run("index", study, "--out", tmp_path / "clips.parquet")
    assert code == 0
    assert said["clips"] == sum(row["clips"] for row in said["by_phase_and_split"]) > 0
    assert said["excluded"] == {}


def test_a_store_is_kept_for_scripts(store_root: Path) -> None:
    code, said = run("verify", store_root)
    assert (code, said["sound"]) == (0 if said["versions"] else 1, said["versions"] > 0)
    code, said = run("gc", store_root, "--dry-run")
    assert (code, said["dry_run"], said["removed"]) == (0, True, [])


def test_what_extraction_needs_is_listed_for_scripts() -> None:
    code, said = run("extractors", "list")
    by_feature = {one["feature"]: one for one in said["extractors"]}
    assert (code, by_feature["resnet50"]["inputs"], said["unusable"]) == (0, ["video"], {})
    code, said = run("models", "list")
    assert code == 0
    assert {"model", "here", "bytes", "about", "licence"} == set(said[0])


def test_what_a_command_writes_is_its_user_s_alone() -> None:
    code = (
        "import atexit, os; atexit.register(lambda: print(oct(os.umask(0)))); from flows.cli.entry import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, umask=0o022)
    assert ended.stdout.splitlines()[-1] == "0o77"


def test_an_extraction_of_which_a_feature_fails_ends_with_1(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", transcript="t.vtt")
    (study / "t.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nhello\n")
    command = ["extract", str(study), str(tmp_path / "features"), "--features", "glove"]
    (tmp_path / "c.toml").write_text(f'[glove]\nvectors = "{tmp_path}/none"\n[cluster]\ncpus = 1\n')
    assert storyframes_here(*command, "--config", tmp_path / "c.toml").returncode == 1
