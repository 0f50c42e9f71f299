"""The process of a server that one command has for itself: started, kept alive, and ended with the command."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from flows.runs.configured_server import ServerError
from tasks.tools.disk_space import ENOUGH, places_without_room
from tasks.tools.tool_process import guarded

_START_TIMEOUT_S = 120
_STARTS = 5  # of one command's server; what dies more often will not live
_PAUSE_S = 1.0


class ServerLostError(Exception):
    """The command's own server died again and again in the middle of the run."""


class OwnServer:
    """A Prefect server on a free port of this machine, started again on the same port where it dies.

    Whoever speaks with it tries again by himself meanwhile, and its database is where it was, so a run goes on.

    Attributes:
        url: of its API.
    """

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}/api"
        self._lost = False
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
        deadline, starts = time.monotonic() + _START_TIMEOUT_S, 1
        while time.monotonic() < deadline:
            ended = self._process.poll()
            if ended is not None:
                if ended >= 0 or starts == _STARTS:
                    break
                self._start()  # somebody killed it, which is no fault of its own
                starts += 1
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5):  # noqa: S310
                return
            time.sleep(0.1)
        if full := places_without_room(ENOUGH):
            raise ServerError("\n".join(["the Prefect server did not start:", *full]))
        printed = (self._home / "server.log").read_text(errors="replace").strip()[-1500:]
        raise ServerError(f"the Prefect server did not start (exit {self._process.poll()}); it printed:\n{printed}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
