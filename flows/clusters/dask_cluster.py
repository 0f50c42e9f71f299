"""The Dask cluster that does the work, of whichever kind; the one of this machine has a process for each processor."""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import current_process, forkserver, resource_tracker
from pathlib import Path
from typing import Any, cast

import dask
from distributed import SpecCluster, utils  # Dask's defaults have to be there before they are changed
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from flows.clusters.connection import ClusterError, Connection, Needs, check_needs, existing_scheduler
from flows.clusters.dask_parts import STARTS, Nanny, Scheduler, Worker
from flows.clusters.gpu_sharing import processes_of
from flows.clusters.settings import ExistingScheduler, Kubernetes, LocalCluster, Slurm
from storyframes.store.storage.scratch import scratch_folder
from tasks.tools.disk_space import ENOUGH, places_without_room

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
    with dask.config.set(DASK):
        match settings:
            case LocalCluster():
                manager = local_cluster(settings, needs)
            case ExistingScheduler():
                manager = existing_scheduler(settings, needs)
            case Slurm():
                from flows.clusters.slurm import slurm_cluster

                manager = slurm_cluster(settings, needs, warn)
            case Kubernetes():
                from flows.clusters.kubernetes import kubernetes_cluster

                manager = kubernetes_cluster(settings, needs)
        with manager as connection:
            yield connection


_LOOPBACK = "127.0.0.1"
_SAFE_PATH = "PYTHONSAFEPATH"  # where it is not empty, Python imports nothing from the folder it is started in


@contextmanager
def local_cluster(settings: LocalCluster, needs: Sequence[Needs]) -> Iterator[Connection]:
    sharing = processes_of(settings, needs)
    workers = local_workers(settings.processors, settings.gpus, needs, sharing)
    if full := places_without_room():
        raise ClusterError("\n".join(["no worker can be started on this machine:", *full]))
    # A client of a scheduler or a worker runs code as its owner, and every user of this machine reaches loopback:
    # so certificates, made for this run and kept in the memory of its processes.
    security = Security.temporary()
    common: dict[str, Any] = {"host": _LOOPBACK, "protocol": "tls://", "security": security, "dashboard": False}
    gpus = itertools.cycle(_devices(settings.gpus))
    gpu_memory = MEMORY_LIMIT // max(settings.gpus * sharing, 1)
    safe_path = os.environ.get(_SAFE_PATH, "")

    def worker(resources: dict[str, float]) -> dict[str, Any]:
        options: dict[str, Any] = {
            "worker_class": Worker,
            "nthreads": int(resources.get("CPU", 1)),
            "resources": resources,
            "memory_limit": settings.memory_limit or (gpu_memory if "GPU" in resources else "auto"),
            # Outcomes say what became of the units; a worker's own errors come at the end, when the scheduler
            # is gone before its last heartbeat.
            "silence_logs": logging.CRITICAL,
        }
        # A GPU's process sees its own only, the others see none. How Python looks for modules is for the process that
        # forks workers (see _forked_workers), not for programs that they run.
        devices = next(gpus) if "GPU" in resources else ""
        options["env"] = {"CUDA_VISIBLE_DEVICES": devices, _SAFE_PATH: safe_path}
        return {"cls": Nanny, "options": common | options}

    with ExitStack() as stack:
        # What workers spill to disk is a person's: a later run removes the folder where this one was killed.
        folder = stack.enter_context(scratch_folder("dask"))
        common["local_directory"] = str(folder)
        stack.enter_context(_forked_workers(folder))
        try:
            with _without_ctrl_c():
                cluster = SpecCluster(
                    workers={number: worker(resources) for number, resources in enumerate(workers)},
                    scheduler={"cls": Scheduler, "options": common | {"port": 0}},
                    security=security,
                    silence_logs=logging.ERROR,
                )
        except RuntimeError as error:
            if "Nanny failed to start" not in str(error):
                raise
            why = "; ".join(places_without_room(ENOUGH)) or "out of memory? See 'dmesg', and try fewer cpus"
            raise ClusterError(f"a worker's process died {STARTS} times while it started: {why}") from error
        stack.enter_context(cluster)
        yield Connection(cluster.scheduler_address, security)


@contextmanager
def _forked_workers(folder: Path) -> Iterator[None]:
    """Fork the workers of this block from one process that has imported what they need.

    That process is multiprocessing's fork server, of which there is one for each process: where this process uses it
    already, and on other systems than Linux, workers start from scratch.

    Args:
        folder: for the server's socket. A later run removes it where this process was killed.
    """
    server, config = cast(Any, forkserver)._forkserver, cast(Any, current_process())._config
    descriptor = os.open(folder, os.O_RDONLY)
    # The folder's own path may be too long for a socket, whose address has at most 107 characters.
    short = f"/proc/{os.getpid()}/fd/{descriptor}"
    try:
        if server._forkserver_pid is not None or not os.path.isdir(short):
            yield
            return
        before = config.get("tempdir"), server._preload_modules
        safe_path = os.environ.get(_SAFE_PATH)
        # The server imports before it knows this process's path: a user's tasks.py would be taken for our package.
        os.environ[_SAFE_PATH] = "1"
        config["tempdir"] = short
        utils._forkserver_preload_set = True  # Dask would import pandas, here and in the server
        forkserver.set_forkserver_preload(["flows.worker_imports"])
        try:
            with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
                yield
        finally:
            if server._forkserver_pid is not None:
                os.kill(server._forkserver_pid, signal.SIGTERM)  # the workers have ended
                server._stop()
            config["tempdir"], server._preload_modules = before
            os.environ.pop(_SAFE_PATH)
            if safe_path is not None:
                os.environ[_SAFE_PATH] = safe_path
    finally:
        os.close(descriptor)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Keep Ctrl-C from the threads that are started in this block, and from all processes that those ever start.

    A terminal sends it to the workers as well, which would print tracebacks; this process takes them down.
    """
    resource_tracker.ensure_running()  # it would let Ctrl-C in again where it is started by one of these threads
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _devices(gpus: int) -> list[str]:
    """The GPUs to use, as CUDA names them: the first of those that this process may see."""
    visible = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    return visible[:gpus] if len(visible) >= gpus > 0 else [str(number) for number in range(max(gpus, 1))]


def local_workers(cpus: int, gpus: int, needs: Sequence[Needs], sharing: int = 1) -> list[dict[str, float]]:
    """The resources of each worker process of a local cluster, so that no more runs than there is.

    One process per processor is best; but a tool that runs on several at once takes them from one worker, so then
    each worker has as many, with as many threads: either the tool's task runs in it, or that many others. A GPU has
    processes of its own, which work for processors stays out of.

    Args:
        sharing: how many processes share each GPU.

    Raises:
        ClusterError: a task asks for more than there is.
    """
    check_needs(needs, [{"CPU": cpus}, *([{"GPU": 1}] if gpus else [])])
    processors = [need["CPU"] for need in needs if "CPU" in need]
    width = int(max(processors, default=1))
    useful = min(cpus, int(sum(processors)))
    using_gpus = sum("GPU" in need for need in needs)
    wide: dict[str, float] = {"CPU": width}
    narrow: dict[str, float] = {"CPU": 1}
    gpu: dict[str, float] = {"GPU": 1 / max(sharing, 1)}
    return [wide] * (useful // width) + [narrow] * (useful % width) + [gpu] * min(gpus * max(sharing, 1), using_gpus)
