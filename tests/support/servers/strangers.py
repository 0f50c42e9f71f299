"""Another user of this machine, or another machine, who tries what he can on the ports of a run."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

INTRUDER = Path(__file__).with_name("intruder.py")
NOBODY = 65534
# "true" for monitoring, which has no password; and what is the same on every Prefect server.
HARMLESS = {"GET /api/health", "GET /api/ready", "GET /docs", "GET /openapi.json", "GET /ui-settings"}


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Into which everybody may write; pytest's own are its owner's."""
    folder = Path(tempfile.mkdtemp(prefix="open-", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def intrude(folder: Path, places: list[str], prefix: list[str] | None = None) -> dict[str, dict[str, str]]:
    """What a stranger is told at each of these places."""
    command = [*(prefix or []), sys.executable, str(INTRUDER), str(folder), str(NOBODY), *places]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["user"] == NOBODY
    return answer["told"]


def let_in(told: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """What was not refused."""
    answered = {
        place: {way: said for way, said in answers.items() if not said.startswith("refused") and way not in HARMLESS}
        for place, answers in told.items()
    }
    return {place: answers for place, answers in answered.items() if answers}
