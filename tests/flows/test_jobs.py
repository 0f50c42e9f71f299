"""The scripts of batch systems: what they ask for, and an array of a real Slurm that loses jobs and ends whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from support.commands import ROOT, storyframes_here
from support.messages import missing
from support.processes import HANG_S, wait_for
from support.servers.prefect_runs import request
from support.servers.slurm_cluster import slurm
from support.stores import local

from flows.clusters.connection import ClusterError
from flows.clusters.job_arrays import Job, Scheduler, limits_time, scripts
from flows.part_records import PartArray, PartState, note_part
from flows.run import open_run, planned
from storyframes.store import maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from storyframes.store.storage.files import sha256_file
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.parts import costs_alone, session_costs
from tasks.planning.selection import Selection
from tasks.study.load import load_study

# What tells the scripts of one batch system from those of another: in cpu.sh, gpu.sh and submit.sh.
_GOLDEN = {
    "slurm": (
        ["#SBATCH --array=1-2", "#SBATCH --requeue", "#SBATCH --cpus-per-task=2", "#SBATCH --mem=6G",
         "#SBATCH --time=01:30:00", "#SBATCH --signal=B:TERM@60", "#SBATCH --partition=long",
         '--part "$SLURM_ARRAY_TASK_ID"/2'],
        ["#SBATCH --gres=gpu:1"],
        ["cpu=$(sbatch --parsable cpu.sh | cut -d ';' -f 1)", "sbatch --dependency=afterany:$cpu:$gpu index.sh",
         "unset SBATCH_TIMELIMIT  # which would replace the scripts' --time"],
    ),
    "sge": (
        ["#$ -S /bin/bash", "#$ -t 1-2", "#$ -r y",
         "#$ -notify", "#$ -pe smp 2", "#$ -l mem_free=6G", "#$ -l h_rt=01:30:00",
         "#$ -l s_rt=01:29:00", "#$ --partition=long", '--part "$SGE_TASK_ID"/2'],
        ["#$ -l gpu=1"],
        ["cpu=$(qsub -terse cpu.sh | cut -d . -f 1)", "qsub -hold_jid $cpu,$gpu index.sh"],
    ),
    "pbs": (
        ["#PBS -J 1-2", "#PBS -r y", "#PBS -l select=1:ncpus=2:mem=6gb", "#PBS -l walltime=01:30:00",
         "#PBS --partition=long", '--part "$PBS_ARRAY_INDEX"/2'],
        ["#PBS -l select=1:ncpus=2:mem=6gb:ngpus=1"],
        ["cpu=$(qsub cpu.sh)", "qsub -W depend=afterany:$cpu:$gpu index.sh"],
    ),
    "lsf": (
        ['#BSUB -J "storyframes-cpu[1-2]"', "#BSUB -r", "#BSUB -n 2", '#BSUB -R "span[hosts=1] rusage[mem=6GB]"',
         "#BSUB -W 01:30", "#BSUB --partition=long", '--part "$LSB_JOBINDEX"/2'],
        ['#BSUB -gpu "num=1"'],
        ["cpu=$(bsub < cpu.sh | sed 's/^Job <\\([0-9]*\\)>.*/\\1/')",
         'bsub -w "ended($cpu) && ended($gpu)" < index.sh'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("scheduler", _GOLDEN)
def test_the_scripts_ask_each_batch_system_in_its_own_words(small_study: Path, tmp_path: Path, scheduler: str) -> None:
    (tmp_path / "a b").mkdir()
    config = tmp_path / "a b" / "it's.toml"
    config.write_text('[resnet50]\nallow_untrained = true\ndevice = "cuda"\n')
    asked = ("--parts", 2, "--cpus", 2, "--memory", 6, "--walltime", 90, "--directive", "--partition=long")
    only = ("--features", "frames,opensmile,resnet50", "--config", config)
    written = storyframes_here(
        "jobs", small_study, tmp_path / "features", "--scheduler", scheduler, "--out", tmp_path / "jobs", *asked, *only
    )
    assert written.returncode == 0, written.stderr
    assert written.stdout.splitlines()[-1] == f"bash {tmp_path}/jobs/submit.sh"
    texts = {path.name: path.read_text() for path in (tmp_path / "jobs").iterdir()}
    assert sorted(texts) == ["cpu.sh", "gpu.sh", "index.sh", "submit.sh"]
    for name in texts:
        subprocess.run(["bash", "-n", name], cwd=tmp_path / "jobs", check=True)
    for file, expected in zip(("cpu.sh", "gpu.sh", "submit.sh"), _GOLDEN[scheduler], strict=True):
        for line in expected:
            assert any(line in there for there in texts[file].splitlines()), (line, texts[file])
    assert "--features frames,opensmile --workers 2" in texts["cpu.sh"]
    assert "--features resnet50 --workers 2" in texts["gpu.sh"]
    assert "gpu" not in texts["cpu.sh"].lower()
    assert "it'\"'\"'s.toml'" in texts["index.sh"]  # as a shell reads it


def test_the_walltime_follows_what_parts_have_measured(small_study: Path, tmp_path: Path) -> None:
    root = tmp_path / "features"
    costs = {"frames": (1.0, 400.0), "opensmile": (1.0, 20_000.0)}
    array = PartArray(parts=1, features=["frames", "opensmile"])
    note_part(create_store(root), "a", array, 1, PartState(costs=costs, cpus=1))
    lines = []
    for features in ("frames,opensmile", "opensmile,glove"):
        out = ("--scheduler", "slurm", "--out", tmp_path / "jobs", "--parts", 1, "--features", features)
        config = request(small_study, root).config
        lines.append(storyframes_here("jobs", small_study, root, *out, "--config", config).stdout.splitlines()[0])
    expected = session_costs(load_study(small_study), ExtractorsSettings(), Selection(only=("frames", "opensmile")))
    longest_s = sum(expected.values()) * 10_200
    walltime = f"walltime {10 * -(-int(2 * longest_s + 600) // 600)} min"
    assert missing(lines[0], f"{longest_s / 60:.0f} min", "parts before", walltime) == []
    assert "as the parts before took" not in lines[1]  # nothing is known of glove
    cost = costs_alone(load_study(small_study), ExtractorsSettings(), "s0001", ["opensmile"])["opensmile"]
    short = storyframes_here("jobs", small_study, root, *out, "--config", config, "--walltime", 2)
    said = f"s0001/opensmile is expected to take {cost * 20_000:.0f} s, as parts before took, and a job may take 120 s"
    assert (short.returncode, said in " ".join(short.stderr.split())) == (2, True), short.stderr
    for walltime, refused in (("00:02:00", True), ("40:00:00", False)):
        file = tmp_path / "slurm.yaml"
        file.write_text(f"kind: slurm\nwalltime: '{walltime}'\ncpu: {{count: 1}}\n")
        asked = request(small_study, root, only=["frames", "opensmile"], cluster=str(file))
        with pytest.raises(ClusterError, match=said) if refused else nullcontext():
            planned(open_run(asked))


def test_the_parts_of_a_job_share_its_gpu(tmp_path: Path) -> None:
    part = tmp_path / "part.sh"
    part.write_text('echo "$2" >> parts\n[ "$2" != 5/5 ] || exit 3\n')
    job = Job("gpu", ("bash", str(part)), 5, 2, 8, 60, gpu=True, at_once=2)
    script = scripts(Scheduler.SLURM, (job, Job("index", ("true",), 0, 1, 1, 60)), str(tmp_path))["gpu.sh"]
    assert "#SBATCH --array=1-3" in script.splitlines()
    (tmp_path / "gpu.sh").write_text(script)
    codes = []
    for number in "123":
        environment = os.environ | {"SLURM_ARRAY_TASK_ID": number}
        codes.append(subprocess.run(["bash", "gpu.sh"], cwd=tmp_path, env=environment, check=False).returncode)
    assert codes == [0, 0, 3]
    assert sorted((tmp_path / "parts").read_text().split()) == ["1/5", "2/5", "3/5", "4/5", "5/5"]


def test_a_signal_ends_all_parts_of_a_job(tmp_path: Path) -> None:
    part = tmp_path / "part.sh"
    part.write_text("trap 'kill $!; exit 143' TERM\nsleep 60 &\ntouch \"begun-${2%/*}\"\nwait\n")
    job = Job("gpu", ("bash", str(part)), 2, 2, 8, 60, gpu=True, at_once=2)
    script = scripts(Scheduler.SGE, (job, Job("index", ("true",), 0, 1, 1, 60)), str(tmp_path))["gpu.sh"]
    with subprocess.Popen(["bash", "-c", script], cwd=tmp_path) as running:
        wait_for(lambda: len([*tmp_path.glob("begun-*")]) == 2)
        running.send_signal(signal.SIGUSR1)  # which SGE sends to the script alone
        assert running.wait(30) == 143


@pytest.mark.parametrize(
    ("scheduler", "limits", "others"),
    [
        (Scheduler.SLURM, ["--time=10", "-t 10", "--mem=2G -t10", "--time-min=5"], ["--tmp=1G", "--tres-per-task=cpu"]),
        (Scheduler.SGE, ["-l h_rt=600", "-l mem_free=2G,s_rt=1:00:00"], ["-l mem_free=2G", "-q short"]),
        (Scheduler.PBS, ["-l walltime=10:00", "-l mem=2gb,walltime=600"], ["-l place=free", "-W umask=77"]),
        (Scheduler.LSF, ["-W 10", "-W10"], ["-We 10", "-q short", "-w ended(3)"]),
    ],
)
def test_options_that_limit_a_job_s_time(scheduler: Scheduler, limits: list[str], others: list[str]) -> None:
    assert [limits_time(scheduler, line) for line in [*limits, *others]] == [True] * len(limits) + [False] * len(others)


def test_what_no_script_can_have(small_study: Path, tmp_path: Path) -> None:
    asked = ("--scheduler", "slurm", "--out", tmp_path / "jobs", "--directive=-t 10")
    refused = storyframes_here("jobs", small_study, tmp_path / "f", *asked)
    assert (refused.returncode, missing(refused.stderr, "--directive -t 10", "--walltime")) == (2, [])
    for bad in " '%:":
        asked = ("--scheduler", "sge", "--out", tmp_path / f"a{bad}b", "--features", "frames")
        refused = storyframes_here("jobs", small_study, tmp_path / "f", *asked)
        assert (refused.returncode, f"takes no path with {bad!r}" in " ".join(refused.stderr.split())) == (2, True)


_WAITING = """
import sys, time
from flows.interruption import OF_THIS_PROCESS, heeded
OF_THIS_PROCESS.end_in_order()
with heeded():
    print(flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU])
