"""The Dask cluster that does the work, of whichever kind."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flows.cluster_settings import ExistingScheduler, Kubernetes, LocalCluster, Slurm

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

Needs = Mapping[str, float]

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


_GPU_THREADS = 4  # so many sessions may share a GPU ([resnet50] sessions_per_gpu)
_LOOPBACK = "127.0.0.1"


class ClusterError(Exception):
    """The work cannot be done on this cluster; the message says what is asked for and what there is."""


@dataclass(frozen=True)
class Connection:
    """A scheduler, and what one needs to be let in.

    Attributes:
        address: ``tls://host:port``.
        security: the certificates; without them a scheduler that lets everybody in.
    """

    address: str
    security: Security | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What a Dask client is made with, besides the address."""
        return {"security": self.security, "set_as_default": False}

    def client(self, **options: Any) -> Client:
        """A client of it, to be closed by the caller.

        Raises:
            OSError, ValueError: nobody answers there, or not with these certificates.
        """
        from distributed import Client

        return Client(self.address, **self.options, **options)


@contextmanager
def dask_cluster(
    settings: LocalCluster | ExistingScheduler | Slurm | Kubernetes, needs: Sequence[Needs]
) -> Iterator[Connection]:
    """A scheduler whose workers can do tasks with these needs.

    Raises:
        ClusterError: they cannot be met; nothing has been started then, or it has been stopped again.
    """
    import dask
    import distributed  # noqa: F401  # its defaults have to be there before they are changed

    with dask.config.set(DASK):
        match settings:
            case LocalCluster():
                manager = _local(settings, needs)
            case ExistingScheduler():
                manager = _existing(settings, needs)
            case Slurm():
                from flows.slurm import slurm_cluster

                manager = slurm_cluster(settings, needs)
            case Kubernetes():
                from flows.kubernetes import kubernetes_cluster

                manager = kubernetes_cluster(settings, needs)
        with manager as connection:
            yield connection


def check_needs(needs: Sequence[Needs], workers: Sequence[Needs]) -> None:
    """Refuse tasks that no worker can do: Dask would let them wait in silence.

    Args:
        needs: the resources of every task.
        workers: the resources of every worker there is or will be.

    Raises:
        ClusterError: with the first need that cannot be met.
    """
    for need in needs:
        if not any(all(worker.get(name, 0) >= amount for name, amount in need.items()) for worker in workers):
            wanted = ", ".join(f"{amount:g} {name}" for name, amount in need.items())
            there = "; ".join(sorted({_show(worker) for worker in workers})) or "no worker"
            raise ClusterError(f"a feature asks for {wanted}, but no worker has that (there is: {there})")


def _show(worker: Needs) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in worker.items()) or "a worker that declares no resources"


