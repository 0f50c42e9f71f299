"""``python -m benchmarks.soak.parts``: a study extracted as an array of parts that are killed at random and requeued.

    python -m benchmarks.soak.parts [--sessions 269] [--parts 40] [--at-once 2] [--seed N]

Each part is struck with SIGKILL or SIGTERM after a random number of its features, up to three times, and begun again;
now and then it is begun twice at once. In the end the store must equal that of one run: values bit for bit, catalogue,
clip index. Ends with 0 if it does, else with 1. Nothing keeps the order of two parts at once, so a seed draws the same
signals, not the same run.
"""

from __future__ import annotations

import argparse
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import cpu_seconds, print_machine
from benchmarks.soak.soak_paths import ROOT
from storyframes.store import maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import open_store
from storyframes.store.storage.files import sha256_file
from tasks.media.synthesize import SyntheticStudy, write_study

FEATURES = "frames,opensmile"
_CONFIG = "[clips]\nwindow = 4\nstride = 2\n"  # frames: the recordings are short
_STRIKES = 3
_STRUCK_DOWN = (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM)  # exit codes
_STRUCK, _TWICE = 0.6, 0.1  # how likely a start is struck, and a part is begun twice
_COLUMNS = ("session_id", "feature", "status", "fingerprint", "rows", "bytes", "caveats", "quality")


@dataclass(frozen=True)
class Array:
    """An array of parts of one study, and what has happened to it."""

    study: Path
    store: Path
    parts: int
    lines: int  # that a part prints when nothing strikes it
    happened: Counter[str]  # by how a process ended, or what struck it

    def run(self, at_once: int, dice: random.Random) -> None:
        """Run all parts, in a random order."""
        numbers = dice.sample(range(1, self.parts + 1), self.parts)
        numbers += [number for number in numbers if dice.random() < _TWICE]
        with ThreadPoolExecutor(at_once) as nodes:
            list(nodes.map(self._until_done, numbers, [dice.random() for _ in numbers]))

    def _until_done(self, number: int, seed: float) -> None:
        dice = random.Random(seed)
        for left in reversed(range(_STRIKES + 1)):
            strike = dice.choice([signal.SIGKILL, signal.SIGTERM]) if left and dice.random() < _STRUCK else None
            code = self._start(number, strike, dice)
            self.happened[f"ended with {code}"] += 1
            if code == 0:
                return
            if strike is None or code not in _STRUCK_DOWN:
                raise SystemExit(f"part {number}/{self.parts} ended with {code}, and it was not struck so")

    def _start(self, number: int, strike: signal.Signals | None, dice: random.Random) -> int:
        part = ("--part", f"{number}/{self.parts}", "--workers", "1")
        process = subprocess.Popen(
            _extraction(self.study, self.store, *part),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr
        after = dice.randint(0, self.lines)
        said: deque[str] = deque(maxlen=20)
        for line in process.stderr:
            said.append(line)
            after -= line.startswith(("done", "extracting"))
            if after < 0 and strike is not None:
                time.sleep(dice.uniform(0, 0.1))
                process.send_signal(strike)
                self.happened[strike.name] += 1
                strike = None
        if process.wait() not in (0, *_STRUCK_DOWN):
            print("".join(said))
        return process.returncode


def _extraction(study: Path, store: Path, *options: str) -> list[str]:
    return _command("extract", study, store, "--features", FEATURES, *options)


def _command(name: str, study: Path, store: Path, *options: str) -> list[str]:
    config = str(study.with_name("storyframes.toml"))
    return [sys.executable, "-m", "flows.cli", name, str(study), str(store), "--config", config, *options]


def values(root: Path) -> dict[str, str]:
    """The digest of every file of values of the current versions, by a path without the version."""
    digests = {}
    for entry in record_status.scan(open_store(root)):
        assert entry.record, f"{entry.session_id}/{entry.feature}: {entry.reason}"
        folder = root / entry.session_id / entry.feature / entry.record.version
        for path in folder.rglob("c/**/*"):
            if path.is_file():
                digests[f"{entry.session_id}/{entry.feature}/{path.relative_to(folder)}"] = sha256_file(path)
    return digests


def differences(root: Path, whole: Path) -> list[str]:
    """What the store of the parts has otherwise than that of one run."""
    parts, one = values(root), values(whole)
    wrong = [name for name in sorted({*parts, *one}) if parts.get(name) != one.get(name)]
    stores = FeatureStore(root), FeatureStore(whole)
    catalogues = [store.catalogue.reindex(columns=list(_COLUMNS)).astype(str) for store in stores]
    indexes = [store.clips().astype(str) for store in stores]
    for name, (of_parts, of_one) in {"catalogue": catalogues, "clip index": indexes}.items():
        if not of_parts.equals(of_one) or of_one.empty:
            wrong.append(f"the {name} is another: {len(of_parts)} rows, of one run {len(of_one)}")
    wrong += [f"verify: {problem}" for problem in maintenance.verify(open_store(root))]
    left = [path.name for path in root.iterdir() if path.name.startswith(".unit-") and path.read_bytes()]
    return wrong + [f"left: {name}" for name in left]


def soak(folder: Path, *, sessions: int, parts: int, at_once: int, seed: int) -> list[str]:
    """All of it in an empty folder; gives back what must not be."""
    study, root, whole = folder / "study", folder / "parts", folder / "one"
    write_study(study, SyntheticStudy(sessions=sessions, seconds=1.0))
    study.with_name("storyframes.toml").write_text(_CONFIG)
    array = Array(study, root, parts, 2 * sessions // parts, Counter())
    array.run(at_once, random.Random(seed))
    print(f"  {parts} parts: {', '.join(f'{count} x {what}' for what, count in sorted(array.happened.items()))}")
    clean = [sys.executable, "-m", "flows.cli", "gc", str(root), "--grace-hours", "0"]  # claims of killed processes
    for line in (_command("index", study, root), clean, _extraction(study, whole, "--workers", "1")):
        subprocess.run(line, cwd=ROOT, check=True, capture_output=True)
    print(f"  {len(values(whole))} files of values and {len(FeatureStore(whole).clips())} clips compared")
    return differences(root, whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=269)
    parser.add_argument("--parts", type=int, default=40)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1000))
    asked = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        began = time.monotonic()
        wrong = soak(Path(temporary), **vars(asked))
        took = f"{time.monotonic() - began:.0f} s, {cpu_seconds():.0f} CPU-s"
    print(f"seed {asked.seed}, {took}: {len(wrong)} things that must not be", *wrong[:20], sep="\n  ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
