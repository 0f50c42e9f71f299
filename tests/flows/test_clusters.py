"""What the work runs on: descriptions of clusters, what they can do, and a real Slurm."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from support.commands import storyframes
from support.messages import missing, naming
from support.processes import alive, children, wait_for

from flows.clusters import gpu_sharing, slurm
from flows.clusters.connection import (
    ClusterError,
    Connection,
    at_the_same_time,
    check_needs,
    resources_of,
    wait_for_workers,
)
from flows.clusters.dask_cluster import dask_cluster, local_workers
from flows.clusters.gpu_sharing import processes_of, processes_per_gpu
from flows.clusters.settings import (
    ClusterSettingsError,
    ExistingScheduler,
    Kubernetes,
    LocalCluster,
    Slurm,
    WorkerShape,
    load_cluster,
)
from flows.gather import Bundle, WorkerLostError
from flows.part_records import Expected, PartArray, PartState, check_walltime, note_part
from storyframes.store.layout import create_store
from tasks.extractors.settings import LEAST_GPU_SHARE

ROOT = Path(__file__).parents[2]
CLUSTERS = ROOT / "deploy" / "clusters"


# --- descriptions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [("local", LocalCluster), ("address", ExistingScheduler), ("slurm", Slurm), ("kubernetes", Kubernetes)],
)
def test_the_examples_are_valid(name: str, kind: type) -> None:
    assert isinstance(load_cluster(str(CLUSTERS / f"{name}.yaml")), kind)


def test_there_is_an_example_of_each_kind() -> None:
    assert sorted(path.stem for path in CLUSTERS.iterdir()) == ["address", "kubernetes", "local", "slurm"]


def test_an_address_needs_no_file() -> None:
    assert load_cluster("tls://node1:8786") == ExistingScheduler(kind="address", address="tls://node1:8786")


@pytest.mark.parametrize(
    ("walltime", "seconds"), [("00:00:10", 10), ("04:30:01", 16_201), ("2-01:00:00", 176_400), ("0-00:00:00", math.inf)]
)
def test_the_seconds_of_a_walltime(walltime: str, seconds: int) -> None:
    assert Slurm(kind="slurm", walltime=walltime, cpu=WorkerShape(count=1)).walltime_s == seconds


def test_a_walltime_that_the_environment_would_replace_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "5")
    with (
        pytest.raises(ClusterError, match=naming("SBATCH_TIMELIMIT=5", "'walltime'")),
        dask_cluster(Slurm(kind="slurm", cpu=WorkerShape(count=1)), []),
    ):
        pass


def test_work_on_a_gpu_is_not_judged_by_what_a_processor_takes(tmp_path: Path) -> None:
    storage = create_store(tmp_path)
    check_walltime(storage, 60, [Expected("a/dope", frozenset(["dope"]), 45_000, gpu=True)])
    with pytest.raises(ClusterError, match=naming("a/dope", "45000 s", "60 s")):
        check_walltime(storage, 60, [Expected("a/dope", frozenset(["dope"]), 45_000)])
    array = PartArray(parts=1, features=["dope"])
    note_part(storage, "a", array, 1, PartState(costs={"dope": (100.0, 10.0)}, cpus=1))
    with pytest.raises(ClusterError, match=naming("a/dope", "4500 s", "parts before")):
        check_walltime(storage, 60, [Expected("a/dope", frozenset(["dope"]), 45_000, gpu=True)])


def test_a_squeue_that_cannot_be_run_ends_no_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    queue = slurm._squeue({"17"})
    assert (queue.lines, queue.may_have("17")) == ([], True)
    assert missing(queue.error, "squeue", "No such file or directory") == []


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("echo job 17 PENDING: node drained", "0 workers; job 17 pending: node drained"),
        ("echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", "0 workers; no job in the queue"),
        ("echo no controller >&2; exit 1", "0 workers; Slurm does not answer: no controller"),
        ("exec sleep 99", "0 workers; Slurm does not answer: squeue gave nothing for 1 s"),
    ],
)
def test_what_slurm_says_of_jobs_whose_workers_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str, said: str
) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n{answers}\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("flows.clusters.slurm._ANSWERS_S", 1.0)
    job = SimpleNamespace(job_id="17", refusal="")
    cluster: Any = SimpleNamespace(scheduler_info={"workers": {}}, workers={"cpu-0": job}, loop=None, scheduler=None)
    jobs = slurm._Jobs(cluster, Slurm(kind="slurm", cpu=WorkerShape(count=1)), set(), [], print)
    assert jobs.state() == said
    assert slurm._squeue({"17"}).may_have("17") == ("no job" not in said)


def test_a_job_that_took_the_place_of_one_that_ended_is_kept() -> None:
    ended, new = object(), object()
    cluster: Any = SimpleNamespace(workers={"cpu-0": new}, loop=None, scheduler=None)
    jobs = slurm._Jobs(cluster, Slurm(kind="slurm", cpu=WorkerShape(count=1)), set(), [], print)
    jobs._forget("cpu-0", ended)
    jobs._forget("cpu-1", ended)
    assert cluster.workers == {"cpu-0": new}
    jobs._forget("cpu-0", new)
    assert cluster.workers == {}


def test_a_task_that_had_all_the_time_of_a_job_is_given_up_with_the_reason() -> None:
    from distributed.comm import CommClosedError

    from flows.clusters.dask_parts import JobTooShortError
    from flows.on_cluster import ClusterExecutor

    lost: Any = SimpleNamespace(
        wait=lambda: None, wrapped_future=SimpleNamespace(exception=lambda: JobTooShortError("a longer walltime"))
    )
    gave_up: list[str] = []
    executor: Any = ClusterExecutor(*[None] * 4, gave_up)  # type: ignore[arg-type]
    with pytest.raises(WorkerLostError, match="^a longer walltime$"):
        executor.read(lost, Bundle([]))
    gave_up.append("no worker")
    with pytest.raises(CommClosedError, match="^no worker$"):  # not a fault of what was lost with the scheduler
        executor.read(lost, Bundle([]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: slrum\n", "Input tag 'slrum' found using 'kind' does not match any of the expected tags: 'local'"),
        ("kind: local\nworkers: 3\n", "local.workers: there is no such key"),
        ("kind: local\ncpu: 3\n", "local.cpu: there is no such key: is 'cpus' meant?"),
        ("kind: slurm\ncpu: {count: 0}\n", "slurm.cpu.count: Input should be greater than or equal to 1"),
        ("kind: slurm\nwalltime: 4h\ncpu: {count: 1}\n", "slurm.walltime: String should match pattern"),
        (
            "kind: slurm\ncpu: {count: 1, directives: [-t 10]}\n",
            "'-t 10' cannot be a directive: set 'walltime' instead",
        ),
        (
            "kind: slurm\ncpu: {count: 1}\ngpu_directive: --time-min=9\n",
            "'--time-min=9' cannot be a directive: set 'walltime' instead",
        ),
        (
            "kind: slurm\ncpu: {count: 1}\nprologue: ['#SBATCH -t 10']\n",
            "'#SBATCH -t 10' cannot be a directive: set 'walltime' instead",
        ),
        ("kind: [\n", "is not YAML"),
        ("just text\n", "the cluster: Input should be"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ClusterSettingsError) as error:
        load_cluster(str(path))
    assert message in str(error.value)


def test_a_configuration_means_this_machine_unless_it_says_otherwise() -> None:
    from flows.settings import Settings

    assert Settings.model_validate({"cluster": {"cpus": 3}}).cluster == LocalCluster(cpus=3)
    there = {"kind": "address", "address": "tls://node1:8786"}
    assert Settings.model_validate({"cluster": there}).cluster == ExistingScheduler(**there)


def test_neither_a_file_nor_an_address() -> None:
    with pytest.raises(ClusterSettingsError, match=naming("node1:8786", "tls://host:port")):
        load_cluster("node1:8786")


# --- what a cluster can do -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpus", "needs", "workers"),
    [
        (4, [1] * 10, [1, 1, 1, 1]),
        (4, [1, 1], [1, 1]),
        (4, [2, 1, 1, 1], [2, 2]),
        (5, [2] * 9 + [1] * 9, [2, 2, 1]),
        (8, [4] * 3 + [1] * 9, [4, 4]),
        (2, [2, 1, 1, 1], [2]),
    ],
)
def test_local_workers_have_the_processors_that_their_tasks_take(cpus: int, needs: list[int], workers: list) -> None:
    got = local_workers(cpus, 0, [{"CPU": need} for need in needs])
    assert got == [{"CPU": width} for width in workers]
    assert sum(worker["CPU"] for worker in got) <= cpus


def test_a_gpu_has_a_process_of_its_own_that_other_work_stays_out_of() -> None:
    needs = [{"CPU": 1}] * 5 + [{"GPU": 1}] * 5
    assert local_workers(2, 1, needs) == [{"CPU": 1}, {"CPU": 1}, {"GPU": 1}]
    assert local_workers(2, 4, [{"CPU": 1}, {"GPU": 1}, {"GPU": 1}]) == [{"CPU": 1}, {"GPU": 1}, {"GPU": 1}]
    assert local_workers(2, 1, [{"CPU": 1}]) == [{"CPU": 1}]


def test_processes_share_each_gpu_of_this_machine() -> None:
    shared = [{"GPU": LEAST_GPU_SHARE}]
    assert local_workers(4, 2, shared * 9, 3) == [{"GPU": 1 / 3}] * 6
    assert local_workers(4, 2, [{"CPU": 1}, *shared * 2], 3) == [{"CPU": 1}, {"GPU": 1 / 3}, {"GPU": 1 / 3}]


_MANY = {"cpus": 16, "memory": 200e9, "gpu_memory": 80e9}


@pytest.mark.parametrize(
    ("shares", "machine", "processes"),
    [
        ([LEAST_GPU_SHARE], {}, 16),
        ([LEAST_GPU_SHARE], {"gpus": 2}, 8),
        ([LEAST_GPU_SHARE], {"gpus": 32}, 1),
        ([LEAST_GPU_SHARE], {"memory": 33e9}, 8),
        ([LEAST_GPU_SHARE], {"memory": -1e9}, 1),
        ([LEAST_GPU_SHARE], {"gpu_memory": 24e9}, 6),
        ([LEAST_GPU_SHARE], {"gpu_memory": math.inf}, 16),
        ([LEAST_GPU_SHARE, 1], {}, 1),
        ([1 / 3], {"cpus": 2}, 3),
        ([1 / 3, 1 / 49, LEAST_GPU_SHARE], {}, 3),
        ([1 / 49], {}, 49),
    ],
)
def test_how_many_processes_share_a_gpu(shares: list[float], machine: dict[str, float], processes: int) -> None:
    needs = [{"CPU": 1}, *({"GPU": share} for share in shares)]
    assert processes_per_gpu(needs, **_MANY | machine) == processes
    check_needs(needs, [{"CPU": 1}, {"GPU": 1 / processes}])


def test_every_kind_of_cluster_asks_the_same_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs = [{"GPU": LEAST_GPU_SHARE}]
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
    monkeypatch.setattr(gpu_sharing, "MEMORY_LIMIT", 100e9)
    for cluster, processes in (
        (LocalCluster(cpus=8, gpus=1), 8),
        (LocalCluster(cpus=8, gpus=2), 4),
        (LocalCluster(cpus=20, gpus=1), 15),  # 2 GB for each processor, 4 GB for each of these
        (LocalCluster(cpus=8), 0),
        (load_cluster(str(CLUSTERS / "slurm.yaml")), 4),
        (load_cluster(str(CLUSTERS / "kubernetes.yaml")), 4),
        (Slurm(kind="slurm", cpu=WorkerShape(count=1)), 0),
        (Slurm(kind="slurm", cpu=WorkerShape(count=1), gpu=WorkerShape(count=1, cpus=8, memory="10 GB")), 2),
        (load_cluster("tls://127.0.0.1:9"), 0),
    ):
        assert processes_of(cluster, needs) == processes, cluster
        assert processes_of(cluster, [{"CPU": 1}]) == 0
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 'Large, 81559 MiB'\necho 'Small, 8192 MiB'\n")
    driver.chmod(0o700)
    assert processes_of(LocalCluster(cpus=8, gpus=1), needs) == 2  # of the smaller one


@pytest.mark.slow
def test_each_process_that_shares_a_gpu_does_one_unit_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7,9")  # those that a batch system gave to this process
    needs = [{"GPU": 0.5}] * 9
    cluster = LocalCluster(cpus=2, gpus=2)

    def visible() -> str:
        return os.environ["CUDA_VISIBLE_DEVICES"]

    with dask_cluster(cluster, needs) as connection, connection.client() as client:
        assert at_the_same_time(resources_of(cluster, connection, needs, processes_of(cluster, needs)), needs[0]) == 4
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        assert [(worker["nthreads"], worker["resources"]) for worker in workers] == [(1, {"GPU": 0.5})] * 4
        assert sorted(client.run(visible).values()) == ["5", "5", "7", "7"]
        assert client.submit(visible, resources={"GPU": 0.5}, pure=False).result(60) in ("5", "7")


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ([{"CPU": 1}, {"CPU": 4}], r"a feature asks for 4 CPU, but no worker has that \(there is: CPU 2\)"),
        ([{"CPU": 1}, {"GPU": 1}], r"a feature asks for 1 GPU, but no worker has that \(there is: CPU 2\)"),
    ],
)
def test_what_cannot_be_met_is_an_error_before_anything_starts(needs, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        local_workers(2, 0, needs)


def test_sessions_that_share_a_gpu_find_one() -> None:
    check_needs([{"GPU": 0.5}], [{"CPU": 1}, {"GPU": 1}])


def test_workers_without_resources_can_do_nothing() -> None:
    with pytest.raises(ClusterError, match="no resources"):
        check_needs([{"CPU": 1}], [{}])


def test_no_scheduler_at_the_address() -> None:
    with pytest.raises(ClusterError, match=naming("no Dask scheduler", "tcp://127.0.0.1:9")):
        wait_for_workers(Connection("tcp://127.0.0.1:9"), [{"CPU": 1}], 0)


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    before = set(children(os.getpid()))
    killed: list[int] = []

    def kill_the_first() -> None:
        # Other children: the resource tracker, a fork before exec, and the server that workers are forked from.
        wait_for(workers)
        for pid in workers():
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    def workers() -> list[int]:
        servers = set(children(os.getpid(), "forkserver")) - before
        return [worker for server in servers for worker in children(server)]

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    with dask_cluster(LocalCluster(cpus=1), [{"CPU": 1}]) as connection, connection.client() as client:
        killer.join()
        (pid,) = client.run(os.getpid).values()
        assert killed
        assert pid not in killed


@pytest.mark.slow
def test_workers_whose_fork_server_is_killed_are_started_again() -> None:
    with dask_cluster(LocalCluster(cpus=1), [{"CPU": 1}]) as connection, connection.client() as client:
        (worker,) = client.run(os.getpid).values()
        os.kill(int(client.submit(os.getppid).result(60)), signal.SIGKILL)
        wait_for(lambda: not alive(worker))
        assert client.submit(os.getpid).result(60) != worker


@pytest.mark.slow
def test_a_worker_is_forked_without_threads_and_with_its_own_random_numbers() -> None:
    """A fork has no other thread than the one that forks, and numpy's generator would be the same in every worker."""
    code = (
        "import flows.worker_imports, gc, os, sys\n"
        "print(len(os.listdir('/proc/self/task')), gc.isenabled(), gc.get_freeze_count() > 10_000,"
        "{'torch', 'openvino', 'numpy.random'} & set(sys.modules))"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # as Dask's nannies set them
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.stdout == "1 True True set()\n", done.stderr


@pytest.mark.slow
def test_a_plug_in_that_imports_numpys_generator_leaves_each_worker_its_own_numbers() -> None:
    code = (
        "import numpy.random, flows.worker_imports, os\n"
        "for _ in range(2):\n"
        "    if not (child := os.fork()):\n"
        "        print(numpy.random.random(), flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    first, second = done.stdout.split()
    assert first != second


@pytest.mark.slow
def test_a_worker_imports_nothing_from_the_folder_in_which_a_run_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def where() -> tuple[str | None, str | None]:
        import tasks

        return tasks.__file__, os.environ.get("PYTHONSAFEPATH") or None

    (tmp_path / "tasks.py").touch()  # of the name of a package of ours
    monkeypatch.chdir(tmp_path)
    before = os.environ.get("PYTHONSAFEPATH")
    with dask_cluster(LocalCluster(cpus=1), [{"CPU": 1}]) as connection, connection.client() as client:
        assert client.submit(where).result(60) == (str(ROOT / "tasks" / "__init__.py"), before or None)
    assert os.environ.get("PYTHONSAFEPATH") == before


@pytest.mark.slow
def test_a_worker_can_use_a_fork_server_itself() -> None:
    def text_of_a_new_process() -> str:
        with multiprocessing.get_context("forkserver").Pool(1) as pool:
            return pool.apply(str, (0,))

    with dask_cluster(LocalCluster(cpus=1), [{"CPU": 1}]) as connection, connection.client() as client:
        assert client.submit(text_of_a_new_process).result(60) == "0"


@pytest.mark.slow
def test_workers_that_never_start_are_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import flows.clusters.dask_parts

    monkeypatch.setattr(flows.clusters.dask_parts, "Worker", DyingWorker)
    with (
        pytest.raises(ClusterError, match=naming("died 5 times", "out of memory")),
        dask_cluster(LocalCluster(cpus=1), [{"CPU": 1}]),
    ):
        pass


class DyingWorker:
    def __init__(self, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_gpu_that_nobody_has_ends_the_run_at_once(study_copy: Path, tmp_path: Path, shared_server) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[dope]\ndevice = "cuda"\nmodel = "{__file__}"\n')
    asked = ("--features", "dope", "--config", config)
    result = storyframes("extract", study_copy, tmp_path / "features", *asked, environment=shared_server)
    assert result.returncode == 2
    assert missing(result.stderr, "asks for 1 GPU", "CPU ") == []


@pytest.mark.slow
def test_nothing_is_given_to_a_client_while_it_gives_its_scheduler_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is submitted after a closing client has cancelled all others would be waited for without end."""
    from distributed import Client, LocalCluster
    from distributed.comm import CommClosedError

    from flows.on_cluster import wait_until_settled

    with LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        client = Client(cluster.scheduler_address, timeout=1, set_as_default=False)
        close = client.rpc.close

        async def close_slowly() -> None:
            await asyncio.sleep(0.5)
            await close()

        monkeypatch.setattr(client.rpc, "close", close_slowly)
        wait_until_settled(client)
        client.submit(int)
        cluster.sync(cluster.scheduler.close)
        wait_for(lambda: client.status != "running")
        with pytest.raises(CommClosedError):
            wait_until_settled(client)
        assert client.status == "closed"


@pytest.mark.slow
def test_a_unit_that_is_tried_while_the_scheduler_ends_is_not_blamed() -> None:
    """Its worker may have lived: the run ends with the scheduler, and a later one does the unit."""
    from distributed import Client, LocalCluster
    from distributed.comm import CommClosedError
    from prefect_dask.task_runners import PrefectDaskFuture

    from flows.on_cluster import ClusterExecutor

    with LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        client = Client(cluster.scheduler_address, timeout=1, set_as_default=False)
        executor = ClusterExecutor(SimpleNamespace(client=client), None, {}, lambda _: {}, ())
        future = PrefectDaskFuture(uuid4(), client.submit(int))
        cluster.sync(cluster.scheduler.close)
        with pytest.raises(CommClosedError):
            executor.read(future, Bundle([]))
