"""Clusters of pods: their manifests by the operator's own schemas and code, and what killed flows leave."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from email.utils import formatdate
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import jsonschema
import pytest
import yaml
from support.messages import naming
from support.processes import wait_for

from flows.clusters import kubernetes
from flows.clusters.connection import ClusterError
from flows.clusters.kubernetes import ALIVE, LABELS, cluster_manifest, gpu_workers, remove_leftovers
from flows.clusters.settings import Kubernetes, load_cluster

ROOT = Path(__file__).parents[2]
NAME = "storyframes-0123456789"


@pytest.fixture
def settings() -> Kubernetes:
    loaded = load_cluster(str(ROOT / "deploy/clusters/kubernetes.yaml"))
    assert isinstance(loaded, Kubernetes)
    return loaded


@cache
def published_schema(kind: str) -> dict:
    """The operator's own schema of a resource, as its package ships it, with Kubernetes' schema of a pod in it."""
    import dask_kubernetes

    folder = Path(dask_kubernetes.__file__).parent / "operator/deployment/helm/dask-kubernetes-operator/crds"
    document = yaml.safe_load((folder / f"{kind}.yaml").read_text())
    return document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def strict(schema: Any) -> Any:
    """Properties that the schema does not know are mistakes (Kubernetes drops them in silence)."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items()}
    if "properties" in result and not result.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    return result


@pytest.mark.slow
@pytest.mark.needs("dask_kubernetes")
def test_the_manifests_are_what_the_operator_understands(settings: Kubernetes) -> None:
    manifest = cluster_manifest(settings, NAME)
    jsonschema.validate(manifest["spec"], strict(published_schema("daskcluster")))
    workers = gpu_workers(settings)
    jsonschema.validate({"cluster": NAME, "worker": workers}, strict(published_schema("daskworkergroup")))
    assert json.dumps(manifest)
    container = manifest["spec"]["worker"]["spec"]["containers"][0]
    assert container["args"][container["args"].index("--memory-limit") + 1] == "4GiB"
    assert container["args"][container["args"].index("--worker-class") + 1] == "flows.clusters.dask_parts.Worker"
    assert workers["replicas"] == 2
    amounts = [
        pod["containers"][0]["resources"]["limits"]["memory"]
        for pod in (manifest["spec"]["worker"]["spec"], workers["spec"])
    ]
    assert amounts == [str(4 * 2**30), str(24 * 2**30)]
    decimal = settings.model_copy(update={"scheduler_memory": "4 GB"})  # Dask's, which Kubernetes does not know
    scheduler = cluster_manifest(decimal, NAME)["spec"]["scheduler"]["spec"]["containers"][0]
    assert scheduler["resources"]["limits"]["memory"] == "4000000000"
    assert workers["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_processes_share_the_gpu_of_a_pod(settings: Kubernetes) -> None:
    assert gpu_workers(settings, 0) == gpu_workers(settings)  # of work that needs no GPU
    arguments = gpu_workers(settings, 4)["spec"]["containers"][0]["args"]
    given = dict(zip(arguments[::2], arguments[1::2], strict=False))
    assert (given["--nworkers"], given["--nthreads"]) == ("4", "1")
    assert "GPU=0.25" in arguments
    assert arguments[arguments.index("--memory-limit") + 1] == str(6 * 2**30)


@pytest.mark.needs("dask_kubernetes")
@pytest.mark.slow
@pytest.mark.parametrize("slip", ["envFrm", "securityContex"])
def test_a_slip_in_a_manifest_is_caught_by_the_schema(settings: Kubernetes, slip: str) -> None:
    manifest = cluster_manifest(settings, NAME)
    manifest["spec"]["worker"]["spec"]["containers"][0][slip] = []
    with pytest.raises(jsonschema.ValidationError, match=slip):
        jsonschema.validate(manifest["spec"], strict(published_schema("daskcluster")))


def test_every_pod_passes_pod_security_restricted(settings: Kubernetes) -> None:
    """The rules of https://kubernetes.io/docs/concepts/security/pod-security-standards/, profile restricted."""
    spec = cluster_manifest(settings, NAME)["spec"]
    for pod in (spec["scheduler"]["spec"], spec["worker"]["spec"], gpu_workers(settings)["spec"]):
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert pod["securityContext"]["fsGroup"] == 10001
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert all(volume.keys() == {"name", "persistentVolumeClaim"} for volume in pod.get("volumes", ()))
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "runAsNonRoot": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"] == {
                name: amount for name, amount in container["resources"]["limits"].items() if "gpu" not in name
            }
            assert not any("hostPort" in port for port in container.get("ports", ()))