def local_workers(cpus: int, gpus: int, needs: Sequence[Needs]) -> list[dict[str, float]]:
    """The resources of each worker process of a local cluster, so that no more runs than there is.

    One process per processor is best; but a tool that runs on several at once takes them from one worker, so then
    each worker has as many, with as many threads: either the tool's task runs in it, or that many others. A GPU has a
    process of its own, which work for processors stays out of.

    Raises:
        ClusterError: a task asks for more than there is.
    """
    check_needs(needs, [{"CPU": cpus}, *([{"GPU": 1}] if gpus else [])])
    processors = [need["CPU"] for need in needs if "CPU" in need]
    width = int(max(processors, default=1))
    useful = min(cpus, int(sum(processors)))
    workers: list[dict[str, float]] = [{"CPU": width}] * (useful // width) + [{"CPU": 1}] * (useful % width)
    using_gpus = sum("GPU" in need for need in needs)
    return workers + [{"GPU": 1}] * min(gpus, using_gpus)


@contextmanager
def _local(settings: LocalCluster, needs: Sequence[Needs]) -> Iterator[Connection]:
    workers = local_workers(settings.processors, settings.gpus, needs)
    from distributed import SpecCluster
    from distributed.security import Security

    from flows.dask_parts import STARTS, Nanny, Scheduler, Worker

    # Whoever may speak to a scheduler or a worker runs code as its owner, and loopback is every user's of this machine:
    # so certificates, made for this run and kept in the memory of its processes.
    security = Security.temporary()
    common: dict[str, Any] = {"host": _LOOPBACK, "protocol": "tls://", "security": security, "dashboard": False}
    gpus = iter(range(settings.gpus))

    def worker(resources: dict[str, float]) -> dict[str, Any]:
        options: dict[str, Any] = {
            "worker_class": Worker,
            "nthreads": int(resources.get("CPU", _GPU_THREADS)),
            "resources": resources,
            "memory_limit": settings.memory_limit or "auto",
            # What becomes of the work is told by its outcomes; a worker's own errors are of the end, when the scheduler
            # is gone before its last heartbeat.
            "silence_logs": logging.CRITICAL,
        }
        # A GPU's process sees its own only, the others see none.
        options["env"] = {"CUDA_VISIBLE_DEVICES": str(next(gpus)) if "GPU" in resources else ""}
        return {"cls": Nanny, "options": common | options}

    try:
        cluster = SpecCluster(
            workers={number: worker(resources) for number, resources in enumerate(workers)},
            scheduler={"cls": Scheduler, "options": common | {"port": 0}},
            security=security,
            silence_logs=logging.ERROR,
        )
    except RuntimeError as error:
        if "Nanny failed to start" not in str(error):
            raise
        raise ClusterError(
            f"a worker's process died {STARTS} times while it started: out of memory? See 'dmesg', and try fewer cpus"
        ) from error
    with cluster:
        yield Connection(cluster.scheduler_address, security)


@contextmanager
def _existing(settings: ExistingScheduler, needs: Sequence[Needs]) -> Iterator[Connection]:
    connection = Connection(settings.address, _certificates(settings))
    wait_for_workers(connection, needs, settings.wait_s)
    yield connection


def _certificates(settings: ExistingScheduler) -> Security | None:
    from distributed.security import Security

    if settings.insecure and settings.address.startswith("tcp://"):
        return None
    try:
        if settings.tls is None:
            security = Security(require_encryption=True)
        else:
            mode = settings.tls.key.stat().st_mode
            if mode & 0o007:
                raise ClusterError(f"{settings.tls.key}: everybody may read or change this private key: chmod 600")
            ca, cert, key = (str(path) for path in (settings.tls.ca, settings.tls.cert, settings.tls.key))
            security = Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)
        context = security.get_connection_args("client")["ssl_context"]
    except OSError as error:  # ssl.SSLError is one
        files = settings.tls or "of Dask's own configuration"
        raise ClusterError(f"the certificates for {settings.address} cannot be used ({error}): {files}") from None
    if context is None:
        raise ClusterError(
            f"there are no certificates for {settings.address}: name them under 'tls' in the cluster's file"
        )
    return security


def wait_for_workers(connection: Connection, needs: Sequence[Needs], wait_s: float) -> None:
    """Wait until the scheduler has a worker for every need.

    Raises:
        ClusterError: it cannot be reached, or has none in time.
    """
    import time

    from distributed.comm.core import FatalCommClosedError

    deadline = time.monotonic() + wait_s
    try:
        client = connection.client(timeout=min(max(wait_s, 1), 30))
    except FatalCommClosedError:
        raise ClusterError(
            f"{connection.address} does not know these certificates: are they of another cluster?"
        ) from None
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"there is no Dask scheduler at {connection.address} ({type(error).__name__})") from None
    with client:
        while True:
            workers = [
                worker.get("resources", {}) for worker in client.scheduler_info(n_workers=-1)["workers"].values()
            ]
            try:
                check_needs(needs, workers)
            except ClusterError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return
