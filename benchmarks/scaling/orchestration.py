"""What the machinery costs where the work costs nothing: Prefect and Dask as storyframes uses them, beside Dask alone.

``python -m benchmarks.scaling.orchestration`` runs 135 and 269 sessions of 6 features (five minutes), ``--quick`` 9 and
36.
What each further session costs in memory shows only between sizes with several times the work that is submitted at
once (:data:`flows.gather.AT_ONCE`): up to there memory grows with what waits.
"""

from __future__ import annotations

import itertools
import sys
import tempfile

from benchmarks.scaling.noop_work import CPUS, Way
from benchmarks.scaling.processes import Cost, Role, cost_of
from tasks.extractors.registry import DEFAULT_FEATURES

SIZES, QUICK_SIZES = (135, 269), (9, 36)


def run(way: Way, sessions: int) -> Cost:
    """One way of doing the work of so many sessions, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="storyframes-bench-") as folder:
        return cost_of(["-m", "benchmarks.scaling.noop_work", way, str(sessions), folder])


def main(sizes: tuple[int, int] = SIZES) -> None:
    small, large = sizes
    features = len(DEFAULT_FEATURES)
    print(f"orchestration of no-op work, {features} features a session, {CPUS} processors, everything counted")
    print(f"  {'':<26}{'tasks':>6}{'CPU-s':>8}{'CPU-s a task':>14}{'wall s':>8}  peak MB of driver, server, worker")
    costs = {}
    for sessions, way in itertools.product(sizes, Way):
        cost = costs[way, sessions] = run(way, sessions)
        tasks = sessions * features
        peaks = " ".join(f"{cost.peak_mb[role]:7.1f}" if cost.peak_mb[role] else "      -" for role in Role)
        name = f"{way}, {sessions} sessions"
        print(
            f"  {name:<26}{tasks:>6}{cost.cpu_s:>8.1f}{cost.cpu_s / tasks:>14.3f}{cost.wall_s:>8.1f}  {peaks}",
            flush=True,
        )
    for way in Way:
        less, more = costs[way, small], costs[way, large]
        further = (large - small) * features
        each = (more.cpu_s - less.cpu_s) / further
        by_role = ", ".join(
            f"{role} {(more.cpu_by_role[role] - less.cpu_by_role[role]) / further:.3f}"
            for role in Role
            if more.cpu_by_role[role]
        )
        grown = ", ".join(
            f"{role} {1000 * (more.peak_mb[role] - less.peak_mb[role]) / (large - small):.1f}"
            for role in Role
            if more.peak_mb[role]
        )
        print(f"  {way}: each further task {each:.3f} CPU-s ({by_role})")
        print(f"  {way}: each further session, KB of peak memory: {grown}")


if __name__ == "__main__":
    main(QUICK_SIZES if "--quick" in sys.argv[1:] else SIZES)
