"""Workers as pods of a Kubernetes cluster, through the Dask operator."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from flows.clusters.connection import ClusterError, Connection, Needs, check_needs, wait_for_workers
from flows.clusters.gpu_sharing import processes_of
from flows.clusters.settings import Kubernetes, WorkerShape

LABELS = {"app.kubernetes.io/name": "storyframes"}
ALIVE = "storyframes/alive"  # when the flow of a cluster last said that it goes on, by the API server's clock
_SAY_EVERY_S = 60.0
_DEAD_AFTER_S = 1800.0


@contextmanager
def kubernetes_cluster(settings: Kubernetes, needs: Sequence[Needs]) -> Iterator[Connection]:
    """A DaskCluster resource of this run and its pods, removed with the block; those of killed flows are removed first.

    Raises:
        ClusterError: the pods cannot meet the needs, or none starts in time.
    """
    resources: list[Needs] = [{"CPU": settings.cpu.cpus}, *([{"GPU": 1}] if settings.gpu else [])]
    check_needs(needs, resources)
    from dask_kubernetes.operator import KubeCluster

    remove_leftovers(settings.namespace)
    manifest = cluster_manifest(settings, f"storyframes-{uuid.uuid4().hex[:10]}")
    name, stop = manifest["metadata"]["name"], threading.Event()
    alive = threading.Thread(target=_say_alive, args=(name, settings.namespace, stop), daemon=True)
    alive.start()
    try:
        with KubeCluster(
            custom_cluster_spec=manifest,
            namespace=settings.namespace,
            shutdown_on_close=True,
            create_mode="CREATE_ONLY",
        ) as cluster:
            if settings.gpu:
                workers = gpu_workers(settings, processes_of(settings, needs))
                cluster.add_worker_group(name="gpu", custom_spec=workers)
            # Without certificates: the operator speaks to the scheduler itself and has none (docs/operations.md).
            connection = Connection(cluster.scheduler_address)
            wait_for_workers(connection, needs, settings.start_timeout_s)
            yield connection
    finally:
        stop.set()
        alive.join()


def remove_leftovers(namespace: str) -> list[str]:
    """Delete the clusters whose flows were killed: of them none has said for half an hour that it goes on.

    Returns:
        The names of the clusters.

    Raises:
        ClusterError: the API server cannot be reached, or refuses.
    """
    from kr8s import NotFoundError

    try:
        now_s, clusters = _server_time(), _clusters(namespace)
    except Exception as error:  # of kr8s, httpx or anyio, by what is wrong
        raise ClusterError(
            f"the Kubernetes API does not list the DaskClusters of {namespace} ({type(error).__name__}: {error}): is "
            "there a kubeconfig or a service account, may it do that, and is the Dask operator installed?"
        ) from None
    removed = []
    for cluster in clusters:
        alive_at = str(cluster.annotations.get(ALIVE, ""))
        made_s = datetime.fromisoformat(cluster.metadata["creationTimestamp"]).timestamp()
        if alive_at.isdecimal() and now_s - max(int(alive_at), made_s) > _DEAD_AFTER_S:
            try:
                cluster.delete()
                removed.append(cluster.name)
            except NotFoundError:
                """Another run, which begins at the same time, has removed it."""
            except Exception as error:
                raise ClusterError(
                    f"the Kubernetes API does not delete the DaskCluster {cluster.name}, which a killed flow has left "
                    f"({type(error).__name__}: {error}): is this account allowed to? 'kubectl delete daskcluster "
                    f"{cluster.name} -n {namespace}'"
                ) from None
    return removed


def _say_alive(name: str, namespace: str, stop: threading.Event) -> None:
    while not stop.wait(_SAY_EVERY_S):
        with suppress(Exception):  # an API server that is away for a while; the next time says the same
            for cluster in _clusters(namespace):
                if cluster.name == name:
                    cluster.annotate({ALIVE: f"{_server_time():.0f}"})


def _server_time() -> float:
    """Seconds since 1970 by the API server's clock: those of the machines that flows run on may disagree."""
    import kr8s.asyncio
    from anyio.from_thread import start_blocking_portal

    async def ask() -> float:
        api = await kr8s.asyncio.api()
        async with api.call_api(version="", base="/version") as response:
            return parsedate_to_datetime(response.headers["Date"]).timestamp()

    with start_blocking_portal() as portal:
        return portal.call(ask)


