"""Workers as jobs of a Slurm cluster, through dask-jobqueue, with the certificates of the run."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import fcntl
import math
import os
import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dask
from dask_jobqueue import SLURMCluster
from dask_jobqueue.slurm import SLURMJob
from distributed.deploy.spec import ProcessInterface
from distributed.security import Security

from flows.clusters.connection import SAY_EVERY_S, ClusterError, Connection, Needs, check_needs, wait_for_workers
from flows.clusters.dask_parts import STARTS, Scheduler
from flows.clusters.gpu_sharing import processes_of
from flows.clusters.settings import Slurm, WorkerShape
from storyframes.store.storage.scratch import is_left, make_scratch_folder

if TYPE_CHECKING:
    from tornado.ioloop import IOLoop

_LOOK_EVERY_S = 10.0
_LOST_AFTER = "30 s"
_BRIEF_S = 60.0  # a worker that leaves sooner could not do anything
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
        ClusterError: the jobs cannot meet the needs, none starts in time, the environment sets another walltime, or the
            certificates cannot be written.
    """
    if limit := os.environ.get("SBATCH_TIMELIMIT"):
        raise ClusterError(f"SBATCH_TIMELIMIT={limit} would replace the 'walltime' of the cluster's file: unset it")
    check_needs(needs, [resources for _, resources in kinds_of_workers(settings)])
    sharing = processes_of(settings, needs)
    # A job that Slurm killed is given up and replaced sooner than a worker that its nanny restarts.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": _LOST_AFTER}),
        certificates_in_files(settings.shared_directory) as security,
        SLURMCluster(
            security=security,
            job_cls=_Job,  # type: ignore[arg-type]  # a class, whatever its annotation says
            scheduler_cls=Scheduler,
            scheduler_options={"dashboard": False, "walltime_s": settings.walltime_s},
            **job_options(settings, settings.cpu, {"CPU": settings.cpu.cpus}),
        ) as cluster,
    ):
        _set_workers(cluster, settings, sharing)
        stop = threading.Event()
        connection = Connection(cluster.scheduler_address, security)
        kinds = {_kind(need) for need in needs}
        jobs = _Jobs(cluster, settings, kinds, connection.gave_up, warn)
        # Prefect's logger, to which warnings go, reads its settings from the context of the flow.
        keeping = (jobs.keep_at_strength, stop)
        keeper = threading.Thread(target=contextvars.copy_context().run, args=keeping, daemon=True)
        keeper.start()
        try:
            wait_for_workers(connection, needs, settings.start_timeout_s, why=lambda: f"; {jobs.state()}", warn=warn)
            yield connection
        finally:
            stop.set()
            keeper.join()


def kinds_of_workers(settings: Slurm) -> list[tuple[WorkerShape, Needs]]:
    workers: list[tuple[WorkerShape, Needs]] = [(settings.cpu, {"CPU": settings.cpu.cpus})]
    if settings.gpu:
        workers.append((settings.gpu, {"GPU": 1}))
    return workers


