"""The catalogue of a store of many sessions: bringing it up to date, opening the store, looking at it.

Records alone are made, six a session as features of the demo study have them, no array: CPU seconds and the largest
memory of a process of its own for each step. ``python -m benchmarks.scaling.catalogue [--sessions N …]``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.layout import ROOT_GROUP, ZARR_JSON, open_store
from storyframes.store.records import CURRENT, Current, StoredArray, StoredFile
from storyframes.store.validation import shard_name

SESSIONS = (269, 2_000, 20_000, 100_000)
_FEATURES = ("frames", "glove", "openface", "opensmile", "resnet50", "sbert")
_CHANGED = 10
_SETTLED_S = 11  # what changed a moment ago is read again


def make_store(root: Path, sessions: int) -> None:
    """A store of ``sessions`` sessions with six features each, without their arrays."""
    root.mkdir(parents=True)
    (root / ZARR_JSON).write_bytes(ROOT_GROUP)
    for number in range(sessions):
        session = root / f"s{number:06d}"
        session.mkdir()
        for feature in _FEATURES:
            (session / feature).mkdir()
            (session / feature / CURRENT).write_bytes(_record(session.name, feature, number).to_json())


def change(root: Path, sessions: int) -> None:
    """Publish one feature of ten sessions again."""
    for number in range(0, sessions, max(sessions // _CHANGED, 1)):
        record = root / f"s{number:06d}" / "openface" / CURRENT
        new = record.with_suffix(".new")
        new.write_bytes(_record(f"s{number:06d}", "openface", number + 1).to_json())
        new.replace(record)


def _record(session_id: str, feature: str, number: int) -> Current:
    """As real ones: some four kilobytes, of which most are checksums and provenance."""
    rows = 1_000 + number % 50_000
    arrays = {
        name: StoredArray((rows, *array.shape), str(array.dtype), 60)
        for name, array in FEATURES[feature].arrays.items()
    }
    digest = f"{number:08x}" * 8
    files = {"zarr.json": StoredFile(2_000, digest, 1_700_000_000_000_000_000 + number)}
    for name, array in arrays.items():
        files[f"{name}/zarr.json"] = StoredFile(900, digest, 1_700_000_000_000_000_000 + number)
        files[f"{name}/{shard_name(array.shape)}"] = StoredFile(rows * 100, digest, 1_700_000_000_000_000_000 + number)
    provenance = {"inputs": {"video": digest}, "settings": {f"setting{i}": i for i in range(12)}, "libraries": digest}
    version = f"20260101T000000Z-{zlib.crc32(f'{session_id}/{feature}/{number}'.encode()):08x}"
    created = "2026-01-01T00:00:00.000000Z"
    quality = {"tracked": 0.97}
    return Current(session_id, feature, version, digest, created, arrays, files, [], quality, provenance, 1)


def compact(root: Path) -> None:
    catalogue.compact(open_store(root))


def open_features(root: Path) -> None:
    from storyframes.store.feature_store import FeatureStore

    store = FeatureStore(root)
    assert store.has("s000007", "openface")


def list_sessions(root: Path) -> None:
    from storyframes.store.feature_store import FeatureStore

    assert FeatureStore(root).sessions


def command(*arguments: str) -> Callable[[Path], None]:
    """A command of the command line, with its output thrown away."""

    def run(root: Path) -> None:
        from flows.cli.entry import main

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["storyframes", *(word.replace("ROOT", str(root)) for word in arguments)]
        main()

    return run


def collect(root: Path) -> None:
    from storyframes.store.maintenance.garbage import collect as removals

    assert not list(removals(open_store(root), 0.0))


STEPS: dict[str, Callable[[Path], None]] = {
    "compact, first": compact,
    "compact, 0 changed": compact,
    "compact, 10 changed": compact,
    "open": open_features,
    "sessions": list_sessions,
    "status": command("status", "ROOT"),
    "status --json": command("status", "ROOT", "--json"),
    "status --session": command("status", "ROOT", "--session", "s000007"),
    "show": command("show", "ROOT", "s000007"),
    "verify --session": command("verify", "ROOT", "--session", "s000007"),
    "gc": collect,
}


def _measure(name: str, root: Path) -> None:
    """Run one step and print what it took; the last line of the process."""
    try:
        STEPS[name](root)
    except SystemExit:
        """A command ends so; that records without arrays are not sound is not the question."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "peak_mb": int(peak.split()[1]) / 1e3}), file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, nargs="*", default=SESSIONS)
    parser.add_argument("--steps", nargs="*", default=list(STEPS))
    parser.add_argument("--folder", type=Path, help="where to make the stores; a temporary folder otherwise")
    parser.add_argument("--keep", action="store_true", help="leave the stores, and use those that are there")
    parser.add_argument("--record", metavar="TABLE", help="the table of docs/performance.json that is made of it")
    parser.add_argument("--step-of", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step_of:
        _measure(asked.step_of[0], Path(asked.step_of[1]))
        return
    print_machine()
    folder = Path(tempfile.mkdtemp(dir=asked.folder)) if not asked.keep else asked.folder
    rows: dict[str, list[str]] = {name: [name] for name in asked.steps}
    for sessions in asked.sessions:
        root = folder / f"features{sessions}"
        if not root.exists():
            make_store(root, sessions)
        for name in asked.steps:
            if name == "compact, first":
                for table in ("catalogue.parquet", "checksums.json"):
                    (root / table).unlink(missing_ok=True)
            if name == "compact, 10 changed":
                change(root, sessions)
            if name.startswith("compact"):
                time.sleep(_SETTLED_S)
            rows[name].append(_report(sessions, name, root))
        if not asked.keep:
            shutil.rmtree(root)
    if asked.record:
        columns = ["", *(f"{sessions:,} sessions" for sessions in asked.sessions)]
        command = f"python -m benchmarks.scaling.catalogue --steps {' '.join(map(repr, asked.steps))}"
        record(asked.record, columns, rows.values(), ("pyarrow",), command)


def _report(sessions: int, name: str, root: Path) -> str:
    """Do one step in a process of its own, and print what it took; returns the cell of the table."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling.catalogue", "--step-of", name, str(root)],
        check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    try:
        took = json.loads(done.stderr.splitlines()[-1])
    except (IndexError, ValueError):
        print(f"{sessions:>8,} | {name:<20} | {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return "failed"
    print(f"{sessions:>8,} | {name:<20} | {took['cpu_s']:8.2f} CPU-s | {took['peak_mb']:8.0f} MB", flush=True)
    return f"{took['cpu_s']:.1f} s, {took['peak_mb']:.0f} MB"


if __name__ == "__main__":
    main()
