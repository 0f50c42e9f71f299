"""Dask workers of one scheduler, each of which may see another folder than this process under some path."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.processes import wait_for

ROOT = Path(__file__).parents[3]


@dataclass
class Workers:
    """A scheduler without certificates, and the workers that a test starts.

    Attributes:
        folder: of the scheduler's file, the cluster's file and the logs.
    """

    folder: Path
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The scheduler's."""
        return self.folder / "scheduler.json"

    @property
    def cluster(self) -> Path:
        """What ``--cluster`` takes."""
        import json

        path = self.folder / "cluster.yaml"
        address = json.loads(self.file.read_text())["address"]
        path.write_text(f"kind: address\naddress: {address}\ninsecure: true\n")
        return path

    def start(self, name: str, *arguments: str, blind_to: Path | None = None, **environment: str) -> None:
        """Start a process of Dask; with ``blind_to`` an empty folder of its own lies over that path.

        Args:
            name: of the process and its log.
            arguments: of ``python -m dask``.
            blind_to: a folder that is there.
            environment: in addition to this process's.
        """
        command = [sys.executable, "-m", "dask", *arguments]
        if blind_to is not None:
            mount = f"mount -t tmpfs -o size=100m tmpfs {shlex.quote(str(blind_to))} && exec {shlex.join(command)}"
            command = ["unshare", "--mount", "sh", "-c", mount]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.started[name] = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def join(self, name: str, *, blind_to: Path | None = None, nanny: bool = False, **environment: str) -> None:
        """Start a worker that does one task at a time."""
        options = ["--nthreads", "1", "--resources", "CPU=1", "--no-dashboard", "--host", "127.0.0.1", "--name", name]
        options += [] if nanny else ["--no-nanny"]
        self.start(name, "worker", "--scheduler-file", str(self.file), *options, blind_to=blind_to, **environment)

    def there(self) -> dict[str, str]:
        """The addresses of the workers that the scheduler has, by name."""
        from distributed import Client

        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            workers = client.scheduler_info(n_workers=-1)["workers"]
        return {worker["name"]: address for address, worker in workers.items()}

    def log(self, name: str) -> str:
        """What a process printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")


@contextmanager
def scheduler_of(folder: Path) -> Iterator[Workers]:
    """A scheduler, ended with all its workers at the end of the block."""
    workers = Workers(folder)
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(workers.file))
    workers.start("scheduler", "scheduler", *options)
    try:
        wait_for(workers.file.exists)
        yield workers
    finally:
        for process in workers.started.values():
            process.kill()
        for process in workers.started.values():
            process.wait(60)
