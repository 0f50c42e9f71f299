"""Short soaks: runs and parts are killed at random, and what is there in the end is what an undisturbed run gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.synthetic_features import write_features

from benchmarks.soak import parts
from benchmarks.soak.final_checks import stray_files
from benchmarks.soak.soak_paths import SoakPaths
from storyframes import FeatureStore
from storyframes.store.publish import record_attempt
from storyframes.store.records import Status

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
@pytest.mark.slow
def test_runs_that_are_killed_at_random_lose_nothing_and_leave_nothing() -> None:
    # The features that need neither a network nor its half a minute of imports; one run, whose driver is not hit.
    small = ["--sessions", "2", "--seconds", "3", "--without", "resnet50", "--without", "sbert"]
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "5", "--runs", "1", "--seed", "4105", *small]
    if state := os.environ.get("STORYFRAMES_TEST_STATE"):  # by tests/run.py
        command += ["--state", state]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ended.returncode == 0, ended.stdout
    assert "seed 4105: 0 things that must not be" in ended.stdout
    struck = ended.stdout.split("what was hit")[1].split("what ran")[0]
    assert "SIGKILL" in struck, ended.stdout


@pytest.mark.nightly
@pytest.mark.slow
def test_parts_that_are_killed_at_random_and_requeued_are_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parts.soak(tmp_path, sessions=12, parts=4, at_once=2, seed=23) == []
    said = capsys.readouterr().out
    assert "SIGKILL" in said, said
    assert "SIGTERM" in said, said
    root = tmp_path / "parts"
    damaged = next(path for path in root.rglob("c/**/*") if path.is_file())
    damaged.write_bytes(damaged.read_bytes()[::-1])
    assert any(str(damaged.name) in problem for problem in parts.differences(root, tmp_path / "one"))


@pytest.mark.slow
def test_the_lock_of_a_failed_attempt_is_no_stray_file(tmp_path: Path) -> None:
    paths = SoakPaths(tmp_path, ("openface",))
    for root in (paths.store, paths.reference):
        write_features(root)
    store = FeatureStore(paths.store)
    session_id = store.sessions[0]
    record_attempt(store.storage, session_id, "openface", Status.FAILED, "killed", "0" * 64)
    attempt = f"{session_id}/openface/attempt.json"
    assert list(stray_files(paths)) == [f"in one of the stores only: {attempt}"]
    store.storage.remove([attempt])
    assert list(stray_files(paths)) == []
