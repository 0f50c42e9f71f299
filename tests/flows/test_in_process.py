"""Extraction in the command's own process: what a server and workers give, without either."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import storyframes_here
from support.media.recordings import write_recording
from support.messages import missing
from support.processes import HANG_S, ended, ports_of, wait_for
from support.servers.prefect_runs import request
from support.stores import local
from support.studies import make_study

from flows.clusters.settings import LocalCluster, Slurm, WorkerShape
from flows.gather import Bundle, Gather
from flows.in_process import Claims, InThisProcess, NotBegunError, attempt, is_faster_alone, perform_in_process
from flows.part_records import array_progress
from flows.run import Progress, Run, open_run, planned
from storyframes.store import maintenance, record_status
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from tasks.extract import ExtractionUnit, Outcome
from tasks.extractors.base import Source
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import Plan

ROOT = Path(__file__).parents[2]
GOES_ON = "what was published stays, the same command goes on from there"
_ANY_PROGRAM = f'[openface]\nbackend = "binary"\nbinary = "{sys.executable}"\nloads = ["{sys.executable}"]\n'
_FOREIGN = {"dask", "distributed", "fastapi", "httpx", "prefect", "prefect_dask", "sqlalchemy"}
_OF_EXTRACTION = {"av", "cv2", "opensmile", "openvino", "scipy", "torch", "torchvision", "transformers", "zarr"}
_ENTRY = "import sys, atexit; atexit.register(lambda: print(*sys.modules)); from flows.cli.entry import main; main()"


def command(study: Path, root: Path, *options: object, code: str = _ENTRY) -> list[str]:
    return [sys.executable, "-c", code, "extract", str(study), str(root), *map(str, options)]


def tool(folder: Path, recorded: Path, first: str) -> list[str]:
    """Options of a command whose OpenFace does ``first`` and then replays what the real one wrote."""
    program = folder / "FeatureExtraction"
    program.write_text(
        f"""#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift; done
