"""The storyframes command, in a process of its own or in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
WIDE = {"COLUMNS": "1000"}  # no cell is folded
# For extractions of hardly anything: a second worker takes longer to start than what it does.
ONE_WORKER = ("--cluster", str(Path(__file__).with_name("one_worker.yaml")))


def storyframes(
    *arguments: object, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; ``environment`` is added to this process's. Tables are as wide as their content."""
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    told = os.environ | WIDE | dict(environment or {})
    return subprocess.run(command, capture_output=True, text=True, cwd=folder or ROOT, env=told)


def storyframes_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, for tests that are not about its process: one takes a second or two to start."""
    from flows.cli.app import app

    words = [*map(str, arguments)]
    before = os.umask(0o077)  # as the command has it
    try:
        ended = CliRunner().invoke(app, words, env=WIDE, catch_exceptions=False)
    finally:
        os.umask(before)
    return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout, ended.stderr)
