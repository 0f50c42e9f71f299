"""The Prefect server of a run: the one that is configured, else one that is started for this command.

Left to itself, Prefect would start an ephemeral server in the driver and another in every Dask worker. Here one
dedicated server serves them all and ends with the command, however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from flows.server.configured_server import (
    QUIET,
    ServerError,
    check_server,
    configured_url,
    spare_loopback,
    without_password,
)
from flows.server.recent_runs import end_dead_runs
from storyframes.store.storage.scratch import scratch_folder
from tasks.tools.disk_space import ENOUGH, places_without_room
from tasks.tools.patience import Patience
from tasks.tools.tool_process import guarded, reaper

# What it does for schedules, work pools, automations, limits and blocks: a server for one command has none. To register
# blocks, or to see that they are, it imports all that Prefect's plug-ins have.
_NOT_NEEDED = {
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
} | {
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


@contextlib.contextmanager
def prefect_server(progress: Callable[[str], None] = lambda _: None, *, read_only: bool = False) -> Iterator[str]:
    """The URL of the Prefect API to use: the configured one, else that of a server started for this block.

    Args:
        progress: called with what is being done, which takes seconds.
        read_only: the caller only asks: the records of runs on the server are not changed.

    Raises:
        ServerError: it cannot be used, or did not start.
        ServerLostError: the one started for this block died again and again.
    """
    os.environ.update(QUIET)
    spare_loopback()
    if configured := configured_url():
        progress(f"asking the Prefect server at {without_password(configured)}")
        check_server(configured)
        yield configured
        return
    from prefect.settings import (
        PREFECT_API_AUTH_STRING,
        PREFECT_API_SSL_CERT_FILE,
        PREFECT_API_URL,
        PREFECT_LOGGING_TO_API_ENABLED,
        temporary_settings,
    )

    progress("starting a Prefect server")
    if full := places_without_room(_ROOM):
        raise ServerError("\n".join(["the Prefect server of this run cannot be started:", *full]))
    with contextlib.ExitStack() as stack:
        home, alone = stack.enter_context(_home())
        # Every user of this machine reaches it, and only its owner sees a process's environment.
        password = f"storyframes:{secrets.token_urlsafe(32)}"
        server = OwnServer(home, _environment(home, password), progress)
        stack.enter_context(server.running())
        # Its log store ends with it, so nothing logged there would be read; failures are in the feature store.
        used = {
            PREFECT_API_URL: server.url,
            PREFECT_API_AUTH_STRING: password,
            PREFECT_API_SSL_CERT_FILE: str(_one_certificate(home)),
            PREFECT_LOGGING_TO_API_ENABLED: False,
        }
        for setting, value in used.items():
            os.environ[setting.name] = str(value)  # Dask workers inherit them
            stack.callback(os.environ.pop, setting.name, None)
        stack.enter_context(temporary_settings(used))
        if alone and not read_only:
            end_dead_runs()
        yield server.url


def _one_certificate(home: Path) -> Path:
    """Write a file with one certificate, for Prefect's clients of a server that has none.

    A client reads its certificates also where the server is reached by plain HTTP. A task has two clients, and the
    file that Prefect takes by default has more than 100 certificates: 25 ms for each client.
    """
    import certifi

    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
    path = home / "certificate.pem"
    path.write_text(f"{first}{end}\n", encoding="utf-8")
    return path


def _environment(home: Path, password: str) -> dict[str, str]:
    """The environment of the command's own server, without what is configured for another one (its database)."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith("PREFECT_")}
    return inherited | {
        **QUIET,
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


_STALLED_S = 120  # of a server that neither answers nor does anything
_LONGEST_START_S = 1800
_SLOW_START_S = 30
_WITHOUT = (
    "'storyframes extract' needs no server with --workers 1 (all in its own process), nor for a part of a study "
    "(--part 1/1)"
)
_STARTS = 5  # of one command's server; what dies more often will not live
_PAUSE_S = 1.0


class ServerLostError(Exception):
    """The command's own server died again and again in the middle of the run."""


class OwnServer:
    """A Prefect server on a free port of this machine, started again on the same port where it dies.

    Its clients try again meanwhile, and its database is where it was, so a run goes on.

    Attributes:
        url: of its API.
    """

    def __init__(self, home: Path, environment: Mapping[str, str], progress: Callable[[str], None]) -> None:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}/api"
        self._lost = False
        self._progress = progress
        self._home = home
        self._environment = environment
        start = (sys.executable, "-m", "prefect", "server", "start")
        self._command = guarded([*start, "--host", "127.0.0.1", "--port", str(port), "--no-ui"])
        self._ending = False
        self._process: subprocess.Popen[bytes]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Have it while the block runs.

        Raises:
            ServerError: it does not start; the message holds what it printed.
            ServerLostError: it died too often while the block ran.
        """
        self._start()
        keeper = threading.Thread(target=self._keep, name="prefect-server", daemon=True)
        try:
            self._wait_until_healthy()
            keeper.start()
            yield
        except BaseException:
            if self._lost:
                raise ServerLostError from None
            raise
        finally:
            self._ending = True
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _start(self) -> None:
        with (self._home / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._home,  # a configuration where the command runs is not for this server
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _keep(self) -> None:
        """Start it again while it is wanted; the thread must live, as its end is the death of what it started."""
        for _ in range(_STARTS - 1):
            self._process.wait()
            if self._ending:
                return
            time.sleep(_PAUSE_S)
            self._start()
            if self._ending:
                self._process.kill()
        self._process.wait()
        if not self._ending:
            self._lost = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _wait_until_healthy(self) -> None:
        """Wait for it, or say why it does not start; a full disk is named, in the place of what it printed."""
        log, starts, slow_at = self._home / "server.log", 1, time.monotonic() + _SLOW_START_S
        patience = Patience(lambda: [self._process.pid], log, stalled_s=_STALLED_S, limit_s=_LONGEST_START_S)
        while not (why := patience.why_over()):
            ended = self._process.poll()
            if ended is not None:
                if ended >= 0 or starts == _STARTS:
                    why = f"ended with {ended}"
                    break
                self._start()  # it was killed, which is no fault of its own
                starts += 1
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5):  # noqa: S310
                return
            if time.monotonic() > slow_at:
                slow_at = math.inf
                self._progress(f"waiting for the Prefect server, which starts slowly on this busy machine; {_WITHOUT}")
            time.sleep(0.1)
        if full := places_without_room(ENOUGH):
            raise ServerError("\n".join(["the Prefect server did not start:", *full]))
        printed = log.read_text(errors="replace").strip()[-1500:]
        raise ServerError(f"the Prefect server did not start: {why}. {_WITHOUT}. It printed:\n{printed or '(nothing)'}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
