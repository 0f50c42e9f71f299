"""What it costs to start: ``import storyframes``, ``storyframes --help`` and the registry, beside the libraries alone.

``--beside FOLDER`` measures another checkout (an earlier commit) in the same run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.measure import interleave, print_machine

HERE = Path(__file__).parents[1]
# By what is measured: the arguments of Python, and what the libraries that it cannot do without cost alone.
STARTS = {
    "import storyframes": (("-c", "import storyframes"), ("-c", "import numpy, pandas, pyarrow.parquet, zarr")),
    "storyframes --help": (("-m", "flows.cli", "--help"), ("-c", "import typer, rich.console")),
    "the registry": (("-c", "import tasks.extractors.registry"), ("-c", "import numpy, pandas, zarr, cv2, av")),
}


def _start(arguments: tuple[str, ...], folder: Path) -> None:
    """A Python process that imports from ``folder``: the folder in which it runs comes first."""
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    print_machine()
    print(f"CPU-seconds of a start, median of {arguments.runs}, interleaved")
    for name, (ours, libraries) in STARTS.items():
        candidates: dict[str, Callable[[], object]] = {"here": partial(_start, ours, HERE)}
        candidates["libraries"] = partial(_start, libraries, HERE)
        if arguments.beside:
            candidates["beside"] = partial(_start, ours, arguments.beside.resolve())
        measured = interleave(candidates, arguments.runs)
        here = measured.pop("here").cpu_s
        ratios = ", ".join(f"{here / other.cpu_s:.2f} x {what} ({other.cpu_s:.2f})" for what, other in measured.items())
        print(f"  {name:<20} {here:5.2f}: {ratios}")


if __name__ == "__main__":
    main()
