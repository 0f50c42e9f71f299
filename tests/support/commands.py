"""The storyframes command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
# For extractions of hardly anything: a second worker takes longer to start than what it does.
ONE_WORKER = ("--cluster", str(Path(__file__).with_name("one_worker.yaml")))


def storyframes(
    *arguments: object, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; ``environment`` is added to this process's."""
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    told = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | dict(environment or {})
    return subprocess.run(command, capture_output=True, text=True, cwd=folder or ROOT, env=told)
