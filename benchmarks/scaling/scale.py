"""What grows with the number of sessions: one table of CPU, memory and time, from 269 sessions to 100,000.

``python -m benchmarks.scaling.scale`` measures all (an hour), ``--quick`` with few sessions, ``--only NAME`` one
measure.
A measure is something that is done with so many sessions, in a process of its own: add one to :func:`measures`. What
it needs is made beforehand and not counted.
"""

from __future__ import annotations

import argparse
import pickle
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from benchmarks.scaling.processes import Cost, Role, cost_of

SIZES = (269, 2_000, 20_000, 100_000)
QUICK_SIZES = (4, 12)
COLUMNS = (
    "what",
    "sessions",
    "CPU-s",
    "ms a session",
    "of the work",
    "wall s",
    *(f"{role} MB" for role in Role),
    "did",
)
LIBRARIES = ("pandas", "pyarrow", "zarr")
_MADE = "made.pickle"


@dataclass(frozen=True)
class Measure:
    """Something whose cost may depend on how many sessions there are.

    Attributes:
        name: of its rows.
        make: makes what it needs for so many sessions in a folder, and says where that is; not counted.
        do: does it, with what ``make`` gave, in a process of its own; gives what is to be said beside its row.
        sizes: how many sessions it is measured with.
        work_s: of the work that it gives out, CPU-seconds a session, where there is any: its own cost is a share of it.
    """

    name: str
    make: Callable[[Path, int], Any]
    do: Callable[[Any], str]
    sizes: tuple[int, ...] = SIZES
    work_s: float = 0.0


def measures() -> dict[str, Measure]:
    """All there are, by name."""
    from benchmarks.scaling import scale_index as index
    from benchmarks.scaling.scale_planning import PLANNING, PLANNING_UNCHANGED
    from benchmarks.scaling.scale_report import MAKING, OPENING_PAGE
    from benchmarks.scaling.scale_work import GIVING_OUT, GIVING_OUT_CHEAP, STARTING

    run = (STARTING, PLANNING, PLANNING_UNCHANGED, GIVING_OUT, GIVING_OUT_CHEAP)
    tables = (index.INDEXING, index.INDEXING_UNCHANGED, index.INDEXING_CHANGED, index.OPENING, index.FILTERING)
    return {one.name: one for one in (*run, *tables, MAKING, OPENING_PAGE)}


def cost(measure: Measure, sessions: int) -> tuple[Cost, str]:
    """What it costs with so many sessions, and what it says itself."""
    with tempfile.TemporaryDirectory(prefix="storyframes-bench-") as name:
        folder = Path(name)
        (folder / _MADE).write_bytes(pickle.dumps(measure.make(folder, sessions)))
        spent = cost_of(["-m", "benchmarks.scaling.scale", "--in", name, "--only", measure.name])
        return spent, (folder / "said").read_text()


def do_in(folder: Path, measure: Measure) -> None:
    """What is measured, in this process."""
    (folder / "said").write_text(measure.do(pickle.loads((folder / _MADE).read_bytes())))


def cells(measure: Measure, sessions: int, spent: Cost, said: str) -> list[str]:
    """A row of the table, as :data:`COLUMNS` say."""
    each_ms = f"{1000 * spent.cpu_s / sessions:.2f}"
    share = f"{100 * spent.cpu_s / sessions / measure.work_s:.1f} %" if measure.work_s else ""
    peaks = [f"{spent.peak_mb[role]:.0f}" if spent.peak_mb[role] else "" for role in Role]
    return [measure.name, f"{sessions:,}", f"{spent.cpu_s:.1f}", each_ms, share, f"{spent.wall_s:.1f}", *peaks, said]


def line(row: list[str]) -> str:
    """A row as it is printed."""
    return f"| {' | '.join(row)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sessions")
    parser.add_argument("--only", action="append", help="one of the measures, by name")
    parser.add_argument("--sessions", type=int, nargs="+", help="how many, instead of each measure's own sizes")
    parser.add_argument("--record", metavar="TABLE", help="the table of docs/performance.json that is made of it")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    known = measures()
    if unknown := [name for name in asked.only or () if name not in known]:
        sys.exit(f"there is no measure {unknown[0]!r}; there are {', '.join(known)}")
    if asked.folder:
        do_in(asked.folder, known[asked.only[0]])
        return
    print_machine()
    print(f"{line([*COLUMNS])}\n|{'---|' * len(COLUMNS)}")
    rows = []
    for name in asked.only or known:
        measure = known[name]
        for sessions in asked.sessions or (QUICK_SIZES if asked.quick else measure.sizes):
            rows.append(cells(measure, sessions, *cost(measure, sessions)))
            print(line(rows[-1]), flush=True)
    if asked.record:
        chosen = shlex.join(argument for argument in sys.argv[1:] if argument not in ("--record", asked.record))
        record(asked.record, COLUMNS, rows, LIBRARIES, f"python -m benchmarks.scaling.scale {chosen}".rstrip())


if __name__ == "__main__":
    from benchmarks.scaling import scale as by_name  # what is pickled is known by this name in the process that does it

    by_name.main()
