"""Workers as jobs of a real Slurm: what is asked for, who may speak to them, what becomes of those that end early."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from dask_jobqueue.slurm import SLURMJob
from support.commands import ROOT, storyframes
from support.messages import missing, naming
from support.processes import command_line, ports_of, processes_with, wait_for
from support.servers.slurm_cluster import slurm
from support.servers.strangers import intrude, let_in, open_folder

from flows.clusters.connection import ClusterError
from flows.clusters.dask_cluster import DASK, dask_cluster
from flows.clusters.dask_parts import JobTooShortError
from flows.clusters.settings import load_cluster
from flows.clusters.slurm import certificates_in_files, job_options, kinds_of_workers, slurm_cluster
from storyframes.store.storage.processes import ProcessIdentity

ON_SLURM = pytest.mark.needs("slurm", "munge", "root")  # a fake GPU is a device file, which needs root
CLUSTERS = ROOT / "deploy" / "clusters"


@pytest.fixture(scope="module")
def cluster():
    with slurm() as folder:
        yield folder


def slurm_file(folder: Path, **changes) -> Path:
    content = {
        "kind": "slurm",
        "queue": "debug",
        "walltime": "00:05:00",
        "interface": "lo",
        "log_directory": str(folder),
        "cpu": {"count": 2, "cpus": 1, "memory": "1GiB"},
        "start_timeout_s": 60,
    } | changes
    path = folder / "slurm.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def jobs() -> dict[str, str]:
    """The jobs in the queue and their states."""
    listed = subprocess.run(["squeue", "-h", "-o", "%i %T"], capture_output=True, text=True, check=True).stdout
    return dict(line.split() for line in listed.splitlines())


def _end(job: str) -> None:
    # In two seconds: "now" is refused where the next second begins before Slurm reads it.
    subprocess.run(["scontrol", "update", f"jobid={job}", "EndTime=now+2"], check=True)


def test_the_batch_scripts_ask_for_what_the_file_says() -> None:
    settings = load_cluster(str(CLUSTERS / "slurm.yaml"))
    cpu, gpu = (
        SLURMJob(
            scheduler="tcp://<scheduler>", name="worker", **job_options(settings, shape, resources, sharing=4)
        ).job_script()
        for shape, resources in kinds_of_workers(settings)
    )
    for line in (
        "#SBATCH -p batch",
        "#SBATCH --cpus-per-task=2",
        "#SBATCH -t 04:00:00",
        "--resources CPU=2",
        "umask 077",
    ):
        assert line in cpu
    assert "--nthreads 2" in cpu
    shared = ("--resources GPU=0.25", "--nthreads 1", "--nworkers 4", "--memory-limit 6.00GiB")
    for line in ("#SBATCH --gres=gpu:1", "#SBATCH --cpus-per-task=4", "#SBATCH --mem=24G", *shared):
        assert line in gpu


@ON_SLURM
@pytest.mark.slow
def test_the_demo_study_on_slurm(cluster: Path, demo_study: Path, tmp_path: Path, shared_server) -> None:
    result = storyframes(
        "extract", demo_study, tmp_path / "features", "--features", "openface", "--features", "opensmile",
        "--cluster", slurm_file(tmp_path), environment=shared_server,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "9 extracted" in result.stdout
    wait_for(lambda: jobs() == {})


@ON_SLURM
@pytest.mark.slow
def test_gpu_work_goes_to_the_job_with_a_gpu(cluster: Path, tmp_path: Path) -> None:
    settings = load_cluster(
        str(slurm_file(tmp_path, cpu={"count": 1, "memory": "1GiB"}, gpu={"count": 1, "memory": "1GiB"}))
    )
    with (
        slurm_cluster(settings, [{"CPU": 1}, {"GPU": 1}]) as connection,
        connection.client() as client,
    ):

        def gpu() -> str | None:
            import os

            return os.environ.get("CUDA_VISIBLE_DEVICES")

        assert client.submit(gpu, resources={"GPU": 1}, key="on-gpu").result(60) == "0"
        assert client.submit(gpu, resources={"CPU": 1}, key="on-cpu").result(60) is None
    wait_for(lambda: jobs() == {})


@ON_SLURM
@pytest.mark.slow
def test_a_job_whose_processes_share_a_gpu_is_replaced_as_a_whole(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.clusters.slurm._LOOK_EVERY_S", 0.5)
    shape = {"count": 1, "memory": "1GiB"}
    settings = load_cluster(str(slurm_file(tmp_path, cpu=shape, gpu=shape | {"cpus": 2})))
    need = {"GPU": 0.5}
    with slurm_cluster(settings, [need]) as connection, connection.client() as client:

        def on_gpu() -> set[str]:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            assert all(worker["nthreads"] == 1 for worker in workers.values())
            return {address for address, worker in workers.items() if worker["resources"] == need}

        wait_for(lambda: len(on_gpu()) == 2)
        before = on_gpu()
        listed = subprocess.run(["squeue", "-h", "-o", "%i %b"], capture_output=True, text=True, check=True).stdout
        (job,) = (line.split()[0] for line in listed.splitlines() if "gpu" in line)
        _end(job)
        wait_for(lambda: len(on_gpu() - before) == 2)
        assert client.submit(os.getpid, resources=need, pure=False).result(60)
    wait_for(lambda: jobs() == {})


@ON_SLURM
@pytest.mark.slow
def test_a_job_that_slurm_ends_is_replaced_and_its_work_done_again(
    cluster: Path, study_copy: Path, tmp_path: Path, shared_server
) -> None:
    tool = tmp_path / "FeatureExtraction"
    # The first run of each session hangs until its job is killed; later ones replay.
    tool.write_text(
        "#!/bin/sh\n"
        "while [ $# -gt 0 ]; do case $1 in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift; done\n"
        "name=${input##*/}; stem=${name%.*}\n"
        f"if mkdir {tmp_path}/$stem.tried 2>/dev/null; then echo half > $out/$stem.csv; exec sleep 1000; fi\n"
        f"gunzip -c {study_copy}/openface/$stem.csv.gz > $out/$stem.csv\n"
    )
    tool.chmod(0o755)
    config = tmp_path / "c.toml"
    config.write_text(f'[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n')
    shape = {"count": 1, "cpus": 2, "memory": "1GiB"}
    command = [
        sys.executable, "-m", "flows.cli", "extract", str(study_copy), str(tmp_path / "features"),
        "--features", "openface", "--session", "p01-s01", "--config", str(config),
        "--cluster", str(slurm_file(tmp_path, cpu=shape)),
    ]  # fmt: skip
    environment = os.environ | shared_server
    run = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wait_for(lambda: (tmp_path / "p01-s01.tried").exists())
    (job,) = jobs()
    _end(job)
    output, _ = run.communicate()
    assert run.returncode == 0, output
    assert "2 extracted" in output
    verified = storyframes("verify", tmp_path / "features")
    assert verified.returncode == 0, verified.stdout
    wait_for(lambda: jobs() == {})


def _longest_s(dask_scheduler) -> float:
    """Seconds for which a worker has been at the task that it does."""
    return max((s for worker in dask_scheduler.workers.values() for s in worker.executing.values()), default=0.0)


@ON_SLURM
@pytest.mark.slow
def test_jobs_that_end_are_replaced_and_what_outlasts_one_is_given_up(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends while it starts; one at its walltime, with a task that waits; the last, as its node is drained."""
    monkeypatch.setattr("flows.clusters.slurm._LOOK_EVERY_S", 0.5)
    monkeypatch.setattr("flows.clusters.slurm._LOST_AFTER", "2 s")
    monkeypatch.setattr("flows.clusters.slurm.SAY_EVERY_S", 0.5)
    monkeypatch.setitem(DASK, "distributed.scheduler.allowed-failures", 0)
    prologue = [f"mkdir {tmp_path}/first 2>/dev/null && exit 1"]
    file = slurm_file(tmp_path, prologue=prologue, cpu={"count": 1, "memory": "1GiB"}, walltime="00:00:10")
    settings = load_cluster(str(file))
    said: list[str] = []
    on_a_cpu = {"resources": {"CPU": 1}, "pure": False}
    with dask_cluster(settings, [{"CPU": 1}], said.append) as connection, connection.client() as client:
        assert (tmp_path / "first").exists()
        endless, waits = client.submit(time.sleep, 1000, **on_a_cpu), client.submit(sum, (1, 2), **on_a_cpu)
        wait_for(lambda: client.run_on_scheduler(_longest_s) > 9)
        (job,) = jobs()
        _end(job)
        with pytest.raises(JobTooShortError, match=naming("10 s", "cluster's file")):
            endless.result()
        assert waits.result() == 3  # its worker's death is not its fault
        (job,) = jobs()
        subprocess.run(["scontrol", "update", "NodeName=ci1", "State=DRAIN", "Reason=test"], check=True)
        try:
            _end(job)
            late = client.submit(sum, (1, 2), **on_a_cpu)
            wait_for(lambda: "DRAIN" in "".join(said))
            assert said[-1].startswith("work waits for workers since ")
            assert connection.gave_up == []
            vars(settings)["start_timeout_s"] = 1.0  # it was enough for the first worker
            wait_for(late.cancelled)
            (why,) = connection.gave_up
            assert missing(why, "no worker", "0 workers", "pending", "DRAIN") == []
        finally:
            subprocess.run(["scontrol", "update", "NodeName=ci1", "State=RESUME"], check=True)
    wait_for(lambda: jobs() == {})


