"""Measuring: interleaved runs, CPU seconds, medians; peak memory in a process of its own; the machine."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """Medians over the runs of one candidate."""

    cpu_s: float
    wall_s: float


def cpu_seconds() -> float:
    """CPU time of this process with all its threads, and of its worker processes that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def interleave(candidates: Mapping[str, Callable[[], object]], runs: int = 5) -> dict[str, Measured]:
    """Run every candidate in turn, ``runs`` times after one warm-up, so that a drifting machine drifts for all."""
    cpu: dict[str, list[float]] = {name: [] for name in candidates}
    wall: dict[str, list[float]] = {name: [] for name in candidates}
    for run in range(runs + 1):
        for name, candidate in candidates.items():
            cpu_start, wall_start = cpu_seconds(), time.perf_counter()
            candidate()
            if run:
                cpu[name].append(cpu_seconds() - cpu_start)
                wall[name].append(time.perf_counter() - wall_start)
    return {name: Measured(statistics.median(cpu[name]), statistics.median(wall[name])) for name in candidates}


def peak_memory_gb(module: str, name: str) -> float:
    """The largest resident memory of a process in which ``module`` runs what it calls ``name`` once.

    The module prints the VmHWM of its own status, kB: getrusage would count the parent's, from before the exec.
    """
    command = [sys.executable, "-m", module, "--memory-of", name]
    root = Path(__file__).parents[1]
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout
    return int(output.splitlines()[-1]) * 1024 / 1e9


def machine() -> dict[str, str]:
    """The date, the processors that this process may use, by name, and the load, what else keeps them busy."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown processor")
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    bfloat16 = " with ".join(["", *(flag for flag in ("avx512_bf16", "amx_bf16") if flag in flags)])
    cpus, busy = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": f"{cpus} x {name}{bfloat16}", "load": f"{busy:.1f}"}


def print_machine() -> None:
    """The same, as a line."""
    here = machine()
    print(f"{here['date']}, {here['machine']}, load {here['load']} when the benchmark began\n")
