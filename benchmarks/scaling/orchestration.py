"""What the machinery costs where the work costs nothing: Prefect and Dask as storyframes uses them, beside Dask alone.

``python -m benchmarks.scaling.orchestration`` runs 135 and 269 sessions of 6 features (five minutes), ``--quick`` 9 and
36, ``--starting`` one session alone: what a run costs before its first unit, beside Prefect's and Dask's own start.
What each further session costs in memory shows only between sizes with several times the work that is submitted at
once (:data:`flows.gather.AT_ONCE`): up to there memory grows with what waits.
"""

from __future__ import annotations

import itertools
import sys
import tempfile

from benchmarks.performance_page import record
from benchmarks.scaling.noop_work import CPUS, Way
from benchmarks.scaling.processes import Cost, Role, cost_of
from tasks.extractors.registry import DEFAULT_FEATURES

SIZES, QUICK_SIZES = (135, 269), (9, 36)


def run(way: Way, sessions: int) -> Cost:
    """One way of doing the work of so many sessions, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="storyframes-bench-") as folder:
        return cost_of(["-m", "benchmarks.scaling.noop_work", way, str(sessions), folder])


def print_starting() -> None:
    """What a run of one session costs, which is its start, by process."""
    rows = []
    for way in Way:
        if way is not Way.DASK:
            run(way, 1)  # Prefect's database is new in the first run on a machine
        cost = run(way, 1)
        by_role = (f"{cost.cpu_by_role[role]:.1f}" if cost.cpu_by_role[role] else "" for role in Role)
        rows.append([way, f"{cost.cpu_s:.1f}", *by_role])
    columns = ("a run of one session, 6 units", "CPU-s", "driver", "server", f"{CPUS} workers")
    record("starting-a-run", columns, rows, ["prefect", "prefect-dask", "distributed"])


def main(sizes: tuple[int, int] = SIZES) -> None:
    small, large = sizes
    features = len(DEFAULT_FEATURES)
    print(f"no-op work, {features} features a session, {CPUS} processors, all processes from start to end")
    costs, rows = {}, []
    for sessions, way in itertools.product(sizes, (Way.STORYFRAMES, Way.DASK)):
        cost = costs[way, sessions] = run(way, sessions)
        tasks = sessions * features
        peaks = (f"{cost.peak_mb[role]:.1f}" if cost.peak_mb[role] else "" for role in Role)
        rows.append([f"{way}, {sessions} sessions", str(tasks), f"{cost.cpu_s:.1f}", f"{cost.wall_s:.1f}", *peaks])
        print(" | ".join(rows[-1]), flush=True)
    columns = ("", "tasks", "CPU-s", "wall s", *(f"{role} MB" for role in Role))
    if sizes == SIZES:  # quick ones are not in the place of these
        record("orchestration", columns, rows, ["prefect", "prefect-dask", "distributed"])
    for way in (Way.STORYFRAMES, Way.DASK):
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
    if "--starting" not in sys.argv[1:]:
        main(QUICK_SIZES if "--quick" in sys.argv[1:] else SIZES)
    print_starting()
