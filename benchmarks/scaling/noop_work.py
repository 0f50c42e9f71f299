"""Work that does nothing, through the real machinery and through Dask alone. Each way runs in a process of its own:
``python -m benchmarks.scaling.noop_work WAY SESSIONS FOLDER``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

from flows.clusters.settings import LocalCluster
from storyframes.features import CLOCK
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from tasks.extract import ExtractionUnit, Outcome
from tasks.extractors.base import InputFile, Source
from tasks.extractors.registry import DEFAULT_FEATURES, ExtractorsSettings

CPUS = 2
_KINDS = ("video", "transcript", "openface")


class Way(StrEnum):
    """How the work is done."""

    STORYFRAMES = "storyframes"  # flows/on_cluster: Gather, Prefect with its dedicated server, Dask
    PREFECT = "Prefect and Dask alone"  # a server, a flow and its tasks, as their documentation has them
    DASK = "Dask alone"  # client.submit and nothing else


LONG: Mapping[str, float] = dict.fromkeys(DEFAULT_FEATURES, 1_000.0)  # CPU-seconds: each unit is a task of its own


class NoopUnit(ExtractionUnit):
    """A unit that gives back what an extraction gives, without the extraction."""

    __slots__ = ()

    def do(self) -> tuple[Outcome, ...]:
        return tuple(Outcome(self.session_id, feature, Status.DONE, rows=26_100) for feature in self.features)


def noop_work(sessions: int, folder: Path, costs: Mapping[str, float] = LONG) -> list[NoopUnit]:
    """What planning would give for so many new sessions: a unit for each feature, the clocks and what costs most first.

    Args:
        sessions: how many.
        folder: of a store, which is made, and of the files.
        costs: by feature, what is expected of each of its units.
    """
    create_store(folder / "features")
    settings = ExtractorsSettings()
    work = []
    for kind in _KINDS:
        (folder / kind).touch()
    for number in range(sessions):
        session_id = f"s{number:06d}"
        files = {kind: InputFile(folder / kind, f"{kind}s/{session_id}", f"{number:064x}", 0, 0) for kind in _KINDS}
        source = Source(session_id, files)
        for feature in costs:
            after = () if feature == "frames" else ("frames",)
            cost = costs[feature]
            work.append(NoopUnit(str(folder / "features"), source, (feature,), settings, after=after, cost=cost))
    return sorted(work, key=lambda unit: (unit.features != (CLOCK,), -unit.cost))


def through_storyframes(work: list[NoopUnit]) -> int:
    """As ``storyframes extract`` does it once planning has ended."""
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"
    from flows.server.prefect_server import prefect_server

    with prefect_server():
        from prefect import flow  # Prefect reads its environment when it is imported

        from flows.clusters.preflight import only_able_workers
        from flows.on_cluster import do_on_cluster
        from flows.study import extract_task

        @flow(name="noop")
        def noop() -> int:
            done = do_on_cluster(
                work,
                LocalCluster(cpus=CPUS),
                task=extract_task,
                admit=only_able_workers,
                doubts=lambda _: {},  # nothing is published, and doubts of that would wait for a minute
                settled=lambda _: None,
                warn=lambda _: None,
            )
            return len(done)

        return noop()


def nothing(number: int) -> int:
    return number


def through_prefect(work: list[NoopUnit]) -> int:
    """A server, a flow and its tasks on Dask's workers, and none of our code; its database stays."""
    port, quiet = _free_port(), subprocess.DEVNULL
    url = f"http://127.0.0.1:{port}/api"
    start = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port), "--no-ui"]
    home = Path(tempfile.gettempdir()) / f"storyframes-bench-prefect-{os.getuid()}"
    os.environ |= {"PREFECT_HOME": str(home), "PREFECT_LOGGING_LEVEL": "CRITICAL", "DO_NOT_TRACK": "1"}
    with subprocess.Popen(start, stdout=quiet, stderr=quiet) as server:
        try:
            while True:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health"):
                    break
                time.sleep(0.1)
            os.environ["PREFECT_API_URL"] = url
            from prefect import flow, task
            from prefect_dask import DaskTaskRunner

            one = task(nothing, persist_result=False)
            runner = DaskTaskRunner(cluster_kwargs={"n_workers": CPUS, "threads_per_worker": 1})

            @flow(name="noop", task_runner=runner)
            def noop() -> int:
                return len([future.result() for future in [one.submit(number) for number in range(len(work))]])

            return noop()
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def through_dask(work: list[NoopUnit]) -> int:
    """The same calls on the same cluster."""
    from flows.clusters.dask_cluster import dask_cluster

    needs = [unit.needs for unit in work]
    with dask_cluster(LocalCluster(cpus=CPUS), needs) as connection, connection.client() as client:
        futures = [client.submit(NoopUnit.do, unit, resources=dict(unit.needs), pure=False) for unit in work]
        return len([outcome for outcomes in client.gather(futures) for outcome in outcomes])


WAYS: dict[Way, Callable[[list[NoopUnit]], int]] = {
    Way.STORYFRAMES: through_storyframes,
    Way.PREFECT: through_prefect,
    Way.DASK: through_dask,
}


def main() -> None:
    way, sessions, folder = Way(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    work = noop_work(sessions, folder)
    if (done := WAYS[way](work)) != len(work):
        sys.exit(f"{way}: {done} of {len(work)} units of work came back")


if __name__ == "__main__":
    from benchmarks.scaling import (
        noop_work as by_name,  # so that workers import what they are sent, as they do with extract
    )

    by_name.main()
