"""The Dask cluster that does the work."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flows.settings import ClusterSettings

if TYPE_CHECKING:
    from distributed import SpecCluster

_DASK = {
    # A lost worker may be replaced; with the default of 15 s Prefect's futures can hang for ever.
    "distributed.deploy.lost-worker-timeout": "300 s",
    "distributed.scheduler.allowed-failures": 3,
    "distributed.worker.daemon": False,  # an extractor may start a process of its own
    # Dask has glibc give back every freed 64 kB to the kernel; a network frees and takes megabytes for every layer,
    # and the page faults cost it a third of its time. Memory is bounded by the batch anyway.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}


class ClusterError(Exception):
    """The work cannot be done on this cluster; the message says what is asked for and what there is."""


def worker_shapes(cpus: int, needs: Sequence[Mapping[str, float]]) -> list[int]:
    """How many processors each worker process has, so that no more run than there are.

    One process per processor is best; but a tool that runs on several at once takes them from one worker, so then
    each worker has as many, with as many threads: either the tool's task runs in it, or that many others.

    Args:
        cpus: of this machine.
        needs: the resources of every task.

    Raises:
        ClusterError: a task asks for more processors than there are, or for what a local cluster does not have.
    """
    for need in needs:
        for resource, amount in need.items():
            there = cpus if resource == "CPU" else 0
            if amount > there:
                raise ClusterError(f"a feature asks for {amount:g} {resource}, but this cluster has {there}")
    width = max(int(need.get("CPU", 1)) for need in needs)
    useful = min(cpus, int(sum(need.get("CPU", 1) for need in needs)))
    return [width] * (useful // width) + [1] * (useful % width)


@contextmanager
def local_cluster(settings: ClusterSettings, needs: Sequence[Mapping[str, float]]) -> Iterator[SpecCluster]:
    """A Dask cluster on this machine for tasks with these needs.

    Raises:
        ClusterError: they cannot be met.
    """
    shapes = worker_shapes(settings.cpus or len(os.sched_getaffinity(0)), needs)
    import dask
    from distributed import Nanny, Scheduler, SpecCluster

    def worker(cpus: int) -> dict[str, Any]:
        options = {
            "nthreads": cpus,
            "resources": {"CPU": cpus},
            "memory_limit": settings.memory_limit or "auto",
            "dashboard": False,
            "silence_logs": logging.ERROR,
        }
        return {"cls": Nanny, "options": options}

    with (
        dask.config.set(_DASK),
        SpecCluster(
            workers={number: worker(cpus) for number, cpus in enumerate(shapes)},
            scheduler={"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard": False}},
            silence_logs=logging.ERROR,
        ) as cluster,
    ):
        yield cluster
