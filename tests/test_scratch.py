"""Private folders with a named owner: gone with him, or with the next one that is made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from storyframes.store.owner import Owner
from storyframes.store.scratch import make_scratch_folder, scratch_folder, sweep

PURPOSES = ["openface", "version", "prefect", "plan", "check"]
WEEK_S = 7 * 24 * 3600


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of its own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def start_owner(purpose: str = "openface") -> tuple[subprocess.Popen[str], Path]:
    """A process with a folder that has a file of a person in it."""
    code = (
        "import sys, time\nfrom storyframes.store.scratch import make_scratch_folder\n"
        "folder = make_scratch_folder(sys.argv[1])\n(folder / 'output').mkdir()\n"
        "(folder / 'output/video.csv').write_text('landmarks')\nprint(folder, flush=True)\ntime.sleep(1000)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, purpose], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def leave(owner: Owner, purpose: str = "openface", *, idle_s: float = 0) -> Path:
    """A folder with something in it, as a process of that name would have made it."""
    folder = Path(tempfile.gettempdir()) / f"storyframes-{purpose}-{owner.text('.')}-abcd_123"
    (folder / "output").mkdir(parents=True)
    (folder / "output/video.csv").write_text("landmarks")
    age(folder, idle_s)
    return folder


def age(folder: Path, idle_s: float) -> None:
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (time.time() - idle_s,) * 2)


def test_the_folder_is_private_and_goes_with_the_block(temporary: Path) -> None:
    with scratch_folder("openface") as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "video.csv").write_text("landmarks")
        assert sweep() == []
        assert folder.exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_folder_removes_those_of_the_dead(temporary: Path, purpose: str, deadly: signal.Signals) -> None:
    process, left = start_owner(purpose)
    assert sweep() == []  # it lives
    process.send_signal(deadly)
    process.wait()
    assert left.exists()
    made = make_scratch_folder("version")
    assert list(temporary.iterdir()) == [made]


def test_one_that_has_ended_and_that_nobody_has_asked_after_is_dead() -> None:
    process, left = start_owner()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert [leftover.path for leftover in sweep()] == [left]
    process.wait()


def test_an_id_that_was_used_again_is_not_the_owner() -> None:
    us = Owner.this_process()
    left = leave(Owner(us.boot, us.namespace, us.pid, "1"))
    alive = leave(us)
    assert [leftover.path for leftover in sweep()] == [left]
    assert alive.exists()


@pytest.mark.parametrize("field", ["boot", "namespace"])
def test_whom_nobody_here_can_ask_after_is_left_alone_for_a_week(field: str) -> None:
    us = Owner.this_process()
    stranger = Owner("0-0" if field == "boot" else us.boot, "1" if field == "namespace" else us.namespace, 2, "3")
    left = leave(stranger, idle_s=WEEK_S - 100)
    assert sweep() == []
    age(left, WEEK_S + 100)
    (left / "output/video.csv").write_text("more")  # somebody works in there
    assert sweep() == []
    age(left, WEEK_S + 100)
    assert [leftover.path for leftover in sweep()] == [left]


def test_the_folders_of_older_versions_go_after_a_week(temporary: Path) -> None:
    left = temporary / "storyframes-openface-ab_d1234"
    left.mkdir()
    assert sweep() == []
    age(left, WEEK_S + 100)
    assert [leftover.path for leftover in sweep()] == [left]


@pytest.mark.parametrize(
    "name", ["storyframes-plan-notes", "storyframes-openface", "storyframes-demo-abcd1234", "other-openface-abcd1234"]
)
def test_what_is_not_ours_by_name_stays(temporary: Path, name: str) -> None:
    (temporary / name).mkdir()
    age(temporary / name, 10 * WEEK_S)
    assert sweep() == []
    assert (temporary / name).exists()


def test_a_link_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    us = Owner.this_process()
    (temporary / f"storyframes-openface-{Owner(us.boot, us.namespace, 1, '2').text('.')}-abcd1234").symlink_to(precious)
    inside = leave(Owner(us.boot, us.namespace, us.pid, "1"))
    (inside / "link").symlink_to(precious)
    assert [leftover.path for leftover in sweep()] == [inside]
    assert (precious / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_stays() -> None:
    us = Owner.this_process()
    foreign = leave(Owner(us.boot, us.namespace, us.pid, "1"))
    os.chown(foreign, 12345, 12345)
    assert sweep() == []
    assert foreign.exists()


def test_a_dry_run_only_tells() -> None:
    process, left = start_owner()
    process.kill()
    process.wait()
    (leftover,) = sweep(dry_run=True)
    assert leftover.path == left
    assert leftover.bytes >= len("landmarks")
    assert left.exists()


def test_gc_removes_them(store_root: Path) -> None:
    process, left = start_owner("version")
    command = [sys.executable, "-m", "flows.cli", "gc", str(store_root)]
    alive = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "killed processes" not in alive.stdout
    process.kill()
    process.wait()
    shown = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=True)
    assert "temporary folders of killed processes on this machine: 1 to be removed" in shown.stdout
    assert left.exists()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "temporary folders of killed processes on this machine: 1 removed" in done.stdout
    assert not left.exists()


def test_a_name_is_read_back() -> None:
    us = Owner.this_process()
    for separator in ":.":
        assert Owner.parse(us.text(separator), separator) == us
    assert us.can_be_asked_after
    assert not us.is_gone
    for text in ("", "a", "a:b:c", "a:b:c:d", "a:b:1:d:e"):
        assert Owner.parse(text) is None
