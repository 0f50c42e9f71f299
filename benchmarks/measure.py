"""Measuring: interleaved runs, CPU seconds, medians."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


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
