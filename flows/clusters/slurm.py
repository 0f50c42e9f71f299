"""Workers as jobs of a Slurm cluster, through dask-jobqueue."""

from __future__ import annotations

import copy
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from flows.clusters.connection import Connection, wait_for_workers
from flows.clusters.needs import Needs, check_needs
from flows.clusters.settings import Slurm, WorkerShape
from flows.clusters.slurm_certificates import certificates_in_files

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster
    from tornado.ioloop import IOLoop

_LOOK_EVERY_S = 10.0
_LOST_AFTER = "30 s"


@contextmanager
def slurm_cluster(settings: Slurm, needs: Sequence[Needs]) -> Iterator[Connection]:
    """A scheduler in this process and one job per worker, kept at strength: a job that ends early is replaced.

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
            scheduler_options={"dashboard": False},
            **_job(settings, settings.cpu, {"CPU": settings.cpu.cpus}),
        ) as cluster,
    ):
        _set_workers(cluster, settings)
        stop = threading.Event()
        keeper = threading.Thread(target=_keep_at_strength, args=(cluster, stop), daemon=True)
        keeper.start()
        try:
            connection = Connection(cluster.scheduler_address, security)
            wait_for_workers(connection, needs, settings.start_timeout_s)
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


def _keep_at_strength(cluster: SLURMCluster, stop: threading.Event) -> None:
    """Submit the jobs that are missing, again and again: Slurm ends jobs at their time limit."""
    joined: set[str] = set()
    loop = cast("IOLoop", cluster.loop)  # None only after the cluster's end
    while not stop.wait(_LOOK_EVERY_S):
        names = {worker["name"] for worker in cluster.scheduler_info["workers"].values()}
        joined |= {job.job_id for name, job in cluster.workers.copy().items() if name in names}
        for name, job in cluster.workers.copy().items():
            if job.job_id and job.job_id not in joined and not _is_in_the_queue(job.job_id):
                # Dask misses only workers that it has seen; this one's job ended while it started.
                loop.add_callback(cluster.workers.pop, name, None)
        cluster.scale(len(cluster.worker_spec))


def _is_in_the_queue(job: str) -> bool:
    """Whether the job waits or runs; yes where Slurm does not answer."""
    command = ["squeue", "--noheader", "--jobs", job]  # Slurm's programs are wherever the site has put them
    asked = subprocess.run(command, capture_output=True, text=True)
    if asked.returncode:
        return "Invalid job id" not in asked.stderr  # it has forgotten the job, or does not answer now
    return bool(asked.stdout.strip())
