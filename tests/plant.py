"""Plant faults in a copy of the project, and say which test finds each.

    python tests/plant.py [ID ...] [--all] [--files N]

The faults are in tests/planted_faults.toml. For each, the tests that can see it run until one fails: the files named
like the module first, then those that import it, directly or through others, then the rest. A test counts only if it
passes without the fault. The tests are those of ``make test``, and with ``--all`` also the others.

Exit code 1: more than a tenth of them are not found by the tests of ``make test``, or one no longer applies.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from quick import IMPORTED_FROM, PLUG_INS, imports_of, module_of

ROOT = Path(__file__).parent.parent
SHORT = "(not slow and not needs and not nightly) or end_to_end"
OF_THE_TABLE = "test_planted_faults.py"  # it fails with any fault, as the old text is gone
FIRST_FILES = 2  # in one process of tests; each further one has twice as many
TIMEOUT_S = 300  # a test that hangs has found the fault
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """One change of one file."""

    id: str
    file: str
    about: str
    old: str
    new: str

    def planted(self, text: str) -> str:
        """The file's text with the fault.

        Raises:
            ValueError: the old text does not occur exactly once, or the new one is the same.
        """
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(f"{self.id}: the old text occurs {text.count(self.old)} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def read_faults() -> list[Fault]:
    """The table of faults."""
    return [Fault(**row) for row in tomllib.loads((ROOT / "tests/planted_faults.toml").read_text())["fault"]]


@cache
def _distances(module: str) -> dict[Path, int]:
    """Through how many imports each Python file of the project reaches a module; files that never do are left out."""
    files = {path for folder in IMPORTED_FROM for path in folder.rglob("*.py") if ".venv" not in path.parts}
    importers: dict[str, set[Path]] = {}
    for path in files:
        for name in imports_of(path):
            importers.setdefault(name, set()).add(path)
    distances: dict[Path, int] = {}
    reached, distance = {module}, 0
    while reached:
        distance += 1
        new = {path for name in reached for path in importers.get(name, ())} - distances.keys()
        distances |= dict.fromkeys(new, distance)
        reached = {module_of(path) for path in new}
    return distances


def tests_of(file: Path) -> list[str]:
    """All test files, those first that are most likely to see a fault in this file."""
    distances, rooms = _distances(module_of(file)), {*file.relative_to(ROOT).parent.parts} - {"plugins"}

    def rank(path: Path) -> tuple[bool, float, int, Path]:
        distance = distances.get(path, 100) + rooms.isdisjoint(path.relative_to(ROOT).parts)
        return path.stem != f"test_{file.stem}", distance, len(imports_of(path)), path

    tests = [*ROOT.glob("tests/*/test_*.py"), *ROOT.glob("plugins/*/tests/**/test_*.py")]
    return [str(path.relative_to(ROOT)) for path in sorted(tests, key=rank) if path.name != OF_THE_TABLE]


def _chunks(tests: list[str]) -> Iterator[list[str]]:
    """The test files of one process after the other; those of plug-ins have processes of their own."""
    size = FIRST_FILES
    while tests:
        chunk, tests = tests[:size], tests[size:]
        for is_of_plug_in in (False, True):
            if part := [test for test in chunk if test.startswith("plugins/") == is_of_plug_in]:
                yield part
        size *= 2


def copy_project(folder: Path) -> None:
    """Copy the files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)


def write_source(path: Path, text: str) -> None:
    """Replace a module; what Python compiled of it goes, as it may have the same size and time."""
    path.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def failing_test(copy: Path, tests: list[str], tier: str, excused: Sequence[str] = ()) -> str:
    """The first of these tests that fails in the copy, or the first file where pytest breaks; empty where none does."""
    options = ["-q", "-x", "-rfE", "--tb=no", f"--timeout={TIMEOUT_S}", "-m", tier]
    options += [option for test in excused for option in ("--deselect", test)]
    seen = [copy]
    if tests[0].startswith("plugins/"):  # their code in the copy, their entry points where they are installed
        seen += [copy / plug_in.relative_to(ROOT) for plug_in in PLUG_INS]
        seen += [Path(sys.prefix) / name for name in ("plugins", "test-plugins")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, seen)),
        "STORYFRAMES_SHARED": os.environ.get("STORYFRAMES_SHARED", str(ROOT.parent / "shared")),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", *options, *tests]
    ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, errors="replace")
    failed = _FAILED.search(ended.stdout)
    return failed[1] if failed else "" if ended.returncode in (0, 5) else tests[0]  # 5: none of them is of the tier


class Planter:
    """Finds faults in a copy of the project."""

    def __init__(self, copy: Path, files: int) -> None:
        self._copy, self._files = copy, files
        self._excused: list[str] = []  # tests that fail without a fault

    def find(self, fault: Fault, tier: str) -> str:
        """The first test of the tier that fails with the fault, and passes without it; empty where none does.

        Raises:
            OSError, ValueError: the fault does not apply.
        """
        path = self._copy / fault.file
        sound = path.read_text(encoding="utf-8")
        planted = fault.planted(sound)
        try:
            for chunk in _chunks(tests_of(ROOT / fault.file)[: self._files]):
                write_source(path, planted)
                while failed := failing_test(self._copy, chunk, tier, self._excused):
                    write_source(path, sound)
                    if not failing_test(self._copy, [failed], tier):
                        return failed
                    print(f"{failed} fails without a fault as well", flush=True)
                    self._excused.append(failed)
                    write_source(path, planted)
        finally:
            write_source(path, sound)
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID", help="faults; all unless some are named")
    parser.add_argument("--all", action="store_true", help="also the tests that make test leaves out")
    parser.add_argument("--files", type=int, default=10_000, metavar="N", help="at most so many test files a fault")
    options = parser.parse_args()
    faults = {fault.id: fault for fault in read_faults()}
    if unknown := {*options.ids} - faults.keys():
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    chosen = [faults[name] for name in options.ids or faults]
    tiers = {"short": SHORT} | ({"long": f"not ({SHORT})"} if options.all else {})
    missed, all_apply = 0, True
    with tempfile.TemporaryDirectory() as folder:
        copy_project(Path(folder))
        planter = Planter(Path(folder), options.files)
        for fault in chosen:
            try:
                found = ((planter.find(fault, tests), tier) for tier, tests in tiers.items())
                said = next((f"found by {test} ({tier})" for test, tier in found if test), "SURVIVED")
            except (OSError, ValueError) as error:
                said, all_apply = f"DOES NOT APPLY: {error}", False
            missed += not said.endswith("(short)")
            print(f"{fault.id} {fault.file}: {said}", flush=True)
    minutes = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) / 60
    print(f"{len(chosen) - missed} of {len(chosen)} found by the tests of make test, in {minutes:.1f} CPU-minutes")
    return 0 if all_apply and missed <= len(chosen) / 10 else 1


if __name__ == "__main__":
    sys.exit(main())
