"""Workers as jobs of a Slurm cluster, through dask-jobqueue, with the certificates of the run."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import fcntl
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flows.clusters.connection import SAY_EVERY_S, ClusterError, Connection, Needs, check_needs, wait_for_workers
from flows.clusters.settings import Slurm, WorkerShape

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster
    from distributed import Scheduler
    from distributed.security import Security
    from tornado.ioloop import IOLoop


_LOOK_EVERY_S = 10.0
_LOST_AFTER = "30 s"
_SAID = 3  # jobs in a sentence
_ANSWERS_S = 30.0  # that squeue is waited for


@contextmanager
def slurm_cluster(
    settings: Slurm, needs: Sequence[Needs], warn: Callable[[str], None] = lambda _: None
) -> Iterator[Connection]:
    """A scheduler in this process and one job per worker, kept at strength: a job that ends early is replaced.

    Where work that is due has no worker for ``start_timeout_s``, and none does anything, the scheduler ends.

    Args:
        warn: called every minute while work has no worker, with what the jobs wait for, by what Slurm says.

    Raises:
        ClusterError: the jobs cannot meet the needs, none starts in time, or the certificates cannot be written.
    """
    check_needs(needs, [resources for _, resources in _workers(settings)])
    import dask
    from dask_jobqueue import SLURMCluster

    from flows.clusters.dask_parts import Scheduler

    # A job that Slurm killed is given up and replaced sooner than a worker that its nanny restarts.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": _LOST_AFTER}),
        certificates_in_files(settings.shared_directory) as security,
        SLURMCluster(
            security=security,
            scheduler_cls=Scheduler,
            scheduler_options={"dashboard": False, "walltime_s": settings.walltime_s},
            **_job(settings, settings.cpu, {"CPU": settings.cpu.cpus}),
        ) as cluster,
    ):
        _set_workers(cluster, settings)
        stop = threading.Event()
        connection = Connection(cluster.scheduler_address, security)
        keeping = (_keep_at_strength, cluster, settings, stop, connection.gave_up.append, warn)
        # Prefect's logger, to which warnings go, reads its settings from the context of the flow.
        keeper = threading.Thread(target=contextvars.copy_context().run, args=keeping, daemon=True)
        keeper.start()
        try:
            wait_for_workers(
                connection, needs, settings.start_timeout_s, why=lambda: f"; {_state_of(cluster)}", warn=warn
            )
            yield connection
        finally:
            stop.set()
            keeper.join()


def job_scripts(settings: Slurm) -> list[str]:
    """The batch scripts that would be submitted, for looking at them."""
    from dask_jobqueue.slurm import SLURMJob

    return [
        SLURMJob(scheduler="tcp://<scheduler>", name="worker", **_job(settings, shape, resources)).job_script()
        for shape, resources in _workers(settings)
    ]


def _workers(settings: Slurm) -> list[tuple[WorkerShape, Needs]]:
    workers: list[tuple[WorkerShape, Needs]] = [(settings.cpu, {"CPU": settings.cpu.cpus})]
    if settings.gpu:
        workers.append((settings.gpu, {"GPU": 1}))
    return workers


def _job(settings: Slurm, shape: WorkerShape, resources: Needs) -> dict[str, Any]:
    declared = ",".join(f"{name}={amount:g}" for name, amount in resources.items())
    directives = [*shape.directives, *([settings.gpu_directive] if "GPU" in resources else [])]
    options = {
        "queue": settings.queue,
        "account": settings.account,
        "walltime": settings.walltime,
        "cores": shape.cpus,
        "job_cpu": shape.cpus,
        "processes": 1,
        "memory": shape.memory,
        "interface": settings.interface,
        "job_script_prologue": list(settings.prologue),
        "job_extra_directives": directives,
        "worker_extra_args": [
            "--resources",
            declared,
            "--no-dashboard",
            "--worker-class",
            "flows.clusters.dask_parts.Worker",
        ],
        "log_directory": settings.log_directory,
        "python": settings.python,
        "job_name": "storyframes",
    }
    return {name: value for name, value in options.items() if value is not None}


def _set_workers(cluster: SLURMCluster, settings: Slurm) -> None:
    template = cluster.new_spec
    specification = {}
    for shape, resources in _workers(settings):
        kind = "gpu" if "GPU" in resources else "cpu"
        for number in range(shape.count):
            job = copy.copy(template)
            job["options"] = {**template["options"], **_job(settings, shape, resources)}
            specification[f"{kind}-{number}"] = job
    cluster.worker_spec.update(specification)
    cluster.scale(len(cluster.worker_spec))


def _keep_at_strength(
    cluster: SLURMCluster,
    settings: Slurm,
    stop: threading.Event,
    gave_up: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Submit the jobs that are missing, again and again: Slurm ends jobs at their time limit."""
    joined: set[str] = set()
    said = time.monotonic()
    loop, scheduler = cast("IOLoop", cluster.loop), cast("Scheduler", cluster.scheduler)  # None after the cluster's end
    while not stop.wait(_LOOK_EVERY_S):
        # Tasks for which no worker has the resources; before the first worker there is none.
        waiting_s = max((time.monotonic() - since for since in list(scheduler.unrunnable.values())), default=0.0)
        if waiting_s > SAY_EVERY_S and time.monotonic() > said + SAY_EVERY_S:
            said = time.monotonic()
            warn(f"work waits for workers since {waiting_s:.0f} s: {_state_of(cluster)}")
        if waiting_s > settings.start_timeout_s and not any(w.processing for w in list(scheduler.workers.values())):
            gave_up(f"no worker for what is due since {waiting_s:.0f} s: {_state_of(cluster)}")
            loop.add_callback(scheduler.close)
            return
        names = {worker["name"] for worker in cluster.scheduler_info["workers"].values()}
        joined |= {job.job_id for name, job in cluster.workers.copy().items() if name in names}
        for name, job in cluster.workers.copy().items():
            if job.job_id and job.job_id not in joined and not _is_in_the_queue(job.job_id):
                # Dask misses only workers that it has seen; this one's job ended while it started.
                loop.add_callback(cluster.workers.pop, name, None)
        cluster.scale(len(cluster.worker_spec))


