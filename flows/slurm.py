"""Workers as jobs of a Slurm cluster, through dask-jobqueue."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flows.cluster import Needs, check_needs, wait_for_workers
from flows.cluster_settings import Slurm, WorkerShape

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster

_LOOK_EVERY_S = 10


@contextmanager
def slurm_cluster(settings: Slurm, needs: Sequence[Needs]) -> Iterator[str]:
    """A scheduler in this process and one job per worker, kept at strength: a job that ends early is replaced.

    Raises:
        ClusterError: the jobs cannot meet the needs, or none starts in time.
    """
    check_needs(needs, [resources for _, resources in _workers(settings)])
    import dask
    from dask_jobqueue import SLURMCluster

    # A job that Slurm killed is given up and replaced sooner than a worker that its nanny restarts.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "30 s"}),
        SLURMCluster(
            scheduler_options={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            **_job(settings, settings.cpu, {"CPU": settings.cpu.cpus}),
        ) as cluster,
    ):
        _set_workers(cluster, settings)
        stop = threading.Event()
        keeper = threading.Thread(target=_keep_at_strength, args=(cluster, stop), daemon=True)
        keeper.start()
        try:
            wait_for_workers(cluster.scheduler_address, needs, settings.start_timeout_s)
            yield cluster.scheduler_address
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
        "worker_extra_args": ["--resources", declared, "--no-dashboard"],
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
    while not stop.wait(_LOOK_EVERY_S):
        cluster.scale(len(cluster.worker_spec))