@pytest.mark.parametrize("send", [os.killpg, os.kill], ids=["all processes", "the script"])
def test_a_batch_systems_signal_ends_the_command_in_order(
    tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    job = Job("cpu", (sys.executable, "-c", _WAITING), 0, 1, 1, 600)
    (tmp_path / "cpu.sh").write_text(scripts(Scheduler.SGE, (job,), str(tmp_path))["cpu.sh"])
    with subprocess.Popen(
        ["bash", tmp_path / "cpu.sh"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, cwd=ROOT
    ) as script:
        script.stdout.readline()
        send(script.pid, number)
        assert script.wait(HANG_S) == 128 + signal.SIGTERM


def _queue() -> dict[str, str]:
    """By job, or part of an array, its state and why it waits."""
    listed = subprocess.run(["squeue", "-h", "-r", "-o", "%i %T:%r"], capture_output=True, text=True, check=True).stdout
    return dict(line.split(maxsplit=1) for line in listed.splitlines())


def _in_state(state: str) -> list[str]:
    return [job for job, said in _queue().items() if said.startswith(state)]


def _shards(root: Path) -> list[str]:
    return sorted(sha256_file(path) for path in root.rglob("c/**/*") if path.is_file())


@pytest.mark.needs("slurm", "munge", "root")
@pytest.mark.slow
def test_arrays_of_a_real_slurm_that_are_throttled_preempted_cancelled_and_killed(
    small_study: Path, tmp_path: Path
) -> None:
    """Two arrays at once on one store, of two parts each; each part hangs at its OpenFace until it is told to go on."""
    tool, root, whole = tmp_path / "FeatureExtraction", tmp_path / "features", tmp_path / "whole"
    hold = tmp_path / "hold"
    tool.write_text(
        f"""#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift; done
name=${{input##*/}}; stem=${{name%.*}}
touch {tmp_path}/$stem.tried
while [ -e {hold} ]; do sleep .5; done
gunzip -c {small_study}/openface/$stem.csv.gz > $out/$stem.csv
"""
    )
    tool.chmod(0o755)
    hold.touch()
    sections = {"openface": {"backend": "binary", "binary": str(tool), "loads": [str(tool)]}}
    config = request(small_study, root, sections).config
    asked = ("--features", "openface,opensmile", "--config", config)
    array = ("--parts", 2, "--cpus", 2, "--memory", 1, "--directive=--array=1-2%1")
    written = storyframes_here(
        "jobs", small_study, root, "--scheduler", "slurm", "--out", tmp_path / "jobs", *array, *asked
    )
    assert written.returncode == 0, written.stderr
    with slurm():
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

        def submit(*command: str) -> None:
            subprocess.run(command, cwd=tmp_path / "jobs", env=environment, check=True, capture_output=True)

        submit("bash", "submit.sh")
        wait_for(lambda: "PENDING:JobArrayTaskLimit" in _queue().values())
        (throttled,) = (job for job, said in _queue().items() if said == "PENDING:JobArrayTaskLimit")
        submit("sbatch", "--array=1-2", "cpu.sh")
        tried = [tmp_path / f"{session}.tried" for session in ("s0001", "s0002")]
        wait_for(lambda: all(path.exists() for path in tried) or not _queue())
        assert all(path.exists() for path in tried), [path.read_text() for path in (tmp_path / "jobs").glob("*.log")]
        running = _in_state("RUNNING")
        assert len(running) == 3
        assert throttled not in running
        subprocess.run(["scancel", throttled], check=True)
        submit("sbatch", "--partition=urgent", "--cpus-per-task=3", "--wrap=true")  # of 8, of which 6 are taken
        wait_for(lambda: len(set(running) & set(_in_state("PENDING"))) == 1)
        (preempted,) = set(running) & set(_in_state("PENDING"))
        cancelled, killed = (job for job in running if job != preempted)
        subprocess.run(["scancel", cancelled], check=True)
        subprocess.run(["scancel", "--signal=KILL", killed], check=True)
        wait_for(lambda: not {cancelled, killed} & set(_queue()))
        hold.unlink()
        # Slurm would let a requeued job wait for two minutes.
        subprocess.run(["scontrol", "update", f"JobId={preempted}", "StartTime=now"], check=True)
        wait_for(lambda: not _queue())
        statuses = {f"{e.session_id}/{e.feature}": e.status for e in record_status.scan(local(root))}
        assert list(statuses.values()).count(Status.DONE) == 4  # those of the preempted part, and the other's frames
        assert (root / "catalogue.parquet").exists()  # the index job ran all the same
        (first,) = (tmp_path / "jobs").glob("index-*.log")
        assert "parts are missing" in first.read_text()
        submit("bash", "submit.sh")
        wait_for(lambda: not _queue())
        (second,) = {*(tmp_path / "jobs").glob("index-*.log")} - {first}
        assert "parts are missing" not in second.read_text()
    (tmp_path / "whole").mkdir()
    assert storyframes_here("extract", small_study, whole, *asked, "--workers", 2).returncode == 0
    parts, one = FeatureStore(root), FeatureStore(whole)
    columns = ["session_id", "feature", "status", "fingerprint", "rows", "bytes"]
    there = [name for name in columns if name in one.catalogue]
    assert parts.catalogue[there].astype(str).equals(one.catalogue[there].astype(str))
    assert len(one.catalogue) == 6
    list(maintenance.collect(local(root), grace_s=0))  # a job may be killed while it writes what another one has
    assert _shards(root) == _shards(whole) != []
    assert parts.clips().astype(str).equals(one.clips().astype(str))
    assert not list(maintenance.verify(local(root)))
