"""While a run lasts, nobody else on the machine or on the network runs code in it or is told anything."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.processes import command_line, ended, ports_of, processes_with, wait_for
from support.servers.strangers import intrude, let_in, open_folder

ROOT = Path(__file__).parents[2]
LOOPBACK = "0100007F"
# The two ends of a wire. Each process has its own: what a killed one left behind would take the answers.
_PLACE = os.getpid() % 16384
HERE, THERE = (f"10.231.{_PLACE // 64}.{_PLACE % 64 * 4 + end}" for end in (1, 2))
NETWORK = "strangers"  # and the number of the process
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60).close()"

# To become another user, and to make another network.
pytestmark = [pytest.mark.slow, pytest.mark.needs("root", "ip")]


@dataclass
class Run:
    """An extraction whose tool hangs.

    Attributes:
        ports: all on which its processes listen.
        processes: their command lines.
        folder: into which everybody may write.
    """

    ports: set[tuple[str, int]]
    processes: list[str]
    folder: Path

    def places(self, host: str) -> list[str]:
        return [f"{host}:{port}" for _, port in sorted(self.ports)]


@pytest.fixture(scope="module")
def run(demo_study: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("run")
    tool = folder / "FeatureExtraction"
    tool.write_text("#!/bin/sh\ntouch $0.runs\nexec sleep 1000\n")
    tool.chmod(0o755)
    config = folder / "c.toml"
    config.write_text(f'[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n[cluster]\ncpus = 2\n')
    command = [sys.executable, "-m", "flows.cli", "extract", "--server", str(demo_study), str(folder / "features")]
    command += ["--features", "openface", "--config", str(config)]
    mark = f"STORYFRAMES_TEST={uuid.uuid4()}"
    environment = os.environ | dict([mark.split("=")])
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: (folder / "FeatureExtraction.runs").exists() or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text()
        with open_folder() as open_to_all:
            pids = processes_with(mark)
            yield Run(ports_of(pids), [command_line(pid) for pid in pids], open_to_all)
    finally:
        process.send_signal(signal.SIGINT)
        ended(process)


@pytest.fixture(scope="module")
def other_network() -> Iterator[list[str]]:
    """What to put before a command so that it runs on another machine, as far as the network can tell."""
    name, near, far = (f"{it}{os.getpid()}" for it in (NETWORK, "sfn", "sff"))

    def ip(*arguments: str) -> str:
        return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout

    for other in re.findall(rf"^{NETWORK}(\d+)", ip("netns"), flags=re.MULTILINE):
        if not Path(f"/proc/{other}").exists():
            ip("netns", "delete", f"{NETWORK}{other}")  # its tests were killed
    ip("netns", "add", name)
    try:
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        ip("address", "add", f"{HERE}/30", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", name, "address", "add", f"{THERE}/30", "dev", far)
        ip("-n", name, "link", "set", far, "up")
        inside = ["ip", "netns", "exec", name]
        with socket.create_server((HERE, 0)) as server:  # the wire carries: where nothing does, nothing is refused
            port = server.getsockname()[1]
            subprocess.run([*inside, sys.executable, "-c", CONNECT, HERE, str(port)], check=True)
        yield inside
    finally:
        ip("netns", "delete", name)  # and with it both ends of the wire


def test_a_run_listens_on_loopback_only(run: Run) -> None:
    assert len(run.ports) >= 4  # the Prefect server, the scheduler, a nanny, its worker
    assert {address for address, _ in run.ports} == {LOOPBACK}


def test_another_user_runs_nothing_and_is_told_nothing(run: Run) -> None:
    told = intrude(run.folder, run.places("127.0.0.1"))
    assert let_in(told) == {}
    assert list(run.folder.iterdir()) == []
    assert sum("GET /api/health" in answers for answers in told.values()) == 1  # the server was there


def test_another_machine_reaches_nothing(run: Run, other_network: list[str]) -> None:
    assert let_in(intrude(run.folder, run.places(HERE), other_network)) == {}
    assert list(run.folder.iterdir()) == []


def test_a_cluster_that_is_open_to_all_lets_the_intruder_in(other_network: list[str]) -> None:
    """The attack is a real one."""
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=1, host=HERE, dashboard_address=f"{HERE}:0") as cluster,
        open_folder() as folder,
    ):
        (nanny,) = cluster.workers.values()
        places = [address.partition("//")[2] for address in (cluster.scheduler_address, nanny.address)]
        places += [nanny.worker_address.partition("//")[2], f"{HERE}:{cluster.scheduler.http_server.port}"]
        assert set(let_in(intrude(folder, places))) == set(places)
        traces = {path.name for path in folder.iterdir()}
        assert set(let_in(intrude(folder, places, other_network))) == set(places)
    assert len(traces) == 3


def test_no_secret_is_on_a_command_line(run: Run) -> None:
    assert len(run.processes) >= 3  # the run, its server, a worker
    for command in run.processes:
        assert "PRIVATE KEY" not in command
        assert "storyframes:" not in command
