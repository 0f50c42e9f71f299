"""Workers as pods of a Kubernetes cluster, through the Dask operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flows.clusters.connection import Connection, Needs, check_needs, wait_for_workers
from flows.clusters.settings import Kubernetes, WorkerShape

_NAME = "storyframes"


@contextmanager
def kubernetes_cluster(settings: Kubernetes, needs: Sequence[Needs]) -> Iterator[Connection]:
    """A DaskCluster resource and its pods, removed with the block.

    Raises:
        ClusterError: the pods cannot meet the needs, or none starts in time.
    """
    resources: list[Needs] = [{"CPU": settings.cpu.cpus}, *([{"GPU": 1}] if settings.gpu else [])]
    check_needs(needs, resources)
    from dask_kubernetes.operator import KubeCluster

    with KubeCluster(
        custom_cluster_spec=cluster_manifest(settings), namespace=settings.namespace, shutdown_on_close=True
    ) as cluster:
        if settings.gpu:
            cluster.add_worker_group(name=f"{_NAME}-gpu", n_workers=settings.gpu.count, custom_spec=gpu_pod(settings))
        # Without certificates: the operator speaks to the scheduler itself and has none (docs/operations.md).
        connection = Connection(cluster.scheduler_address)
        wait_for_workers(connection, needs, settings.start_timeout_s)
        yield connection


def cluster_manifest(settings: Kubernetes) -> dict[str, Any]:
    """The DaskCluster resource: a scheduler, and the workers for processors."""
    worker = _pod(settings, settings.cpu, f"CPU={settings.cpu.cpus}")
    scheduler = {
        "containers": [
            {
                "name": "scheduler",
                "image": settings.image,
                "command": ["dask", "scheduler", "--host", "0.0.0.0", "--no-dashboard"],  # noqa: S104
                "ports": [{"name": "tcp-comm", "containerPort": 8786, "protocol": "TCP"}],
                "readinessProbe": {"tcpSocket": {"port": "tcp-comm"}, "periodSeconds": 5},
                "securityContext": _UNPRIVILEGED,
            }
        ]
    }
    service = {
        "type": "ClusterIP",
        "selector": {"dask.org/cluster-name": _NAME, "dask.org/component": "scheduler"},
        "ports": [{"name": "tcp-comm", "port": 8786, "protocol": "TCP", "targetPort": "tcp-comm"}],
    }
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": {"name": _NAME, "namespace": settings.namespace},
        "spec": {
            "worker": {"replicas": settings.cpu.count, "spec": worker},
            "scheduler": {"spec": scheduler, "service": service},
        },
    }


def gpu_pod(settings: Kubernetes) -> dict[str, Any]:
    """The pod of a worker with a GPU."""
    if settings.gpu is None:
        raise ValueError("this cluster has no GPU workers")
    pod = _pod(settings, settings.gpu, "GPU=1")
    limits = pod["containers"][0]["resources"]["limits"]
    limits[settings.gpu_resource] = "1"
    return pod


_UNPRIVILEGED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def _pod(settings: Kubernetes, shape: WorkerShape, resources: str) -> dict[str, Any]:
    amounts = {"cpu": str(shape.cpus), "memory": shape.memory.replace("GiB", "Gi").replace("MiB", "Mi")}
    mounts = [
        {"name": f"volume-{number}", "mountPath": folder} for number, folder in enumerate(sorted(settings.volumes))
    ]
    volumes = [
        {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": settings.volumes[folder]}}
        for number, folder in enumerate(sorted(settings.volumes))
    ]
    container = {
        "name": "worker",
        "image": settings.image,
        "command": ["dask", "worker"],
        "args": [
            "--name", "$(DASK_WORKER_NAME)", "--nthreads", str(shape.cpus), "--resources", resources, "--no-dashboard",
            "--memory-limit", shape.memory,
        ],
        "envFrom": [{"secretRef": {"name": name}} for name in settings.secrets],
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "volumeMounts": mounts,
        "securityContext": _UNPRIVILEGED,
    }  # fmt: skip
    return {"containers": [container], "volumes": volumes}
