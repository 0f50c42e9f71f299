"""The Dask cluster that does the work."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flows.settings import ClusterSettings

if TYPE_CHECKING:
    from distributed import LocalCluster

_DASK = {
    # A lost worker may be replaced; with the default of 15 s Prefect's futures can hang for ever.
    "distributed.scheduler.lost-worker-timeout": "300 s",
    "distributed.scheduler.allowed-failures": 3,
    "distributed.worker.daemon": False,  # an extractor may start a process of its own
    # Dask has glibc give back every freed 64 kB to the kernel; a network frees and takes megabytes for every layer,
    # and the page faults cost it a third of its time. Memory is bounded by the batch anyway.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}


@contextmanager
def local_cluster(settings: ClusterSettings, tasks: int) -> Iterator[LocalCluster]:
    """A Dask cluster on this machine: one process per worker, one task each at a time, for this many tasks."""
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set(_DASK),
        LocalCluster(
            n_workers=settings.worker_count(tasks),
            threads_per_worker=1,
            memory_limit=settings.memory_limit or "auto",
            dashboard_address=None,
            silence_logs=logging.ERROR,
        ) as cluster,
    ):
        yield cluster
