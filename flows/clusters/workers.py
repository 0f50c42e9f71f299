"""How many units of work a cluster does at the same time."""

from __future__ import annotations

from collections import Counter

from flows.clusters.connection import Connection
from flows.clusters.needs import Needs
from flows.clusters.settings import ExistingScheduler, Kubernetes, LocalCluster, Slurm

Cluster = LocalCluster | ExistingScheduler | Slurm | Kubernetes


def resources_of(cluster: Cluster, connection: Connection) -> Needs:
    """What all its workers have together: those that it is to have, or those of a scheduler that is there already."""
    match cluster:
        case LocalCluster():
            return {"CPU": cluster.processors, "GPU": cluster.gpus}
        case Slurm() | Kubernetes():
            return {"CPU": cluster.cpu.count * cluster.cpu.cpus, "GPU": cluster.gpu.count if cluster.gpu else 0}
    with connection.client() as client:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    there: Counter[str] = Counter()
    for worker in workers:
        there.update(worker.get("resources", {}))
    return there


def at_the_same_time(there: Needs, needs: Needs) -> int:
    """How many units with these needs that much does at once, at least one."""
    return max(1, int(min((there.get(name, 0) // amount for name, amount in needs.items() if amount), default=1)))
