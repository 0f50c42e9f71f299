"""The clip index of a study by its number of sessions, from 269 to 100,000: CPU time, memory and wall-clock time.

``python -m benchmarks.scaling.scale`` measures everything (half an hour), ``--quick`` with few sessions, ``--only
NAME`` one measure. A measure is done in a process of its own. What it needs is made beforehand and is not counted.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import print_machine
from benchmarks.performance_page import record

SIZES = (269, 2_000, 20_000, 100_000)
QUICK_SIZES = (4, 12)
COLUMNS = ("what", "sessions", "CPU-s", "ms a session", "wall s", "MB", "result")
LIBRARIES = ("pandas", "pyarrow", "zarr")
_MADE = "made.pickle"


@dataclass(frozen=True)
class Measure:
    """Something whose cost may depend on the number of sessions.

    Attributes:
        name: of its rows.
        make: makes what it needs for so many sessions in a folder, and returns where that is; not counted.
        do: does it with the result of ``make``, in a process of its own; returns a remark for its row.
    """

    name: str
    make: Callable[[Path, int], Any]
    do: Callable[[Any], str]


@dataclass(frozen=True)
class Cost:
    """The cost of a process from its start to its end; memory is its largest resident set."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def measures() -> dict[str, Measure]:
    """All measures by name."""
    from benchmarks.scaling import scale_index as index

    every = (index.INDEXING, index.OPENING, index.FILTERING)
    return {measure.name: measure for measure in every}


def cost(measure: Measure, sessions: int) -> tuple[Cost, str]:
    """The cost with so many sessions, and the remark of the measure.

    Raises:
        subprocess.CalledProcessError: the measure failed.
    """
    with tempfile.TemporaryDirectory(prefix="storyframes-bench-") as name:
        folder = Path(name)
        (folder / _MADE).write_bytes(pickle.dumps(measure.make(folder, sessions)))
        command = [sys.executable, "-m", "benchmarks.scaling.scale", "--in", name, "--only", measure.name]
        started = time.perf_counter()
        _, status, used = os.wait4(os.posix_spawn(command[0], command, os.environ), 0)
        if status:
            raise subprocess.CalledProcessError(status, command)
        wall_s = time.perf_counter() - started
        peak_kb, remark = (folder / "remark").read_text().split(" ", 1)
        return Cost(used.ru_utime + used.ru_stime, wall_s, int(peak_kb) * 1024 / 1e6), remark


def do_in(folder: Path, measure: Measure) -> None:
    """Do what is measured, in this process."""
    remark = measure.do(pickle.loads((folder / _MADE).read_bytes()))
    status = Path("/proc/self/status").read_text()  # getrusage would count the memory of the parent, before the exec
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    (folder / "remark").write_text(f"{peak_kb} {remark}")


def cells(measure: Measure, sessions: int, spent: Cost, remark: str) -> list[str]:
    """A row of the table, with the columns :data:`COLUMNS`."""
    per_session_ms = f"{1000 * spent.cpu_s / sessions:.2f}"
    numbers = (f"{spent.cpu_s:.1f}", per_session_ms, f"{spent.wall_s:.1f}", f"{spent.peak_mb:.0f}")
    return [measure.name, f"{sessions:,}", *numbers, remark]


def line(row: list[str]) -> str:
    """A row as it is printed."""
    return f"| {' | '.join(row)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sessions")
    parser.add_argument("--only", action="append", help="one of the measures, by name")
    parser.add_argument("--sessions", type=int, nargs="+", help="how many, instead of 269 to 100,000")
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
        for sessions in asked.sessions or (QUICK_SIZES if asked.quick else SIZES):
            rows.append(cells(measure, sessions, *cost(measure, sessions)))
            print(line(rows[-1]), flush=True)
    if asked.record:
        chosen = shlex.join(argument for argument in sys.argv[1:] if argument not in ("--record", asked.record))
        record(asked.record, COLUMNS, rows, LIBRARIES, f"python -m benchmarks.scaling.scale {chosen}".rstrip())


if __name__ == "__main__":
    from benchmarks.scaling import scale as by_name  # what is pickled is known by this name in the process that does it

    by_name.main()
