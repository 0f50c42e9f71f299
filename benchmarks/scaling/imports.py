"""What it costs to start: the package, commands, an extraction with nothing due, the registry; beside libraries alone.

``--beside FOLDER`` measures another checkout (an earlier commit) in the same run. The table "starting" is recorded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.measure import interleave, print_machine
from benchmarks.performance_page import record
from benchmarks.scaling.unchanged_study import CONFIGURATION, unchanged_study
from storyframes.store.layout import create_store

HERE = Path(__file__).parents[2]
STORE = "STORE"  # stands for the location of an empty one
# What an unchanged study and its features are called in the folder that stands for them.
UNCHANGED = ("UNCHANGED/study", "UNCHANGED/features", "--config", "UNCHANGED/storyframes.toml")
SESSIONS = 6
# By what is measured: the arguments of Python, and what the libraries that it cannot do without cost alone.
STARTS = {
    "import storyframes": (("-c", "import storyframes"), ("-c", "pass")),
    "its ClipDataset": (
        ("-c", "from storyframes import ClipDataset"),
        ("-c", "import numpy, pandas, pyarrow.parquet"),
    ),
    "storyframes --help": (("-m", "flows.cli", "--help"), ("-c", "import typer, rich.console")),
    "storyframes status": (("-m", "flows.cli", "status", STORE), ("-c", "import typer, rich.table, numpy")),
    f"extract, {SESSIONS} unchanged": (
        ("-m", "flows.cli", "extract", *UNCHANGED),
        ("-c", "import typer, rich.table, numpy, pydantic"),
    ),
    "the registry": (("-c", "import tasks.extractors.registry"), ("-c", "import numpy, pydantic")),
}


def _start(arguments: tuple[str, ...], compiled: Path, folder: Path) -> None:
    """A Python process that imports from ``folder``: the folder in which it runs comes first.

    Modules are compiled, as pip compiles them, also where the environment forbids it.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(compiled), "PYTHONPATH": str(folder)}
    command, quiet = [sys.executable, *arguments], subprocess.DEVNULL
    subprocess.run(command, cwd=folder, check=True, stdout=quiet, stderr=quiet, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    print_machine()
    print(f"CPU-seconds of a start, median of {arguments.runs}, interleaved")
    with tempfile.TemporaryDirectory() as folder:
        store, unchanged = Path(folder, "store"), Path(folder, "unchanged")
        create_store(store)
        unchanged_study(unchanged, SESSIONS)
        (unchanged / "storyframes.toml").write_text(CONFIGURATION)
        _measure(arguments, str(store), str(unchanged), Path(folder, "compiled"))


def _measure(arguments: argparse.Namespace, store: str, unchanged: str, compiled: Path) -> None:
    columns = ["started", "CPU-s", "its libraries alone", *(["before"] if arguments.beside else [])]
    rows = []
    for name, (ours, libraries) in STARTS.items():
        ours = tuple(word.replace("UNCHANGED", unchanged) if word != STORE else store for word in ours)
        candidates: dict[str, Callable[[], object]] = {"here": partial(_start, ours, compiled, HERE)}
        candidates["libraries"] = partial(_start, libraries, compiled, HERE)
        if arguments.beside:
            candidates["beside"] = partial(_start, ours, compiled, arguments.beside.resolve())
        measured = interleave(candidates, arguments.runs)
        here = measured.pop("here").cpu_s
        ratios = ", ".join(f"{here / other.cpu_s:.2f} x {what} ({other.cpu_s:.2f})" for what, other in measured.items())
        print(f"  {name:<21} {here:5.2f}: {ratios}")
        rows.append([name, *(f"{cpu_s:.2f}" for cpu_s in (here, *(other.cpu_s for other in measured.values())))])
    command = f"python -m benchmarks.scaling.imports{' --beside CHECKOUT' if arguments.beside else ''}"
    record("starting", columns, rows, ["pandas", "pyarrow", "pydantic", "typer"], command)


if __name__ == "__main__":
    main()
