"""A PostgreSQL and a Prefect server on it, on loopback, gone with the block."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.processes import wait_for

DEPLOY = Path(__file__).parents[3] / "deploy"
_FAST = "-c fsync=off -c full_page_writes=off -c synchronous_commit=off"  # this database need not survive a power cut


def postgres_programs() -> Path | None:
    """Debian's folder of initdb and pg_ctl, of the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


@dataclass(frozen=True)
class Database:
    """An empty PostgreSQL database whose user needs its password.

    Attributes:
        url: for Prefect's server.
        stop: takes it away, as a power cut does.
        start: brings it back, with what was committed.
    """

    url: str
    stop: Callable[[], None]
    start: Callable[[], None]


@contextlib.contextmanager
def postgres(programs: Path) -> Iterator[Database]:
    """A database that is gone with the block."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))  # not pytest's: its path has to be short, and open
    user = _unprivileged()
    if user:
        shutil.chown(folder, user)
    password, port = secrets.token_hex(16), free_port()
    (folder / "password").write_text(password)
    (folder / "password").chmod(0o644)

    def run(program: str, *arguments: str) -> None:
        as_user: dict[str, Any] = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
        command = [str(programs / program), "-D", str(folder / "data"), *arguments]
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **as_user
        )
        if done.returncode:
            log = folder / "log"
            raise RuntimeError(f"{program}: {done.stdout}\n{log.read_text() if log.exists() else ''}")

    try:
        run("initdb", "-U", "prefect", "-A", "scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync")
        where = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"

        def start() -> None:
            run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f"{where} {_FAST}", "start")

        def stop() -> None:
            if (folder / "data/postmaster.pid").exists():  # not stopped already
                run("pg_ctl", "-w", "-m", "immediate", "stop")

        start()
        try:
            yield Database(f"postgresql+asyncpg://prefect:{password}@127.0.0.1:{port}/postgres", stop, start)
        finally:
            stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> str | None:
    """PostgreSQL refuses root; Debian's package makes a user for it."""
    return "postgres" if os.geteuid() == 0 else None


def settings_of(name: str) -> dict[str, str]:
    """The variables of one of deploy/'s environment files."""
    lines = (DEPLOY / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@contextlib.contextmanager
def running(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is asked to end with the block, and made to if it does not."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class PrefectServer:
    """A Prefect server that asks for a password.

    Attributes:
        environment: of those who use it.
        restart: kills it and starts another in its place; its database stays.
    """

    environment: dict[str, str]
    restart: Callable[[], None]


@contextlib.contextmanager
def prefect_server_on(database: str, folder: Path, changes: Mapping[str, str]) -> Iterator[PrefectServer]:
    """A server with the settings of deploy/prefect-server.env and changes, gone with the block."""
    port, password = free_port(), f"storyframes:{secrets.token_hex(16)}"
    common = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")} | {
        "PREFECT_HOME": str(folder),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_API_AUTH_STRING": password,
    }
    secret = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": database, "PREFECT_SERVER_API_AUTH_STRING": password}
    environment = common | settings_of("prefect-server.env") | secret | dict(changes)
    arguments = ["server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    command = [sys.executable, "-m", "prefect", *arguments]
    with contextlib.ExitStack() as stack:

        def start() -> subprocess.Popen[bytes]:
            process = stack.enter_context(running(command, environment, folder / "server.log"))
            health = f"http://127.0.0.1:{port}/api/health"
            wait_for(lambda: process.poll() is not None or _healthy(health), "the server does not answer")
            if process.poll() is not None:
                raise RuntimeError((folder / "server.log").read_text()[-3000:])
            return process

        process = start()

        def restart() -> None:
            nonlocal process
            os.killpg(process.pid, signal.SIGKILL)
            stack.close()
            process = start()

        yield PrefectServer(common | settings_of("prefect-worker.env"), restart)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