def _clusters(namespace: str) -> list[Any]:
    from kr8s.objects import new_class

    kind = new_class("DaskCluster", "kubernetes.dask.org/v1", asyncio=False)
    return list(kind.list(namespace=namespace, label_selector=LABELS))


def cluster_manifest(settings: Kubernetes, name: str) -> dict[str, Any]:
    """The DaskCluster resource of a run: a scheduler, and the workers for processors.

    Args:
        name: of the run's cluster, at most 53 characters, as Kubernetes has names.
    """
    scheduler = {
        "containers": [
            {
                "name": "scheduler",
                "image": settings.image,
                "command": ["dask", "scheduler", "--host", "0.0.0.0", "--no-dashboard"],  # noqa: S104
                "ports": [{"name": "tcp-comm", "containerPort": 8786, "protocol": "TCP"}],
                "readinessProbe": {"tcpSocket": {"port": "tcp-comm"}, "periodSeconds": 5},
                "resources": _amounts(settings.scheduler_cpus, settings.scheduler_memory),
                "securityContext": _UNPRIVILEGED,
            }
        ],
        "securityContext": _pod_security(settings),
    }
    service = {
        "type": "ClusterIP",
        "selector": {"dask.org/cluster-name": name, "dask.org/component": "scheduler"},
        "ports": [
            {"name": "tcp-comm", "port": 8786, "protocol": "TCP", "targetPort": "tcp-comm"},
            # KubeCluster asks for this port and fails without it; nothing listens there.
            {"name": "http-dashboard", "port": 8787, "protocol": "TCP", "targetPort": "http-dashboard"},
        ],
    }
    worker = _pod(settings, settings.cpu, {"CPU": settings.cpu.cpus}, threads=settings.cpu.cpus)
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": dict(LABELS),
            "annotations": {ALIVE: "0"},  # until it is said the first time, when the server made it counts
        },
        "spec": {
            "worker": {"replicas": settings.cpu.count, "spec": worker},
            "scheduler": {"spec": scheduler, "service": service},
        },
    }


def gpu_workers(settings: Kubernetes, sharing: int = 1) -> dict[str, Any]:
    """The group of the workers with a GPU: how many pods, and one of them, in which ``sharing`` processes share it."""
    if settings.gpu is None:
        raise ValueError("this cluster has no GPU workers")
    processes = max(sharing, 1)  # 0 of work that needs no GPU
    pod = _pod(settings, settings.gpu, {"GPU": 1 / processes}, processes=processes)
    pod["containers"][0]["resources"]["limits"][settings.gpu_resource] = "1"
    return {"replicas": settings.gpu.count, "metadata": {"labels": dict(LABELS)}, "spec": pod}


_UNPRIVILEGED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def _pod_security(settings: Kubernetes) -> dict[str, Any]:
    group = {} if settings.fs_group is None else {"fsGroup": settings.fs_group}
    return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **group}


def _amounts(cpus: int, memory: str) -> dict[str, dict[str, str]]:
    from dask.utils import parse_bytes

    amounts = {"cpu": str(cpus), "memory": str(parse_bytes(memory))}
    return {"requests": dict(amounts), "limits": dict(amounts)}


def _pod(
    settings: Kubernetes, shape: WorkerShape, resources: Needs, *, processes: int = 1, threads: int = 1
) -> dict[str, Any]:
    """A pod of workers; what each of its processes declares as resources, and how many threads each has."""
    from dask.utils import parse_bytes

    memory = shape.memory if processes == 1 else str(parse_bytes(shape.memory) // processes)
    declared = ",".join(f"{name}={amount}" for name, amount in resources.items())
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
            "--name", "$(DASK_WORKER_NAME)", "--nworkers", str(processes), "--nthreads", str(threads), "--resources",
            declared, "--no-dashboard", "--memory-limit", memory, "--worker-class", "flows.clusters.dask_parts.Worker",
        ],
        "envFrom": [{"secretRef": {"name": name}} for name in settings.secrets],
        "resources": _amounts(shape.cpus, shape.memory),
        "volumeMounts": mounts,
        "securityContext": _UNPRIVILEGED,
    }  # fmt: skip
    return {"containers": [container], "volumes": volumes, "securityContext": _pod_security(settings)}
