"""Planning a study in which nothing changed, beside the least that any planner would have to do: look at every file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.measure import interleave
from benchmarks.scaling.unchanged_study import SETTINGS, unchanged_study
from tasks.planning.plan import Plan, plan_extraction
from tasks.planning.selection import Selection

SESSIONS = 269


def look_at_every_file(*folders: Path) -> int:
    """Size and time of every file, and the content of every record."""
    bytes_seen = 0
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                bytes_seen += os.stat(os.path.join(parent, name)).st_size
                if name == "current.json":
                    bytes_seen += len(Path(parent, name).read_bytes())
    return bytes_seen


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="storyframes-bench-") as folder:
        study, store = unchanged_study(Path(folder), SESSIONS)

        def plan() -> Plan:
            return plan_extraction(study, store, SETTINGS, Selection())

        settled = plan()
        assert (len(settled.units), len(settled.settled)) == (0, SESSIONS * len(SETTINGS.features))
        measured = interleave({"planning": plan, "every file": lambda: look_at_every_file(study.root, store)})
    print(f"planning {SESSIONS} unchanged sessions, {len(settled.settled)} features (median of 5, interleaved)")
    for name, result in measured.items():
        print(f"  {name:<12} {result.cpu_s:6.2f} CPU-s {result.wall_s:6.2f} s")


if __name__ == "__main__":
    main()
