"""A session's OpenFace CSV, 26,100 rows x 714 columns: read, checked and published, beside two readers of CSV.

    python -m benchmarks.extracting.openface_csv [--runs 3]

The readers only read; what is measured of this project is the whole task, from the file to a published version.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from benchmarks.extracting.long_session import repeat
from benchmarks.measure import Measured, interleave, peak_memory_gb, print_machine
from storyframes.features import OPENFACE_COLUMNS
from tasks.extract import extract
from tasks.extractors.registry import ExtractorsSettings
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.planning.plan import Plan, plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

FRAMES = 26_100
_OURS = "storyframes"


def write_csv(path: Path) -> None:
    """As OpenFace prints it: whole numbers for frames and faces, three decimals for the rest."""
    generator = np.random.default_rng(0)
    patterns = ["%.3f"] * len(OPENFACE_COLUMNS)
    for name in ("frame", "face_id", "success"):
        patterns[OPENFACE_COLUMNS.index(name)] = "%d"
    line = ",".join(patterns)
    with path.open("w") as file:
        file.write(",".join(OPENFACE_COLUMNS) + "\n")
        for frame in range(1, FRAMES + 1):
            row = generator.normal(0, 200, len(OPENFACE_COLUMNS))
            row[:5] = frame, 0, (frame - 1) / 15, 0.98, 1
            file.write(line % tuple(row) + "\n")


def write_session(folder: Path) -> None:
    """A study of one small video of so many frames, and its CSV."""
    write_study(folder, SyntheticStudy(sessions=1, seconds=10, width=64, height=48))
    repeat(folder / "videos/s0001.avi", FRAMES // 150)
    sessions = pd.read_csv(folder / "sessions.csv")
    sessions["openface"] = "openface/s0001.csv"
    sessions.to_csv(folder / "sessions.csv", index=False)
    write_csv(folder / "openface/s0001.csv")


def plan(folder: Path) -> Plan:
    """With the session's clock extracted, so that openface alone is due."""
    asked = Selection(("s0001",), ("openface",), force=True)
    planned = plan_extraction(load_study(folder / "study"), folder / "features", ExtractorsSettings(), asked)
    for work in planned.units:
        if work.features == ("frames",):
            extract(work)
    return planned


def ours(folder: Path) -> None:
    """The task, once more."""
    planned = plan_extraction(
        load_study(folder / "study"),
        folder / "features",
        ExtractorsSettings(),
        Selection(("s0001",), ("openface",), force=True),
    )
    (work,) = (unit for unit in planned.units if unit.features == ("openface",))
    (outcome,) = extract(work)
    if outcome.rows != FRAMES:
        raise SystemExit(f"openface: {outcome.reason}")


def jobs(folder: Path) -> dict[str, Callable[[], object]]:
    csv = folder / "study/openface/s0001.csv"
    one_thread = pa.csv.ReadOptions(use_threads=False)
    return {
        _OURS: partial(ours, folder),
        "pyarrow, reading only": partial(pa.csv.read_csv, csv, read_options=one_thread),
        "pandas, reading only": partial(pd.read_csv, csv),
    }


def print_result(name: str, result: Measured, folder: Path) -> None:
    memory = peak_memory_gb("benchmarks.extracting.openface_csv", f"{folder}::{name}")
    print(f"  {name:<22} {result.cpu_s:8.2f} {result.wall_s:8.2f} {1000 * memory:8.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments, _ = parser.parse_known_args()
    if arguments.memory_of:
        folder, name = arguments.memory_of.split("::")
        jobs(Path(folder))[name]()
        status = Path("/proc/self/status").read_text()
        print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
        return
    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_session(folder / "study")
        plan(folder)
        size = (folder / "study/openface/s0001.csv").stat().st_size / 1e6
        measured = interleave(jobs(folder), arguments.runs)
        print(f"OpenFace CSV, {FRAMES} x 714, {size:.0f} MB {'CPU-s':>4} {'s':>8} {'peak MB':>9}")
        for name, result in measured.items():
            print_result(name, result, folder)


if __name__ == "__main__":
    main()
