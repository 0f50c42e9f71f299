"""The Prefect server of a run: the one that is configured, else one that is started for this command.

Left to itself, Prefect would start an ephemeral server in the driver and another in every Dask worker. Here one
dedicated server serves them all and ends with the command, however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from flows.runs.configured_server import ServerError, check_server, without_password
from flows.runs.own_server import OwnServer
from flows.runs.recent import end_dead_runs
from storyframes.store.storage.scratch import scratch_folder
from tasks.tools.disk_space import places_without_room
from tasks.tools.tool_process import reaper

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


_ROOM = 2 << 20  # for what it writes while it starts: a database, its log and SQLite's temporary files
_SAY_WHERE = "set XDG_STATE_HOME to a folder that can be written to"
# What never goes through a proxy, whatever http_proxy says.
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@contextlib.contextmanager
def prefect_server(tell: Callable[[str], None] = lambda _: None, *, looking: bool = False) -> Iterator[str]:
    """The URL of the Prefect API to use: the configured one, else that of a server started for this block.

    Args:
        tell: told what is done about a server, which takes seconds.
        looking: the caller only asks: nothing is written of the runs that the server knows.

    Raises:
        ServerError: it cannot be used, or did not start.
        ServerLostError: the one started for this block died again and again.
    """
    os.environ.update(_QUIET)
    spare_loopback()
    try:
        from prefect.settings import (
            PREFECT_API_AUTH_STRING,
            PREFECT_API_URL,
            PREFECT_LOGGING_TO_API_ENABLED,
            temporary_settings,
        )

        configured = PREFECT_API_URL.value()
    except ValueError as error:  # pydantic's
        raise ServerError(f"Prefect's settings cannot be used: {str(error).splitlines()[-2].strip()}") from None
    if configured:
        tell(f"asking the Prefect server at {without_password(configured)}")
        check_server(configured)
        yield configured
        return
    tell("starting a Prefect server")
    if full := places_without_room(_ROOM):
        raise ServerError("\n".join(["the Prefect server of this run cannot be started:", *full]))
    with contextlib.ExitStack() as stack:
        home, alone = stack.enter_context(_home())
        # Every user of this machine reaches it. Nobody else sees a process's environment.
        password = f"storyframes:{secrets.token_urlsafe(32)}"
        server = OwnServer(home, _environment(home, password))
        stack.enter_context(server.running())
        # Its log store ends with it, so nobody would read what is logged there; what failed is in the feature store.
        used = {PREFECT_API_URL: server.url, PREFECT_API_AUTH_STRING: password, PREFECT_LOGGING_TO_API_ENABLED: False}
        for setting, value in used.items():
            os.environ[setting.name] = str(value)  # Dask workers inherit them
            stack.callback(os.environ.pop, setting.name, None)
        stack.enter_context(temporary_settings(used))
        if alone and not looking:
            end_dead_runs()
        yield server.url


def spare_loopback() -> None:
    """Keep what goes to this machine from a configured proxy, in this process and in all that it starts."""
    there = [host for name in ("no_proxy", "NO_PROXY") for host in os.environ.get(name, "").split(",")]
    hosts = ",".join(dict.fromkeys(host for host in (*map(str.strip, there), *_LOOPBACK) if host))
    os.environ.update(no_proxy=hosts, NO_PROXY=hosts)


def _environment(home: Path, password: str) -> dict[str, str]:
    """The environment of the command's own server, without what is configured for another one (its database)."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith("PREFECT_")}
    return inherited | {
        **_QUIET,
        **_NOT_NEEDED,
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home}/prefect.db",
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_API_AUTH_STRING": password,
    }


@contextlib.contextmanager
def _home() -> Iterator[tuple[Path, bool]]:
    """The server's folder, and whether it is the one that is kept from run to run, as a new database takes 10 s.

    While another command uses that, it is a passing one.
    """
    kept = _kept_home()
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


def _kept_home() -> Path:
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        kept = state / "storyframes" / "prefect"
        kept.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(kept, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(kept))
    except RuntimeError:
        raise ServerError(f"there is no home folder for Prefect's database: {_SAY_WHERE}") from None
    except OSError as error:
        raise ServerError(
            f"Prefect's database cannot be kept in {error.filename} ({error.strerror}): {_SAY_WHERE}"
        ) from None
    return kept
