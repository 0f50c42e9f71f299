"""Work that does nothing, through the real machinery and through Dask alone. Each way runs in a process of its own:
``python -m benchmarks.scaling.noop_work WAY SESSIONS FOLDER``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

from flows.clusters.settings import LocalCluster
from storyframes.features import CLOCK
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from tasks.extract import Outcome, Work
from tasks.extractors.base import InputFile, Source
from tasks.extractors.registry import DEFAULT_FEATURES, ExtractorsSettings

CPUS = 2
_KINDS = ("video", "transcript", "openface")


class Way(StrEnum):
    """How the work is done."""

    STORYFRAMES = "storyframes"  # flows/cluster_work: Gather, Prefect with its dedicated server, Dask
    DASK = "dask"  # client.submit and nothing else


LONG: Mapping[str, float] = dict.fromkeys(DEFAULT_FEATURES, 1_000.0)  # CPU-seconds: each unit is a task of its own


def noop_work(sessions: int, folder: Path, costs: Mapping[str, float] = LONG) -> list[Work]:
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
            work.append(Work(str(folder / "features"), source, (feature,), settings, after=after, cost=cost))
    return sorted(work, key=lambda unit: (unit.features != (CLOCK,), -unit.cost))


def noop(work: Work) -> tuple[Outcome, ...]:
    """What an extraction gives back, without the extraction."""
    return tuple(Outcome(work.session_id, feature, Status.DONE, rows=26_100) for feature in work.features)


def through_storyframes(work: list[Work]) -> int:
    """As ``storyframes extract`` does it once planning has ended."""
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"
    from flows.runs.server import prefect_server

    with prefect_server():
        from benchmarks.scaling.noop_task import noop_task  # Prefect reads its environment when it is imported
        from flows.work import do_work

        return len(do_work(work, LocalCluster(cpus=CPUS), lambda _: None, noop_task))


def through_dask(work: list[Work]) -> int:
    """The same calls on the same cluster."""
    from flows.clusters.dask_cluster import dask_cluster
    from flows.work import needs_of

    needs = [needs_of(unit) for unit in work]
    with dask_cluster(LocalCluster(cpus=CPUS), needs) as connection, connection.client() as client:
        futures = [client.submit(noop, unit, resources=dict(needs_of(unit)), pure=False) for unit in work]
        return len([outcome for outcomes in client.gather(futures) for outcome in outcomes])


WAYS: dict[Way, Callable[[list[Work]], int]] = {Way.STORYFRAMES: through_storyframes, Way.DASK: through_dask}


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
