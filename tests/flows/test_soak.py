"""A short soak: real runs are killed at random, and what is there in the end is what an undisturbed run gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_runs_that_are_killed_at_random_lose_nothing_and_leave_nothing() -> None:
    # The features that need neither a network nor its half a minute of imports.
    small = ["--sessions", "2", "--seconds", "3", "--without", "resnet50", "--without", "sbert"]
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "5", "--runs", "2", "--seed", "3", *small]
    if state := os.environ.get("STORYFRAMES_TEST_STATE"):  # by tests/run.py
        command += ["--state", state]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ended.returncode == 0, ended.stdout
    assert "seed 3: 0 things that must not be" in ended.stdout
    struck = ended.stdout.split("what was hit")[1].split("what ran")[0]
    assert "SIGKILL" in struck, ended.stdout
