"""What a killed extraction leaves behind: no file of a person's face, no process, whoever was killed and however."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.commands import ONE_WORKER
from support.processes import alive, children, ended, processes_with, wait_for
from support.tools.openface_tools import script

from storyframes.store.storage.scratch import sweep

ROOT = Path(__file__).parents[2]
WORKER = """
import sys
import tempfile
from pathlib import Path
sys.path.insert(0, "tests")
from support.tools.openface_tools import extract
study, root, tool = map(Path, sys.argv[1:])
extract(study, root, "p01-s01", backend="binary", binary=tool)
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def tool(tmp_path: Path, study_copy: Path) -> Path:
    """Writes half of a CSV, starts something, and hangs."""
    return script(
        tmp_path,
        f"""
        while [ $# -gt 0 ]; do case "$1" in -out_dir) out=$2; shift;; esac; shift; done
        zcat '{study_copy}/openface/p01-s01.csv.gz' | head -n 100 > "$out/p01-s01.csv"
        sleep 1000 &
        echo $$ $! > {tmp_path}/pids.new; mv {tmp_path}/pids.new {tmp_path}/pids
        while :; do echo more >> "$out/more"; done
        """,
    )


def start(command: list[str], temporary: Path, tmp_path: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    environment = os.environ | {"TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_for((tmp_path / "pids").exists)
    assert outputs(temporary)
    return process, [int(pid) for pid in (tmp_path / "pids").read_text().split()]


def outputs(temporary: Path) -> list[Path]:
    return [*temporary.glob("storyframes-openface-*")]


def kill_reapers(worker: int) -> None:
    for reaper in children(worker, "reaper_process.py"):
        os.kill(reaper, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_output_and_all_that_the_tool_started_go_with_the_worker(
    study_copy: Path, store_root: Path, tool: Path, temporary: Path, tmp_path: Path, deadly: signal.Signals
) -> None:
    command = [sys.executable, "-c", WORKER, str(study_copy), str(store_root), str(tool)]
    worker, pids = start(command, temporary, tmp_path)
    worker.send_signal(deadly)
    worker.wait()
    wait_for(lambda: not outputs(temporary))
    wait_for(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.slow
def test_when_the_reaper_is_killed_too_the_next_run_removes_it(
    study_copy: Path, store_root: Path, tool: Path, temporary: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WORKER, str(study_copy), str(store_root), str(tool)]
    worker, pids = start(command, temporary, tmp_path)
    kill_reapers(worker.pid)
    worker.kill()
    worker.wait()
    os.kill(pids[1], signal.SIGKILL)
    (left,) = outputs(temporary)
    command = [sys.executable, "-m", "flows.cli", "extract", str(study_copy), str(store_root), "--features", "frames"]
    command += ["--session", "p01-s01", *ONE_WORKER]
    environment = os.environ | {"TMPDIR": str(temporary)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    assert not left.exists()


@pytest.mark.slow
def test_a_reaper_that_is_killed_disturbs_nobody(
    study_copy: Path, store_root: Path, temporary: Path, tmp_path: Path
) -> None:
    slow = script(
        tmp_path,
        f"""
        while [ $# -gt 0 ]; do case "$1" in -out_dir) out=$2; shift;; esac; shift; done
        echo $$ > {tmp_path}/pids.new; mv {tmp_path}/pids.new {tmp_path}/pids
        until [ -e {tmp_path}/go ]; do sleep .1; done
        zcat '{study_copy}/openface/p01-s01.csv.gz' > "$out/p01-s01.csv"
        """,
    )
    command = [sys.executable, "-c", WORKER, str(study_copy), str(store_root), str(slow)]
    worker, _ = start(command, temporary, tmp_path)
    kill_reapers(worker.pid)
    (tmp_path / "go").touch()
    assert worker.wait() == 0
    assert (store_root / "p01-s01/openface/current.json").exists()
    assert not outputs(temporary)


@pytest.mark.slow
@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGINT])
def test_the_output_goes_with_the_command(
    study_copy: Path, store_root: Path, tool: Path, temporary: Path, tmp_path: Path, deadly: signal.Signals
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n')
    command = [
        sys.executable, "-m", "flows.cli", "extract", str(study_copy), str(store_root), "--features", "openface",
        "--session", "p01-s01", "--config", str(config),
    ]  # fmt: skip
    main, pids = start(command, temporary, tmp_path)
    main.send_signal(deadly)
    ended(main)
    wait_for(lambda: not outputs(temporary))
    wait_for(lambda: not any(alive(pid) for pid in pids))


CLUSTER = """
import os, time
from flows.clusters.dask_cluster import dask_cluster
from flows.clusters.settings import LocalCluster
with dask_cluster(LocalCluster(cpus=2), [{"CPU": 1}] * 2) as connection, connection.client() as client:
    print(client.submit(os.getpid).result(), flush=True)
    time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGINT])
def test_workers_and_what_they_are_forked_from_go_with_the_command(
    tmp_path: Path, deadly: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / ("deep" * 25)  # longer than the address of a socket may be
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CLUSTER]
    main = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert main.stdout is not None
    worker = int(main.stdout.readline())
    assert worker in [pid for server in children(main.pid, "forkserver") for pid in children(server)]
    main.send_signal(deadly)
    ended(main)
    wait_for(lambda: not processes_with(f"TMPDIR={temporary}\0"))
    if deadly == signal.SIGKILL:  # as the next command does
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        sweep()
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_a_killed_plan_leaves_no_cut_of_a_recording(
    study_copy: Path, tool: Path, temporary: Path, tmp_path: Path
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        f'features = ["openface"]\n[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n'
    )
    command = [sys.executable, "-m", "flows.cli", "plan", str(study_copy), "--config", str(config)]
    main, _ = start(command, temporary, tmp_path)
    assert list(temporary.glob("storyframes-plan-*"))
    main.kill()
    main.wait()
    wait_for(lambda: not list(temporary.glob("storyframes-*")))


@pytest.mark.slow
def test_a_passing_server_takes_its_folder_with_it(temporary: Path, tmp_path: Path) -> None:
    kept = tmp_path / "state/storyframes/prefect"
    kept.mkdir(parents=True)
    serving = "from flows.server.prefect_server import prefect_server\nwith prefect_server():\n    time.sleep(1000)\n"
    code = f"import time\n{serving}"
    environment = os.environ | {"TMPDIR": str(temporary), "XDG_STATE_HOME": str(tmp_path / "state")}
    with (kept / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as another command does that uses the kept one
        main = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, start_new_session=True)
        wait_for(lambda: list(temporary.glob("storyframes-prefect-*/*.db")))
        main.kill()
        main.wait()
    wait_for(lambda: not list(temporary.glob("storyframes-*")))