def _state_of(cluster: SLURMCluster) -> str:
    """How many workers there are, and what Slurm says of the jobs that are to be others."""
    joined = {worker["name"] for worker in cluster.scheduler_info["workers"].values()}
    missing = {job.job_id for name, job in cluster.workers.copy().items() if name not in joined and job.job_id}
    lines, error = _squeue(missing) if missing else ([], "")
    more = [f"and {len(lines) - _SAID} more"] if len(lines) > _SAID else []
    said = [line.replace("PENDING", "pending").replace("RUNNING: None", "starts") for line in lines[:_SAID]]
    return "; ".join([f"{len(joined)} workers", *(said or [error or "no job in the queue"]), *more])


def _is_in_the_queue(job: str) -> bool:
    """Whether the job waits or runs; yes where Slurm does not answer."""
    lines, error = _squeue({job})
    return bool(lines or error)


def _squeue(jobs: set[str]) -> tuple[list[str], str]:
    """What Slurm says of those of the jobs that it has in its queue, a line each; or why it says nothing."""
    command = ["squeue", "--noheader", "--jobs", ",".join(sorted(jobs)), "--format", "job %i %T: %r"]
    try:  # Slurm's programs are wherever the site has put them
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWERS_S)
    except subprocess.TimeoutExpired:
        return [], f"Slurm does not answer: squeue gave nothing for {_ANSWERS_S:.0f} s"
    except OSError as error:  # no memory for another process: the keeper of the jobs goes on
        return [], f"Slurm does not answer: squeue cannot be run ({error.strerror})"
    if asked.returncode and "Invalid job id" not in asked.stderr:  # so it says of one that it has forgotten
        return [], f"Slurm does not answer: {' '.join(asked.stderr.split()) or f'squeue ended with {asked.returncode}'}"
    return asked.stdout.splitlines(), ""


_PREFIX = "storyframes-tls-"
_OLD_S = 3600  # a folder younger than that may be of a run that has not locked it yet


@contextlib.contextmanager
def certificates_in_files(shared_directory: str | None) -> Iterator[Security]:
    """New certificates, in a folder of their own that goes with the block; folders of runs that were killed go as well.

    Args:
        shared_directory: where to make the folder; None for ``.storyframes`` in the home.

    Raises:
        ClusterError: they cannot be written there.
    """
    from distributed.security import Security

    shared = Path(shared_directory) if shared_directory else Path.home() / ".storyframes"
    temporary = Security.temporary()
    try:
        shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sweep(shared)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=shared))
    except OSError as error:
        raise ClusterError(
            f"{shared}: the certificates of this run cannot be written there ({error.strerror}): name a folder that "
            "the nodes share as shared_directory in the cluster's file"
        ) from None
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, lock)
        with contextlib.suppress(OSError):  # a file system without locks: no run sweeps there either
            fcntl.flock(lock, fcntl.LOCK_EX)
        cert = _write(folder / "cert.pem", temporary.tls_ca_file)
        key = _write(folder / "key.pem", temporary.tls_client_key)
        roles = {f"tls_{role}_{kind}": path for role in _ROLES for kind, path in (("cert", cert), ("key", key))}
        yield Security(require_encryption=True, tls_ca_file=cert, **roles)


_ROLES = ("client", "scheduler", "worker")


def _write(path: Path, text: str) -> str:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return str(path)


def _sweep(shared: Path) -> None:
    """Remove what killed runs have left: no process holds its lock any more."""
    for folder in shared.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime < _OLD_S:
                continue
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
