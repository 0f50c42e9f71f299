"""The Dask cluster that does the work, of whichever kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flows.clusters.connection import Connection, Needs
from flows.clusters.settings import ExistingScheduler, Kubernetes, LocalCluster, Slurm

DASK = {
    # A lost worker may be replaced; with the default of 15 s Prefect's futures can hang for ever.
    "distributed.deploy.lost-worker-timeout": "300 s",
    "distributed.scheduler.allowed-failures": 3,
    # Dask keeps its last 1000 messages, state changes and events for its developers, here with all that was submitted.
    "distributed.admin.low-level-log-length": 50,
    # Nor does anybody look at its profile of our work, its measure of its own event loop or of the disks; together they
    # cost each worker and the driver more than one percent of a processor.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "200 ms",
    "distributed.admin.system-monitor.interval": "5 s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.worker.daemon": False,  # an extractor may start a process of its own
    # Dask has glibc give back every freed 64 kB to the kernel; a network frees and takes megabytes for every layer,
    # and the page faults cost it a third of its time. Memory is bounded by the batch anyway.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}


@contextmanager
def dask_cluster(
    settings: LocalCluster | ExistingScheduler | Slurm | Kubernetes,
    needs: Sequence[Needs],
    warn: Callable[[str], None] = lambda _: None,
) -> Iterator[Connection]:
    """A scheduler whose workers can do tasks with these needs.

    Args:
        warn: called, also from another thread, with a line about what the cluster waits for.

    Raises:
        ClusterError: they cannot be met; nothing has been started then, or it has been stopped again.
    """
    import dask
    import distributed  # noqa: F401  # its defaults have to be there before they are changed

    with dask.config.set(DASK):
        match settings:
            case LocalCluster():
                from flows.clusters.local import local_cluster

                manager = local_cluster(settings, needs)
            case ExistingScheduler():
                from flows.clusters.connection import existing_scheduler

                manager = existing_scheduler(settings, needs)
            case Slurm():
                from flows.clusters.slurm import slurm_cluster

                manager = slurm_cluster(settings, needs, warn)
            case Kubernetes():
                from flows.clusters.kubernetes import kubernetes_cluster

                manager = kubernetes_cluster(settings, needs)
        with manager as connection:
            yield connection