name=${{input##*/}}; stem=${{name%.*}}
{first}
gunzip -c {recorded}/$stem.csv.gz > $out/$stem.csv
"""
    )
    program.chmod(0o755)
    sections = {"openface": {"backend": "binary", "binary": str(program), "loads": [str(program)]}}
    asked = request(recorded.parent, folder / "features", sections)
    return ["--config", str(asked.config), "--features", "openface,opensmile"]


def statuses(root: Path) -> dict[str, Status]:
    return {f"{entry.session_id}/{entry.feature}": entry.status for entry in record_status.scan(local(root))}


@pytest.mark.slow
def test_neither_prefect_nor_dask_is_imported_and_nothing_listens(small_study: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    environment = os.environ | {"XDG_STATE_HOME": str(state)}
    asked = command(small_study, tmp_path / "features", "--features", "frames,opensmile", "--workers", 1)
    run = subprocess.Popen(asked, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen: set[tuple[str, int]] = set()
    for line in run.stderr:
        seen |= ports_of([run.pid])
        if line.startswith("done "):
            break
    rest = run.stderr.read()
    printed = run.stdout.read()
    assert run.wait(HANG_S) == 0, rest
    *_, said, modules = printed.splitlines()
    assert missing(said, "4 extracted", "0 up to date", "0 failed", "the clip index has ") == []
    assert {module.partition(".")[0] for module in modules.split()} & _FOREIGN == set()
    assert seen == set()
    assert not state.exists()  # no server's database
    assert [path.name for path in (tmp_path / "features").glob(".unit-*")] == []
    assert (tmp_path / "features/clips.parquet").exists()
    for path in (tmp_path / "features").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    again = subprocess.run(asked, cwd=ROOT, env=environment, capture_output=True, text=True)
    *_, said, modules = again.stdout.splitlines()
    assert missing(said, "0 extracted", "4 up to date") == [], again.stderr
    # With nothing due no recording is opened, no array, and no model: each of these takes long to import.
    assert {module.partition(".")[0] for module in modules.split()} & (_FOREIGN | _OF_EXTRACTION) == set()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_what_is_done_and_ends_in_order(
    small_study: Path, tmp_path: Path, number: signal.Signals
) -> None:
    pids = tmp_path / "pids"
    options = tool(tmp_path, small_study / "openface", f"echo $$ >> {pids}; exec sleep 1000")
    asked = command(small_study, tmp_path / "features", *options)
    run = subprocess.Popen(asked, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    wait_for(lambda: run.poll() is not None or (pids.exists() and pids.read_text()))
    assert list((tmp_path / "features").glob(".unit-*"))  # it says which unit is at hand
    run.send_signal(number)
    ended(run)
    assert run.stderr
    errors = run.stderr.read()
    words = "interrupted" if number == signal.SIGINT else "terminated"
    assert (run.returncode, errors.splitlines()[-1]) == (128 + number, f"{words}: {GOES_ON}")
    assert "Traceback" not in errors
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()))
    assert not list((tmp_path / "features").glob(".unit-*"))  # nobody died of anything
    frames = {"s0001/frames": Status.DONE, "s0002/frames": Status.DONE}
    assert statuses(tmp_path / "features") == frames
    assert not list(maintenance.verify(local(tmp_path / "features")))


@pytest.mark.slow
def test_a_unit_that_kills_the_process_is_the_last_one_of_the_next_run(small_study: Path, tmp_path: Path) -> None:
    """And in the store it is failed, with the reason, as a worker's death would be; or a part's end."""
    root, number = tmp_path / "features", tmp_path / "number"
    deadly = f"if [ -e {number} ] && [ $stem = s0001 ]; then kill -$(cat {number}) $(cat {tmp_path}/pid); sleep 99; fi"
    options = tool(tmp_path, small_study / "openface", deadly)

    def run(*more: str) -> tuple[int, str]:
        code = f"import os; open('{tmp_path}/pid', 'w').write(str(os.getpid())); {_ENTRY}"
        asked = command(small_study, root, *options, *more, code=code)
        ended = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
        return ended.returncode, ended.stderr

    died = "the process that extracted it died (out of memory, a crash in native code, or the end of its job?)"
    number.write_text("TERM")
    assert run("--part", "1/1")[0] == 128 + signal.SIGTERM
    assert "s0001/openface" not in statuses(root)
    number.write_text("KILL")
    code, said = run()
    assert code == -signal.SIGKILL
    assert f"s0001/openface: {died}" in said
    done = {name: status for name, status in statuses(root).items() if status is Status.DONE}
    assert len(done) == len(statuses(root)) - 1 == 5  # all the others
    (failed,) = (entry for entry in record_status.scan(local(root)) if entry.status is Status.FAILED)
    assert (failed.session_id, failed.feature, failed.reason) == ("s0001", "openface", died)
    number.unlink()
    code, said = run()
    assert (code, f"s0001/openface: {died}" in said) == (0, True), said
    assert set(statuses(root).values()) == {Status.DONE}
    assert not list(root.glob(".unit-*"))


def test_what_a_unit_raises_is_its_own_fault(small_study: Path, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    class Ending(ExtractionUnit):
        def do(self) -> tuple[Outcome, ...]:
            raise SystemExit("what somebody said")

    asked = request(small_study, tmp_path / "features", session_ids=["s0001"], only=["frames"])
    (unit,) = planned(open_run(asked)).plan.units
    ending = Ending(unit.store, unit.source, unit.features, unit.settings)
    with pytest.raises(SystemExit):
        attempt(ending)  # in the main thread it may be a signal's
    with ThreadPoolExecutor(1) as thread:
        executor = InThisProcess(lambda unit: None, thread)
        ((lost,),) = executor.read(executor.submit(Bundle([ending]), 0), Bundle([ending]))
        ((done,),) = executor.read(executor.submit(Bundle([unit]), 0), Bundle([unit]))
    assert (lost.status, lost.reason) == (Status.FAILED, "the task raised SystemExit")
    assert done.status is Status.DONE


def test_little_work_is_done_here_and_much_by_workers(small_study: Path, tmp_path: Path) -> None:
    run = planned(open_run(request(small_study, tmp_path / "features", only=["frames"])))

    def run_of(costs: list[float], cluster: object, workers: int | None) -> Run:
        """As if a unit of the network cost 30 CPU-seconds, any other less."""
        units = [
            replace(run.plan.units[0], cost=cost, features=("resnet50",) if cost == 30 else ("opensmile",))
            for cost in costs
        ]
        settings = run.settings.model_copy(update={"cluster": cluster})
        asked = run.request.model_copy(update={"workers": workers})
        return replace(run, request=asked, settings=settings, plan=Plan(units=units))

    slurm = Slurm(kind="slurm", cpu=WorkerShape(count=1))
    for costs, cluster, workers, here in (
        ([1.0] * 10, LocalCluster(cpus=8), None, True),
        ([1.0] * 60, LocalCluster(cpus=8), None, False),
        ([30.0] * 3, LocalCluster(cpus=8), None, True),  # a network uses all processors here as well
        ([30.0] * 30, LocalCluster(cpus=8), None, False),
        ([1.0] * 5000, LocalCluster(cpus=1), None, True),
        ([1.0] * 5000, LocalCluster(cpus=1), 1, True),
        ([1.0], LocalCluster(cpus=1, gpus=1), None, False),
        ([1.0], LocalCluster(cpus=1, gpus=1), 1, True),
        ([1.0], slurm, None, False),
    ):
        assert is_faster_alone(run_of(costs, cluster, workers)) is here, (costs[:1], len(costs), cluster, workers)


def test_workers_are_of_this_machine(small_study: Path, tmp_path: Path) -> None:
    (tmp_path / "slurm.yaml").write_text("kind: slurm\ncpu: {count: 1}\n")
    refused = storyframes_here(
        "extract", small_study, tmp_path / "features", "--workers", 2, "--cluster", tmp_path / "slurm.yaml"
    )
    assert refused.returncode == 2
    assert missing(refused.stderr, "--workers 2", "'slurm'") == []


def test_what_no_processor_can_do_is_refused(small_study: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[resnet50]\nallow_untrained = true\ndevice = "cuda"\n')
    asked = ("--features", "resnet50", "--config", tmp_path / "c.toml", "--workers", 1)
    refused = storyframes_here("extract", small_study, tmp_path / "features", *asked)
    assert (refused.returncode, "asks for a GPU" in refused.stderr) == (2, True)


@pytest.mark.parametrize("options", [("--workers", 1, "--part", "1/2"), ("--server",)])
def test_too_few_processors_are_refused_before_anything_is_begun(
    study_copy: Path, tmp_path: Path, options: tuple[object, ...]
) -> None:
    """A refused part is not noted: it would be one that began and never ends."""
    (tmp_path / "c.toml").write_text(_ANY_PROGRAM + "[cluster]\ncpus = 1\n")
    asked = ("--features", "frames,openface", "--config", tmp_path / "c.toml", *options)
    refused = storyframes_here("extract", study_copy, tmp_path / "features", *asked)
    assert refused.returncode == 2
    assert list(array_progress(local(tmp_path / "features"))) == []
    assert missing(refused.stderr, "openface asks for 2 CPU", "[openface] cpus", "CPU 1", "[cluster] cpus") == []
    assert "server" not in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("where", ["environment", "profile", "file", "nowhere"])
def test_a_configured_server_is_found_wherever_prefect_finds_it(tmp_path: Path, where: str) -> None:
    code = (
        "import sys; from flows.server.configured_server import is_server_configured;"
        "print(is_server_configured(), 'prefect' in sys.modules)"
    )
    home = tmp_path / "prefect"
    home.mkdir()
    environment = os.environ | {"PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT)}
    with contextlib.suppress(KeyError):
        del environment["PREFECT_API_URL"]
    url = "http://127.0.0.1:9/api"
    if where == "environment":
        environment["PREFECT_API_URL"] = url
    elif where == "profile":
        (home / "profiles.toml").write_text(f'active = "lab"\n[profiles.lab]\nPREFECT_API_URL = "{url}"\n')
    elif where == "file":
        (tmp_path / "prefect.toml").write_text(f'[api]\nurl = "{url}"\n')
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == ("False False\n" if where == "nowhere" else "True True\n")


def test_no_other_process_can_take_the_unit_that_is_at_hand(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", video="v.mkv")
    write_recording(study / "v.mkv", 5)
    store, free = tmp_path / "features", list[bool]()

    class Watching(Progress):
        def finished(self, outcome: Outcome) -> None:
            for path in store.glob(".unit-*"):
                with local(store).abandoned(path.name) as is_free:
                    free.append(is_free)

    run = planned(open_run(request(study, store, {"cluster": {"cpus": 1}}, only=("frames",)), Watching()))
    assert [outcome.status for outcome in perform_in_process(run)] == [Status.DONE]
    assert free
    assert not any(free)
    assert not [*store.glob(".unit-*")]


def claimed_unit(root: Path, study: Path) -> tuple[Run, ExtractionUnit]:
    run = planned(open_run(request(study, root, only=["frames"])))
    return run, run.plan.units[0]


def test_a_clock_comes_before_the_features_whose_pass_killed_a_process(small_study: Path, tmp_path: Path) -> None:
    run, unit = claimed_unit(tmp_path / "features", small_study)
    first = replace(unit, features=("frames", "opensmile"), after=())
    second = run.plan.units[1]
    child = os.fork()
    if child == 0:
        kept = Claims(run.storage, lambda _: None)
        kept.begin(first)
        os._exit(0)
    os.waitpid(child, 0)
    lines: list[str] = []
    planned_again = Claims(run.storage, lines.append).deadly_last([first, second])
    assert [one.makes for one in planned_again] == [
        second.makes,
        [(first.session_id, "frames")],
        [(first.session_id, "opensmile")],
    ]
    assert planned_again[-1].awaits == [(first.session_id, "frames")]
    assert f"{first.session_id}/frames+opensmile: " in lines[0]
    assert not [*(tmp_path / "features").glob(".unit-*")]  # else the next run took another unit for a deadly one


def test_in_an_object_store_the_clock_comes_before_the_features(url: str) -> None:
    """Else one that kills its process would keep the clock from being made, run after run."""
    unit = ExtractionUnit(url, Source("s", {}), ("frames", "resnet50"), ExtractorsSettings())
    units = Claims(create_store(url), lambda _: None).deadly_last([unit])
    assert [one.makes for one in units] == [[("s", "frames")], [("s", "resnet50")]]


def test_what_another_process_is_at_is_done_last_and_given_up_in_the_end(small_study: Path, tmp_path: Path) -> None:
    run, unit = claimed_unit(tmp_path / "features", small_study)
    other, lines = Claims(run.storage, lambda _: None), []
    other.begin(unit)
    claims = Claims(run.storage, lines.append, wait_s=0)
    outcomes = []
    for _ in range(2):
        with pytest.raises(NotBegunError) as busy:
            claims.begin(unit)
        outcomes += busy.value.outcomes
    named = f"another process ({os.getpid()} of {getpass.getuser()} on {socket.gethostname()})"
    assert [outcome.transient for outcome in outcomes] == [True, False]  # the first is tried again
    assert [named in line for line in (*lines, *(outcome.reason for outcome in outcomes))] == [True] * 4
    assert "waiting for at most 0 min" in lines[1]
    assert list(record_status.scan(run.storage)) == []  # the store says nothing of what was not begun
    other.close()
    claims.begin(unit)
    claims.close()


def test_a_stopped_process_at_a_unit_is_named_and_the_others_are_done_meanwhile(
    small_study: Path, tmp_path: Path
) -> None:
    """A child takes the claim and stops itself; it is let go when everything else is done."""
    run, unit = claimed_unit(tmp_path / "features", small_study)
    child = os.fork()
    if child == 0:
        kept = Claims(run.storage, lambda _: None)
        kept.begin(unit)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    lines: list[str] = []
    done: list[Outcome] = []
    claims = Claims(run.storage, lines.append)

    def sleep(seconds: float) -> None:
        os.kill(child, signal.SIGCONT)
        os.waitpid(child, 0)

    try:
        gathered = Gather(InThisProcess(claims.begin), done.append, at_once=1, sleep=sleep).run(run.plan.units)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    claims.close()
    assert f"({child} of " in lines[0]
    assert f"kill -CONT {child}" in lines[0]
    assert [outcome.session_id for outcome in done][-1] == unit.session_id
    assert [outcome.status for outcome in gathered] == [Status.DONE, Status.DONE]
