"""A full temporary folder, home or shared memory is named, with what to do, before a server or a worker is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.messages import unlike

from flows.cli.terminal import describe
from tasks.tools.disk_space import ENOUGH, places_without_room

ROOT = Path(__file__).parents[2]
TEMPORARY = "(TMPDIR) has 0 bytes free: make room there, or set TMPDIR to a folder on another disk"
HOME = "(XDG_STATE_HOME) has 0 bytes free: make room there, or set XDG_STATE_HOME to a folder on another disk"
SERVER = """
from flows.server.prefect_server import prefect_server
from flows.server.configured_server import ServerError
try:
    with prefect_server():
        print("it started")
except ServerError as error:
    print(error)
"""
CLUSTER = """
from flows.clusters.dask_cluster import dask_cluster
from flows.clusters.connection import ClusterError
from flows.clusters.settings import LocalCluster
if __name__ == "__main__":
    try:
        with dask_cluster(LocalCluster(cpus=1), [{"CPU": 1}]):
            print("it started")
    except ClusterError as error:
        print(error)
"""


@pytest.fixture
def full_disk(small_disk: Path) -> Path:
    fill(small_disk)
    return small_disk


def fill(folder: Path) -> None:
    with pytest.raises(OSError, match="No space left"), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_each_place_is_named_with_its_bytes(full_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert places_without_room() == []
    monkeypatch.setenv("XDG_STATE_HOME", str(full_disk / "not" / "made"))
    assert places_without_room() == [f"{full_disk}/not/made {HOME}"]
    monkeypatch.setenv("TMPDIR", str(full_disk))
    assert places_without_room() == [f"{full_disk} {TEMPORARY}", f"{full_disk}/not/made {HOME}"]
    (full_disk / "filler").write_bytes(bytes(700_000))
    assert places_without_room() == []
    temporary, _ = places_without_room(ENOUGH)
    free = os.statvfs(full_disk).f_bavail * os.statvfs(full_disk).f_frsize
    assert f"has {free:,} bytes free" in temporary


def test_an_error_of_a_full_disk_names_the_full_places(full_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(full_disk))
    with pytest.raises(OSError, match="No space left") as error:
        (full_disk / "more").write_bytes(bytes(4096))
    assert describe(error.value).endswith(f"No space left on device; {full_disk} {TEMPORARY}")


@pytest.mark.slow
@pytest.mark.parametrize(("variable", "said"), [("TMPDIR", TEMPORARY), ("XDG_STATE_HOME", HOME)])
def test_no_server_is_started_where_it_could_not_write(full_disk: Path, variable: str, said: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-c", SERVER]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment | {variable: str(full_disk)}, capture_output=True, text=True, check=True
    )
    assert not unlike(ended.stdout.splitlines(), ("the Prefect server of this",), (f"{full_disk} {said}",))


@pytest.mark.slow
@pytest.mark.needs("mounts")
def test_no_worker_is_started_where_shared_memory_is_full(tmp_path: Path) -> None:
    (tmp_path / "cluster.py").write_text(CLUSTER)
    mount = 'mount -t tmpfs -o size=64k tmpfs /dev/shm && { cat /dev/zero > /dev/shm/filler; exec "$@"; }'
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, str(tmp_path / "cluster.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert not unlike(ended.stdout.splitlines(), ("no worker can be started",), ("dev/shm", "0 bytes", "--shm-size of"))
