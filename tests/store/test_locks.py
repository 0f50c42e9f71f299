"""Who holds a lock is said to those who wait for it in vain."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.messages import missing
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.store.storage import StorageError, files, locks

ROOT = Path(__file__).parents[2]
_HOLD = "import sys, time; from pathlib import Path; from storyframes.store.storage.locks import locked\n"
_HOLD += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(1000)"


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", _HOLD, path], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_S", 0.2)


def test_a_stopped_holder_is_named_by_the_command_that_waited(store_root: Path, demo_study: Path, impatient) -> None:
    process = holder(store_root / ".catalogue.parquet.lock")
    try:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        result = CliRunner().invoke(app, ["index", str(demo_study), str(store_root)])
        assert result.exit_code == 2
        assert not missing(result.stderr, f"{store_root}/.catalogue.parquet.lock", "0 s", f"kill -CONT {process.pid}")
    finally:
        process.kill()
        process.communicate()
    assert CliRunner().invoke(app, ["index", str(demo_study), str(store_root)]).exit_code == 0


def test_a_running_holder_is_named_and_one_that_is_elsewhere(tmp_path: Path, impatient) -> None:
    lock = tmp_path / "lock"
    process = holder(lock)
    try:
        with pytest.raises(StorageError, match=f"by process {process.pid}, which is running"), locks.locked(lock):
            pass
        boot, namespace, pid, started = lock.read_text().split(":")
        for text in (f"another:{namespace}:{pid}:{started}", f"{boot}:1:{pid}:{started}", "", "nonsense"):
            lock.write_text(text)
            with pytest.raises(StorageError, match="of another machine or container"), locks.locked(lock):
                pass
    finally:
        process.kill()
        process.communicate()
    with locks.locked(lock):
        assert lock.read_text().split(":")[2] == str(os.getpid())


def test_a_file_that_is_removed_before_it_is_locked_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes a dead one's file away between open and flock: who then locks it holds nothing."""
    lock, flock = tmp_path / "lock", fcntl.flock
    opened: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        if not opened:
            lock.unlink()
        opened.append(os.fstat(descriptor).st_ino)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with locks.held(lock):
        assert lock.stat().st_ino == opened[-1]
    assert len(opened) == 2
    made = os.open(lock, os.O_CREAT | os.O_RDWR)
    opened.clear()
    assert not locks.lock_new_file(made)
    os.close(made)


def test_a_lock_whose_file_cannot_be_removed_is_free_afterwards(tmp_path: Path, monkeypatch) -> None:
    """The server of a network file system is away for a moment: the work that was done under it is no failure."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    lock = tmp_path / "lock"
    with monkeypatch.context() as away, locks.held(lock):
        away.setattr(Path, "unlink", fail)
    assert lock.exists()
    with locks.if_free(lock) as free:
        assert free


def test_a_lock_has_one_holder_and_is_free_afterwards(tmp_path: Path, impatient) -> None:
    lock = tmp_path / "lock"
    with locks.locked(lock):
        with pytest.raises(StorageError), locks.locked(lock):
            raise AssertionError("two have it")
        with locks.if_free(lock) as free:
            assert not free
    with locks.if_free(lock) as free:
        assert free


@pytest.mark.parametrize("path", ["../a", "a/../../b", "a/./b", "/a", "", "a/..", "a\0b"])
def test_a_path_that_leads_out_of_the_store_is_refused(path: str) -> None:
    with pytest.raises(StorageError):
        files.check_path(path)
    files.check_path("a..b/c")