@ON_SLURM
@pytest.mark.slow
def test_a_drained_node_is_named_while_the_run_waits_and_when_it_gives_up(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.clusters.connection.SAY_EVERY_S", 1.0)
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")  # what the user wants to see elsewhere: it hides the pending job
    settings = load_cluster(str(slurm_file(tmp_path, cpu={"count": 1, "memory": "1GiB"}, start_timeout_s=5)))
    said: list[str] = []
    subprocess.run(["scontrol", "update", "NodeName=ci1", "State=DRAIN", "Reason=test"], check=True)
    try:
        with (
            pytest.raises(ClusterError, match=naming("no worker", "0 workers", "pending", "DRAIN")),
            slurm_cluster(settings, [{"CPU": 1}], said.append),
        ):
            pass
    finally:
        subprocess.run(["scontrol", "update", "NodeName=ci1", "State=RESUME"], check=True)
    assert "waiting for workers since" in said[0]
    assert "DRAIN" in said[-1]
    monkeypatch.delenv("SQUEUE_STATES")
    wait_for(lambda: jobs() == {})


@ON_SLURM
@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"prologue": ["exit 1"]},
            r"no worker is left: the worker cpu-0 is not started again: its jobs (\d+, ){{4}}\d+ ended before it had "
            r"been there for 60 s: look at their output in {folder}$",
        ),
        (
            {"prologue": ['[ "$CUDA_VISIBLE_DEVICES" ] || exit 1'], "gpu": {"count": 1, "memory": "1GiB"}},
            "^the worker cpu-0 is not started again: its jobs ",  # and the run does not wait longer, beside one that is
        ),
        ({"queue": "nowhere"}, "Slurm does not take the jobs: sbatch: error: invalid partition specified: nowhere "),
    ],
)
def test_jobs_that_never_become_workers_are_not_submitted_for_ever(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr("flows.clusters.slurm._LOOK_EVERY_S", 0.5)
    settings = load_cluster(str(slurm_file(tmp_path, cpu={"count": 1, "memory": "1GiB"}, **changes)))
    with (
        pytest.raises(ClusterError, match=said.format(folder=tmp_path)),
        slurm_cluster(settings, [{"CPU": 1}]),
    ):
        pass
    wait_for(lambda: jobs() == {})


@ON_SLURM
@pytest.mark.slow
def test_nobody_else_speaks_to_the_jobs_or_reads_their_certificates(cluster: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    changes = {"shared_directory": str(shared), "cpu": {"count": 1, "memory": "1GiB"}}
    settings = load_cluster(str(slurm_file(tmp_path, **changes)))
    with slurm_cluster(settings, [{"CPU": 1}]) as connection, open_folder() as folder:
        (certificates,) = shared.iterdir()
        assert stat.S_IMODE(certificates.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in certificates.iterdir()} == {0o600}
        (job,) = jobs()
        pids = processes_with(f"SLURM_JOB_ID={job}\0")
        assert any(str(certificates / "key.pem") in command_line(pid) for pid in pids)
        assert not any("PRIVATE KEY" in command_line(pid) for pid in pids)
        ports = {port for _, port in ports_of([*pids, os.getpid()])}
        assert int(connection.address.rpartition(":")[2]) in ports
        assert len(ports) == 3  # the scheduler, the nanny, the worker: no page
        assert let_in(intrude(folder, [f"127.0.0.1:{port}" for port in ports])) == {}
        assert list(folder.iterdir()) == []
    assert list(shared.iterdir()) == []
    wait_for(lambda: jobs() == {})


def test_certificates_of_killed_runs_are_removed(tmp_path: Path) -> None:
    long_ago = time.time() - 7200
    for name in ("killed", "young"):
        folder = tmp_path / f"storyframes-tls-{name}"
        folder.mkdir()
        for file in ("lock", "key.pem"):
            (folder / file).touch()
    os.utime(tmp_path / "storyframes-tls-killed", (long_ago, long_ago))
    us = ProcessIdentity.this_process()
    left = tmp_path / f"storyframes-tls-{ProcessIdentity(us.boot, us.namespace, us.pid, '1').text('.')}-ab_d1234"
    left.mkdir()  # of this machine: that its process has ended is known at once
    (tmp_path / "something else").mkdir()
    with certificates_in_files(str(tmp_path)) as first:
        running = Path(first.tls_worker_key).parent
        os.utime(running, (long_ago, long_ago))
        with certificates_in_files(str(tmp_path)):
            assert {path.name for path in tmp_path.iterdir()} >= {
                running.name,
                "storyframes-tls-young",
                "something else",
            }
            assert not (tmp_path / "storyframes-tls-killed").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"storyframes-tls-young", "something else"}


def test_a_folder_for_certificates_that_cannot_be_written() -> None:
    with (
        pytest.raises(ClusterError, match=naming("/proc/nowhere: ", "certificates")),
        certificates_in_files("/proc/nowhere"),
    ):
        pass
