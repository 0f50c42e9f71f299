"""A Prefect server for one command, where none is configured.

Without one, Prefect starts an ephemeral server in the driver and another in every Dask worker. Here one dedicated
server serves them all and ends with the command, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from flows.runs import mark_abandoned
from storyframes.scratch import scratch_folder
from tasks.reaper import reaper

_START_TIMEOUT_S = 120
_QUIET = {
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}
# What it does for schedules, work pools, automations and limits: a server for one command has none.
_NOT_NEEDED = {
    f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false"
    for service in (
        "SCHEDULER",
        "LATE_RUNS",
        "FOREMAN",
        "PAUSE_EXPIRATIONS",
        "REPOSSESSOR",
        "CANCELLATION_CLEANUP",
        "CLEANUP_RECONCILER",
        "TRIGGERS",
    )
}


class ServerError(Exception):
    """The Prefect server did not start; the message holds what it printed."""


@contextlib.contextmanager
def prefect_server() -> Iterator[str]:
    """The URL of the Prefect API to use: the configured one, else that of a server started for this block.

    Raises:
        ServerError: it did not come up.
    """
    os.environ.update(_QUIET)
    from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

    if configured := PREFECT_API_URL.value():
        yield configured
        return
    with contextlib.ExitStack() as stack:
        home, alone = stack.enter_context(_home())
        url = stack.enter_context(_dedicated_server(home))
        # Its log store ends with it, so nobody would read what is logged there; what failed is in the feature store.
        os.environ.update(PREFECT_API_URL=url, PREFECT_LOGGING_TO_API_ENABLED="false")  # Dask workers inherit both
        stack.callback(os.environ.pop, "PREFECT_API_URL", None)
        stack.callback(os.environ.pop, "PREFECT_LOGGING_TO_API_ENABLED", None)
        stack.enter_context(temporary_settings({PREFECT_API_URL: url, PREFECT_LOGGING_TO_API_ENABLED: False}))
        if alone:
            mark_abandoned()
        yield url


@contextlib.contextmanager
def _home() -> Iterator[tuple[Path, bool]]:
    """The server's folder, and whether it is the one that is kept from run to run, as a new database takes 10 s.

    While another command uses that, it is a passing one.
    """
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    kept = state / "storyframes" / "prefect"
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(kept / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with scratch_folder("prefect") as passing, reaper(passing):
                yield passing, False
            return
        yield kept, True
    finally:
        os.close(lock)


@contextlib.contextmanager
def _dedicated_server(home: Path) -> Iterator[str]:
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    guard = Path(__file__).parent.parent / "tasks" / "parent_death.py"
    command = [sys.executable, str(guard), str(os.getpid()), sys.executable, "-m", "prefect", "server", "start"]
    environment = os.environ | {
        **_NOT_NEEDED,
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
    }
    with (home / "server.log").open("wb+") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port), "--no-ui"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_until_healthy(url, process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310
            return
        time.sleep(0.1)
    log.seek(0)
    printed = log.read().decode(errors="replace").strip()[-1500:]
    raise ServerError(f"the Prefect server did not start (exit {process.poll()}); it printed:\n{printed}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
