"""Waiting ends when nothing happens any more, however slow the machine is; the clock here is the test's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import wait_for

from tasks.tools.patience import Patience, cpu_seconds


class Machine:
    """A clock and a process's CPU time, which the test sets."""

    def __init__(self, *files: Path) -> None:
        self.now, self.used = 100.0, 7.0
        self.patience = Patience(
            lambda: [1], *files, stalled_s=120, limit_s=1800, clock=lambda: self.now, cpu_s=lambda _: self.used
        )

    def after(self, seconds: float, cpu_s: float = 0.0) -> str:
        self.now += seconds
        self.used += cpu_s
        return self.patience.why_over()


def test_a_starved_process_is_waited_for_and_one_that_only_polls_is_not() -> None:
    starved = Machine()
    assert [starved.after(60, 3.0) for _ in range(29)] == [""] * 29  # 5 % of a processor
    assert "1800 s" in starved.after(61, 3.0)
    polling = Machine()
    assert [polling.after(10, 0.05) for _ in range(12)] == [""] * 12
    assert "120 s" in polling.after(10, 0.05)


def test_a_log_that_grows_is_progress(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    machine = Machine(log)
    for size in (0, 1, 2):
        log.write_bytes(b"x" * size)
        assert machine.after(119) == ""
    assert machine.after(119) == ""
    assert "without any progress" in machine.after(2)


def test_what_a_process_that_ended_had_used_is_not_asked_of_the_next() -> None:
    machine = Machine()
    assert machine.after(10, -6.0) == ""  # it was killed, and another was started
    assert machine.after(100, 2.5) == ""
    assert machine.after(119) == ""
    assert "120 s" in machine.after(2)


def test_the_cpu_time_of_children_counts_and_that_of_a_stopped_process_does_not() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        wait_for(lambda: cpu_seconds([process.pid]) > 0.1)
        before = cpu_seconds([os.getpid()])
        wait_for(lambda: cpu_seconds([os.getpid()]) > before + 0.05)
        os.killpg(process.pid, signal.SIGSTOP)
        wait_for(lambda: all_stopped(process.pid))
        stopped = cpu_seconds([process.pid])
        sum(range(2_000_000))
        assert cpu_seconds([process.pid]) == pytest.approx(stopped, abs=0.011)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert cpu_seconds([process.pid]) == 0


def all_stopped(group: int) -> bool:
    """Whether every process of the group is stopped."""
    states = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            states.append(fields[0])
    return set(states) == {"T"}
