"""All tests, the longest files first, and how long each took: what ``make test`` runs.

    python tests/run.py [--at-once N]

Every file of tests has a process of its own: one process for all of them may die late in the run, where a child ends
and the kernel cannot say so (docs/facts.md, processes and signals). Those that look at the extracted demo share one,
so that it is extracted once; and so do the small ones that start neither processes nor threads and load no network,
as most of their time would go into starting pytest. Plug-ins bring tests of their own, in plugins/*/tests; the others
see storyframes as it is without them.

One more at once than there are processors: the files with servers and clusters wait for most of their time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).parent.parent
INSTALLED_PLUG_INS = Path(sys.prefix) / "plugins"  # by make, beside the environment
TOGETHER = {
    "the demo": ("test_cli", "test_report", "test_report_browser"),
    "small files": (
        "test_mixed", "test_pairs", "test_personas",
        "test_agreement", "test_clip_filter", "test_compare_ratings", "test_curves_dope", "test_enumerations",
        "test_features", "test_imports", "test_looking_at_tracks", "test_public_docs", "test_quality", "test_records",
        "test_rooms", "test_samplers", "test_settings", "test_shards", "test_spec", "test_statistics_docs",
        "test_study", "test_study_clocks", "test_study_tables", "test_tests", "test_transcript", "test_windows",
    ),
    "scores": ("test_benchmark_tables", "test_evaluate", "test_intervals", "test_metrics", "test_predictions"),
    "recordings": ("test_media", "test_odd_recordings", "test_recording", "test_sound", "test_video_variants"),
}  # fmt: skip
# What took longest when it was last looked at, in this order; whatever is not named comes after.
LONGEST = (
    "tests/test_deployments.py", "the demo", "tests/test_faults.py", "tests/dope", "tests/test_flows.py",
    "tests/test_server.py", "tests/test_soak.py", "tests/test_slurm.py", "tests/test_resnet50.py", "tests/test_text.py",
    "tests/test_leftovers.py", "tests/test_containers.py", "plugins/storyframes-mediapipe/tests",
    "tests/test_outside.py", "tests/test_environments.py", "tests/test_container_faults.py", "tests/test_strangers.py",
    "tests/test_missing_files.py", "tests/test_gc_protocol.py", "tests/test_clusters.py", "recordings",
)  # fmt: skip


def groups() -> dict[str, list[str]]:
    """What is tested in one process: its name, and the files or folders; in the order in which they begin."""
    found: dict[str, list[str]] = {name: [] for name in TOGETHER}
    shared = {file: name for name, files in TOGETHER.items() for file in files}
    places = [*ROOT.glob("tests/test_*.py"), ROOT / "tests/dope", *ROOT.glob("plugins/*/tests")]
    for path in sorted(places):
        place = str(path.relative_to(ROOT))
        found.setdefault(shared.get(path.stem, place), []).append(place)
    first = {name: place for place, name in enumerate(LONGEST)}
    return dict(sorted(found.items(), key=lambda group: first.get(group[0], len(first))))


def prepare(state: Path) -> None:
    """A Prefect server's database, which takes seconds to make: each process of tests begins with a copy of it."""
    code = "from flows.runs.server import prefect_server\nwith prefect_server(): pass"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=ROOT, env=environment | {"XDG_STATE_HOME": str(state)}, check=False)


def test(places: Sequence[str], state: Path) -> tuple[int, str, float]:
    """How pytest ended, what it printed, and the seconds that took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", *places]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "STORYFRAMES_TEST_STATE": str(state)}
    if places[0].startswith("plugins/"):
        environment["PYTHONPATH"] = str(INSTALLED_PLUG_INS)
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    processors = len(os.sched_getaffinity(0))
    parser.add_argument("--at-once", type=int, default=processors + 1, help="processes of tests at a time")
    took: dict[str, float] = {}
    failed = []
    at_once = parser.parse_args().at_once
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        prepare(Path(folder))
        running = {pool.submit(test, places, Path(folder)): (name, places) for name, places in groups().items()}
        for ended in as_completed(running):
            (name, places), (code, printed, took[name]) = running[ended], ended.result()
            print(f"===== {name}: {' '.join(places)} ({took[name]:.0f} s)\n{printed}", flush=True)
            failed += [name] if code else []
    print("===== seconds, the longest first")
    for name, seconds in sorted(took.items(), key=lambda one: -one[1]):
        print(f"{seconds:6.0f}  {name}")
    print(f"===== failed: {', '.join(failed)}" if failed else "===== all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
