"""What a command and all the processes that it starts cost: CPU seconds and peak memory, by the part they play."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil

_LOOK_EVERY_S = 0.25


class Role(StrEnum):
    """The part that a process plays."""

    DRIVER = "driver"
    SERVER = "server"
    WORKER = "worker"


@dataclass
class Cost:
    """What a command cost.

    Attributes:
        cpu_s: user and system time of all its processes, from their start to their end.
        wall_s: how long it took.
        cpu_by_role: seconds, as last seen: up to a quarter of a second of each process is missing.
        peak_mb: of the largest process of each role; resident memory (RSS, with shared pages) in MB of 10^6 bytes, as
            the kernel keeps it, so no peak is missed.
    """

    cpu_s: float = 0.0
    wall_s: float = 0.0
    cpu_by_role: dict[Role, float] = field(default_factory=lambda: defaultdict(float))
    peak_mb: dict[Role, float] = field(default_factory=lambda: defaultdict(float))


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command of Python's and say what it cost.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    before, started = _cpu_of_children(), time.perf_counter()
    cpu: dict[tuple[int, float], tuple[Role, float]] = {}
    peak: dict[Role, float] = defaultdict(float)
    with subprocess.Popen([sys.executable, *command]) as child:
        while child.poll() is None:
            for process in _family(child.pid):
                try:
                    role = _role(process, child.pid)
                    times = process.cpu_times()
                    cpu[process.pid, process.create_time()] = role, times.user + times.system
                    peak[role] = max(peak[role], _peak_mb(process.pid))
                except (psutil.Error, OSError, ValueError):
                    continue  # it ended while we looked
            time.sleep(_LOOK_EVERY_S)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(command))
    cost = Cost(_cpu_of_children() - before, time.perf_counter() - started, peak_mb=peak)
    for role, seconds in cpu.values():
        cost.cpu_by_role[role] += seconds
    return cost


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def _role(process: psutil.Process, driver: int) -> Role:
    line = " ".join(process.cmdline())
    if process.pid == driver:
        return Role.DRIVER
    return Role.SERVER if "prefect server start" in line else Role.WORKER


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 / 1e6 if lines else 0.0  # what has ended but was not yet waited for has none


def _cpu_of_children() -> float:
    """CPU seconds of every child that has ended, with its own."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