def job_options(settings: Slurm, shape: WorkerShape, resources: Needs, sharing: int = 1) -> dict[str, Any]:
    """dask-jobqueue's options of a kind of jobs; ``sharing`` processes share the GPU of each."""
    processes = max(sharing, 1) if "GPU" in resources else 1
    declared = ",".join(
        f"{name}={amount / processes if processes > 1 else amount}" for name, amount in resources.items()
    )
    directives = [*shape.directives, *([settings.gpu_directive] if "GPU" in resources else [])]
    options = {
        "queue": settings.queue,
        "account": settings.account,
        "walltime": settings.walltime,
        "cores": processes if "GPU" in resources else shape.cpus,  # threads of all its processes
        "job_cpu": shape.cpus,
        "processes": processes,
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


def _set_workers(cluster: SLURMCluster, settings: Slurm, sharing: int) -> None:
    template = cluster.new_spec
    specification = {}
    for shape, resources in kinds_of_workers(settings):
        for number in range(shape.count):
            job = copy.copy(template)
            job["options"] = {**template["options"], **job_options(settings, shape, resources, sharing)}
            specification[f"{_kind(resources)}-{number}"] = job
    cluster.worker_spec.update(specification)
    cluster.scale(len(cluster.worker_spec))


def _kind(resources: Needs) -> str:
    """Of a worker with these resources, or of work that needs them."""
    return "gpu" if "GPU" in resources else "cpu"


class _Job(SLURMJob):
    """A job that says why Slurm does not take it; dask-jobqueue would keep it as one that is submitted."""

    refusal = ""
    refused_at = math.inf

    async def start(self) -> None:
        """Submit it."""
        try:
            await super().start()  # type: ignore[no-untyped-call]  # dask-jobqueue has no types
        except (RuntimeError, ValueError, OSError) as error:
            self.refusal = " ".join((str(error).partition("stderr:")[2] or str(error)).split())
            self.refused_at = time.monotonic()
            await ProcessInterface.start(self)


class _Jobs:
    """The jobs of a cluster, which are submitted again as they end: Slurm ends them at their time limit.

    Those whose workers do not stay are not submitted for ever; one that Slurm does not take is tried once a minute.
    """

    def __init__(
        self,
        cluster: SLURMCluster,
        settings: Slurm,
        kinds: set[str],
        gave_up: list[str],
        warn: Callable[[str], None],
    ) -> None:
        self._cluster, self._settings, self._gave_up, self._warn = cluster, settings, gave_up, warn
        self._kinds = kinds  # of workers that the run needs, each before it begins
        # None after the cluster's end
        self._loop, self._scheduler = cast("IOLoop", cluster.loop), cast("Scheduler", cluster.scheduler)
        self._seen_at: dict[str, float] = {}  # by job, when its worker was seen first; infinite until it is
        # By worker, its jobs in a row that have not lasted.
        self._brief: defaultdict[str, list[str]] = defaultdict(list)
        self._given_up = ""  # the last worker that was, and why
        self._said = time.monotonic()

    def keep_at_strength(self, stop: threading.Event) -> None:
        """Look again and again, until the run ends or no worker will come any more."""
        while not stop.wait(_LOOK_EVERY_S):
            try:
                if not self._gave_up:
                    self._look()
                if self._gave_up and self._scheduler.tasks:  # before any, the run sees it where it waits for workers
                    self._loop.add_callback(self._scheduler.close)
                    return
            except Exception as error:  # whatever Dask raises: the workers would become fewer in silence
                self._warn(f"the jobs of Slurm were not looked after: {error!r}")

    def _look(self) -> None:
        cluster, now = self._cluster, time.monotonic()
        # Tasks for which no worker has the resources; before the first worker there is none.
        waiting_s = max((now - since for since in list(self._scheduler.unrunnable.values())), default=0.0)
        if waiting_s > SAY_EVERY_S and now > self._said + SAY_EVERY_S:
            self._said = now
            self._warn(f"work waits for workers since {waiting_s:.0f} s: {self.state()}")
        ended = self._ended(now)
        for name, job in ended.items():  # Dask misses only workers that it has seen
            self._loop.add_callback(self._forget, name, job)
        for name in {*ended, *(cluster.worker_spec.keys() - cluster.workers.keys())}:
            if len(self._brief[name]) >= STARTS:
                del cluster.worker_spec[name]
                self._given_up = (
                    f"the worker {name} is not started again: its jobs {', '.join(self._brief[name])} ended before it "
                    f"had been there for {_BRIEF_S:.0f} s: look at their output in "
                    f"{self._settings.log_directory or 'the folder where the run began'}"
                )
                self._warn(self._given_up)
        busy = any(worker.processing for worker in list(self._scheduler.workers.values()))
        refusals = [] if self._seen_at else [job.refusal for job in cluster.workers.copy().values()]
        kinds = {name.partition("-")[0] for name in cluster.worker_spec}
        if waiting_s > self._settings.start_timeout_s and not busy:
            self._gave_up.append(f"no worker for what is due since {waiting_s:.0f} s: {self.state()}")
        elif not kinds:
            self._gave_up.append(f"no worker is left: {self._given_up}")
        elif not self._scheduler.tasks and not self._kinds <= kinds:  # the others would wait for it in vain
            self._gave_up.append(self._given_up)
        elif refusals:  # of the first jobs already
            self._gave_up.append(f"Slurm does not take the jobs: {refusals[0]}")
        else:
            cluster.scale(len(cluster.worker_spec))

    def _forget(self, name: str, job: object) -> None:
        """Take a job that ended out of Dask's list, unless Dask has put another in its place meanwhile."""
        if self._cluster.workers.get(name) is job:
            del self._cluster.workers[name]

    def _ended(self, now: float) -> dict[str, object]:
        """By worker, the jobs that Dask does not replace: they ended before it joined, or Slurm did not take them."""
        jobs, joined = self._cluster.workers.copy(), _joined(self._cluster)
        queue = _squeue({job.job_id for job in jobs.values() if job.job_id})
        ended: dict[str, object] = {}
        for name, job in jobs.items():
            if job.refusal:
                if now > job.refused_at + SAY_EVERY_S:
                    ended[name] = job
                continue
            if job.job_id not in self._seen_at:
                self._seen_at[job.job_id] = math.inf
                self._brief[name].append(job.job_id)
            if name in joined:
                seen_at = self._seen_at[job.job_id] = min(self._seen_at[job.job_id], now)
                if now > seen_at + _BRIEF_S:
                    self._brief[name].clear()
            # Of a job with several processes Dask does not know that it is theirs: it misses none of them.
            elif (math.isinf(self._seen_at[job.job_id]) or job.worker_processes > 1) and not queue.may_have(job.job_id):
                ended[name] = job
        return ended

    def state(self) -> str:
        """How many workers there are, and what Slurm says of the jobs that are to be others."""
        joined = _joined(self._cluster)
        missing = [job for name, job in self._cluster.workers.copy().items() if name not in joined]
        queue = _squeue({job.job_id for job in missing if job.job_id})
        lines = [line.replace("PENDING", "pending").replace("RUNNING: None", "starts") for line in queue.lines[:_SAID]]
        lines += [f"and {len(queue.lines) - _SAID} more"] if len(queue.lines) > _SAID else []
        lines += [job.refusal for job in missing if job.refusal][:1]
        return "; ".join([f"{len(joined)} workers", *(lines or [queue.error or "no job in the queue"])])


def _joined(cluster: SLURMCluster) -> set[str]:
    """The jobs with a process that has joined: each has the job's name (``gpu-0``), or that and a number of its own."""
    names = (str(worker["name"]) for worker in cluster.scheduler_info["workers"].values())
    return {"-".join(name.split("-")[:2]) for name in names}


@dataclass(frozen=True)
class _Queue:
    """What Slurm says of jobs that it has in its queue, a line each; or why it says nothing."""

    lines: list[str]
    error: str = ""

    def may_have(self, job: str) -> bool:
        """Whether the job waits or runs; yes where Slurm does not answer."""
        return bool(self.error) or any(line.startswith(f"job {job} ") for line in self.lines)


def _squeue(jobs: set[str]) -> _Queue:
    command = ["squeue", "--noheader", "--jobs", ",".join(sorted(jobs)), "--format", "job %i %T: %r"]
    if not jobs:  # squeue would list those of everybody
        return _Queue([])
    # Without the user's own filters, such as SQUEUE_STATES: a job that they hide would count as one that has ended.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    try:  # Slurm's programs are wherever the site has put them
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWERS_S, env=environment)
    except subprocess.TimeoutExpired:
        return _Queue([], f"Slurm does not answer: squeue gave nothing for {_ANSWERS_S:.0f} s")
    except OSError as error:  # no memory for another process
        return _Queue([], f"Slurm does not answer: squeue cannot be run ({error.strerror})")
    if asked.returncode and "Invalid job id" not in asked.stderr:  # so it says of one that it has forgotten
        why = " ".join(asked.stderr.split()) or f"squeue ended with {asked.returncode}"
        return _Queue([], f"Slurm does not answer: {why}")
    return _Queue(asked.stdout.splitlines())


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
    shared = Path(shared_directory) if shared_directory else Path.home() / ".storyframes"
    temporary = Security.temporary()
    try:
        shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sweep(shared)
        folder = make_scratch_folder("tls", shared)
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
    """Remove what killed runs have left: their process has ended, or, on another machine, holds no lock any more."""
    for folder in shared.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if (left := is_left(folder)) is not None:
                if left:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            if time.time() - folder.stat().st_mtime < _OLD_S:
                continue
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
