"""The demo through ``extract --workers 1``, beside its bare extractors with their imports: CPU-seconds of processes.

    python -m benchmarks.extracting.in_process [--runs 3]

The bare extractors are the same units of work, planned beforehand and done one after the other in a process that
imports what they need and nothing else: no command line, no planning, no catalogue, no clip index.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import cpu_seconds, print_machine
from flows.request import ExtractionRequest
from flows.run import open_run, planned
from storyframes.store.layout import create_store

_ROOT = Path(__file__).parents[2]
_BARE = """
import pickle, sys
from tasks.extract import extract
for unit in pickle.load(open(sys.argv[1], "rb")):
    assert all(outcome.status == "done" for outcome in extract(unit))
"""


def _plan(demo: Path, store: Path, units: Path) -> None:
    """Write the units of an empty store to a file, as a run has planned them."""
    asked = ExtractionRequest(study=demo / "study", features=str(store), config=demo / "storyframes.toml", workers=1)
    units.write_bytes(pickle.dumps(planned(open_run(asked)).plan.units))


def _run(*arguments: str) -> None:
    ended = os.spawnve(os.P_WAIT, sys.executable, [sys.executable, *arguments], os.environ | {"OMP_NUM_THREADS": "1"})
    if ended:
        raise SystemExit(f"python {' '.join(arguments)[:200]} ended with {ended}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    os.chdir(_ROOT)
    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        demo, store, units = Path(temporary, "demo"), Path(temporary, "features"), Path(temporary, "units")
        shutil.copytree(_ROOT / "demo", demo)
        _plan(demo, store, units)

        config = ("--config", str(demo / "storyframes.toml"), "--workers", "1")
        candidates = {
            "bare extractors": ("-c", _BARE, str(units)),
            "extract --workers 1": ("-m", "flows.cli", "extract", str(demo / "study"), str(store), *config),
        }
        spent: dict[str, list[float]] = {name: [] for name in candidates}
        for _ in range(runs):
            for name, arguments in candidates.items():
                shutil.rmtree(store)
                create_store(store)
                before = cpu_seconds()
                _run(*arguments)
                spent[name].append(cpu_seconds() - before)
    medians = {name: statistics.median(seconds) for name, seconds in spent.items()}
    for name, seconds in medians.items():
        print(f"  {name:20s} {seconds:6.1f} CPU-s, {seconds / medians['bare extractors']:.2f}")


if __name__ == "__main__":
    main()