@pytest.mark.slow
@pytest.mark.needs("dask_kubernetes")
def test_the_operator_makes_of_them_what_a_run_needs(settings: Kubernetes) -> None:
    """By the operator's own functions: its scheduler is reached, and every pod has the label of the network policy."""
    from dask_kubernetes.operator.controller import controller
    from dask_kubernetes.operator.networking import _get_port
    from kr8s.asyncio.objects import Service

    manifest = cluster_manifest(settings, NAME)
    scheduler, worker = manifest["spec"]["scheduler"], manifest["spec"]["worker"]
    service = controller.build_scheduler_service_spec(NAME, scheduler["service"], {}, LABELS)
    pod = controller.build_scheduler_deployment_spec(NAME, scheduler["spec"], {}, LABELS)["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert LABELS.items() <= pod["metadata"]["labels"].items()
    assert [_get_port(Service(service, api=None), name) for name in ("tcp-comm", "http-dashboard")] == [8786, 8787]
    for group in (worker | {"metadata": {"labels": LABELS}}, gpu_workers(settings)):
        built = controller.build_worker_deployment_spec(
            f"{NAME}-gpu", settings.namespace, NAME, "1", group["spec"], {}, group["metadata"]["labels"]
        )
        assert LABELS.items() <= built["spec"]["template"]["metadata"]["labels"].items()
        environment = {entry["name"] for entry in built["spec"]["template"]["spec"]["containers"][0]["env"]}
        assert environment == {"DASK_WORKER_NAME", "DASK_SCHEDULER_ADDRESS"}


# --- what killed flows leave -----------------------------------------------------------------------------------------


class Api:
    """The few requests of the Kubernetes API that are used for leftovers, answered by a server on loopback."""

    def __init__(self) -> None:
        self.clusters: dict[str, dict[str, Any]] = {}
        self.queries: list[str] = []
        self.now_s = int(time.time()) - 7 * 24 * 3600  # by its clock, which is not this machine's
        self.refusals: dict[str, int] = {}  # by cluster, the status of the answer to its deletion
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/version"):
                    return self.answer({"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
                api.queries.append(self.path)
                return self.answer({"kind": "DaskClusterList", "metadata": {}, "items": list(api.clusters.values())})

            def do_DELETE(self) -> None:
                name = self.path.partition("?")[0].rpartition("/")[2]
                if status := api.refusals.get(name):
                    return self.answer({"kind": "Status", "code": status, "message": "no"}, status)
                return self.answer(api.clusters.pop(name))

            def answer(self, content: dict[str, Any], status: int = 200) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_PATCH(self) -> None:
                change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                cluster = api.clusters[self.path.partition("?")[0].rpartition("/")[2]]
                cluster["metadata"]["annotations"] |= change["metadata"]["annotations"]
                return self.answer(cluster)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate(api.now_s, usegmt=True)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def add(self, manifest: dict[str, Any], alive: str, made_s: float = 0) -> None:
        manifest = deepcopy(manifest)
        manifest["metadata"]["annotations"][ALIVE] = alive
        manifest["metadata"]["creationTimestamp"] = f"{datetime.fromtimestamp(made_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
        self.clusters[manifest["metadata"]["name"]] = manifest


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    api = Api()
    Thread(target=api.server.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server.server_port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield api
    api.server.shutdown()
    api.server.server_close()


@pytest.mark.needs("dask_kubernetes")
def test_clusters_of_killed_flows_are_removed_and_no_others(settings: Kubernetes, api: Api) -> None:
    for name, alive_s in (("dead", api.now_s - 3600), ("living", api.now_s - 60), ("unknown", "")):
        api.add(cluster_manifest(settings, f"storyframes-{name}"), f"{alive_s}")
    api.add(cluster_manifest(settings, "storyframes-began"), "0", api.now_s - 60)
    assert remove_leftovers("storyframes") == ["storyframes-dead"]
    assert sorted(api.clusters) == ["storyframes-began", "storyframes-living", "storyframes-unknown"]
    assert "/namespaces/storyframes/daskclusters?" in api.queries[-1]
    assert api.queries[-1].endswith("labelSelector=app.kubernetes.io%2Fname%3Dstoryframes")


@pytest.mark.needs("dask_kubernetes")
def test_a_flow_says_that_it_goes_on_by_the_clock_of_the_server(settings: Kubernetes, api: Api, monkeypatch) -> None:
    api.add(manifest := cluster_manifest(settings, NAME), "0", api.now_s)
    monkeypatch.setattr(kubernetes, "_SAY_EVERY_S", 0.01)
    stop = Event()
    flow = Thread(target=kubernetes._say_alive, args=(NAME, manifest["metadata"]["namespace"], stop))
    flow.start()
    wait_for(lambda: api.clusters[NAME]["metadata"]["annotations"][ALIVE] != "0")
    stop.set()
    flow.join()
    assert api.clusters[NAME]["metadata"]["annotations"][ALIVE] == f"{api.now_s}"
    api.now_s += 3600  # nobody says it any more
    assert remove_leftovers("storyframes") == [NAME]


@pytest.mark.needs("dask_kubernetes")
def test_what_another_run_has_removed_is_no_error_and_a_refusal_is_one_sentence(settings: Kubernetes, api: Api) -> None:
    for name in ("first", "second"):
        api.add(cluster_manifest(settings, f"storyframes-{name}"), "1")
    api.refusals = {"storyframes-first": 404}
    assert remove_leftovers("storyframes") == ["storyframes-second"]
    api.refusals = {"storyframes-first": 403}
    with pytest.raises(ClusterError, match=naming("delete", "DaskCluster storyframes-first")):
        remove_leftovers("storyframes")


@pytest.mark.needs("dask_kubernetes")
def test_no_api_server_is_one_sentence(tmp_path: Path, api: Api) -> None:
    api.server.shutdown()
    api.server.server_close()
    with pytest.raises(ClusterError, match=naming("Kubernetes API", "DaskClusters of storyframes")):
        remove_leftovers("storyframes")
