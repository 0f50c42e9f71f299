"""One Prefect server for the commands of tests that are not about servers: each would start its own, for 5 CPU-s."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

GIVEN = "STORYFRAMES_TEST_SERVER"  # by tests/run.py: what one_server gives, as JSON
_SERVE = """
import json, os, sys
from flows.server.prefect_server import prefect_server

with prefect_server():
    names = ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_LOGGING_TO_API_ENABLED")
    print(json.dumps({name: os.environ[name] for name in names}), flush=True)
    sys.stdin.read()
"""


@contextmanager
def one_server(state: Path) -> Iterator[Mapping[str, str]]:
    """What the environment of a command needs to use the server that runs while the block does.

    It is in a process of its own, as what is set in this one would be for everything that imports Prefect here.

    Args:
        state: a folder, where its database is or will be.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    serving = subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        cwd=Path(__file__).parents[3],
        env=environment | {"XDG_STATE_HOME": str(state)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with serving:
        assert serving.stdin
        assert serving.stdout
        yield json.loads(serving.stdout.readline())
        serving.stdin.close()
