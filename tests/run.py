"""Run the tests: ``make test`` and ``make test-all``.

    python tests/run.py [--rest] [--all] [--base COMMIT] [--strict] [--coverage] [--at-once N]

The short tier, ``make test``: every test that costs at most 0.5 CPU-seconds and needs nothing beside
``storyframes[pipeline,embed,slurm,test]``, and those marked ``end_to_end``. ``--rest`` runs the others, but none marked
``nightly``, and a plug-in's only where it or something that it imports changed since COMMIT (the last tag; without a
tag every plug-in counts as changed). ``--all`` leaves nothing out.

Tests are in rooms that mirror the code. Files share a process, because starting pytest and importing torch and Prefect
cost seconds: in the short tier several rooms, in the rest one room. Tests that start clusters, servers or workers have
a process for each file there: one process for all of them may die late in the run, where a child ends and the kernel
cannot say so. Plug-ins' tests see the plug-ins, installed beside the environment; the others see storyframes without.

A line is printed for each process that ends, its whole output where it failed. Costs are printed at the end: those of
processes, and unmarked tests above the limit. ``--strict`` (CI) fails where a test was skipped that had no reason to
be, or an unmarked one costs three times the limit, and again when it runs alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from quick import IMPORTED_FROM, changed_files, imports_of, module_of
from support.costs import WRITTEN_TO
from support.servers.one_server import GIVEN, one_server
from support.systems.installed import MADE_ONCE

ROOT = Path(__file__).parent.parent
INSTALLED_PLUG_INS = f"{sys.prefix}/plugins{os.pathsep}{sys.prefix}/test-plugins"  # by make, beside the environment
LIMIT = 0.5  # CPU-seconds of a test without a mark
SHORT = "not slow and not needs and not nightly and not end_to_end"
END_TO_END = "end_to_end"
REST = "(slow or needs) and not end_to_end and not nightly"
NIGHTLY = "(slow or needs or nightly) and not end_to_end"
ANOTHER_PROCESSOR = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
# The rooms that share a process in the short tier, the longest first; a room that is not named has its own.
NEIGHBOURS = (
    ("extractors", "plugins", "tools"), ("clips", "index"), ("reading", "sharing", "store"), ("dope", "embed"),
    ("inspect", "media", "study", "transcripts"), ("cli", "flows", "planning", "project"),
)  # fmt: skip
LARGE_PLUG_INS = ("storyframes-empathy",)
# What shares a process in the rest, by the name of the group: files, and folders but for their files that are named.
TOGETHER = {
    "the demo": (
        "tests/cli/test_cli.py", "tests/project/test_docs_site.py", "tests/project/test_snippets.py",
        "tests/project/test_wheel.py",
        "plugins/storyframes-empathy/tests/test_demo.py",
    ),
    "containers": (
        "tests/tools/test_containers.py", "tests/tools/test_container_faults.py",
        "tests/plugins/test_outside_containers.py",
    ),
    "clips and index": ("tests/clips", "tests/index", "tests/reading"),
    "networks": ("tests/dope", "tests/embed"),
    "recordings and studies": ("tests/inspect", "tests/media", "tests/study"),
    "schedulers": ("tests/flows/test_clusters.py", "tests/flows/test_existing_scheduler.py"),
    "small rooms": ("tests/planning", "tests/project", "tests/sharing", "tests/tools"),
    "two people": ("plugins/storyframes-dyads/tests", "plugins/storyframes-people/tests"),
    "small plug-ins": (
        "plugins/storyframes-adopt/tests", "plugins/storyframes-empathy/tests/baseline",
        "plugins/storyframes-empathy/tests/scores",
        "plugins/storyframes-empathy/tests/statistics", "plugins/storyframes-empathy/tests/test_documented.py",
        "plugins/storyframes-empathy/tests/test_light_install_of_empathy.py",
        "plugins/storyframes-empathy/tests/text", "plugins/storyframes-example/tests",
        "plugins/storyframes-labels/tests", "plugins/storyframes-prosody/tests",
        "plugins/storyframes-sync/tests",
    ),
}  # fmt: skip
# A process for each of these files: they start servers, clusters or workers, or change what the whole process has.
ALONE = frozenset(
    """
    benchmark_flow check_extractor deployments faults flows interruption leftovers object_store plugin_example
    plugin_privacy plugin_workers resnet50 server slurm soak strangers worker_mounts
    """.split()
)
# What took longest when it was last looked at begins first.
LONGEST = (
    "tests/flows/test_flows.py", "tests/flows/test_deployments.py", "the demo", "tests/flows/test_server.py",
    "tests/flows/test_faults.py", "networks", "recordings and studies",
    "plugins/storyframes-report/tests", "extractors",
    "store", "plugins/storyframes-empathy/tests/training", "plugins/storyframes-empathy/tests/own_studies",
    "clips and index", "two people", "tests/extractors/test_resnet50.py", "tests/plugins/test_check_extractor.py",
    "tests/flows/test_slurm.py", "plugins", "schedulers",
    "plugins/storyframes-pyfeat/tests", "plugins/storyframes-mediapipe/tests", "tests/plugins/test_plugin_example.py",
    "flows", "plugins/storyframes-release/tests", "small plug-ins", "containers", "small rooms",
)  # fmt: skip


Line = dict[str, Any]  # of what support/costs.py writes


@dataclass(frozen=True)
class Group:
    """The tests of one process.

    Attributes:
        name: in the lines that are printed.
        files: of tests, relative to the checkout.
        selection: which of their tests, an expression of marks.
        environment: what the process has in its environment beside the caller's.
    """

    name: str
    files: tuple[str, ...]
    selection: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a group ended: pytest's exit code, what it printed, seconds by the clock and of the processors."""

    code: int
    printed: str
    clock: float
    processor: float


def test_files() -> list[str]:
    """All files of tests, relative to the checkout."""
    paths = [*ROOT.glob("tests/*/test_*.py"), *ROOT.glob("plugins/*/tests/**/test_*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in paths)


@cache
def _missing_of(plug_in: Path) -> tuple[str, ...]:
    declared = tomllib.loads((plug_in / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.split(r"[^\w.-]", line)[0] for line in declared if not line.startswith("storyframes-")]
    return tuple(name for name in names if not list(metadata.distributions(name=name)))


def missing_dependencies(file: str) -> tuple[str, ...]:
    """What is not installed of what the plug-in of a file of tests cannot be imported without."""
    return _missing_of(ROOT.joinpath(*Path(file).parts[:2])) if file.startswith("plugins/") else ()


def grouped(names: Mapping[str, str], selection: str) -> list[Group]:
    """Groups from the name of the group of each file."""
    files: dict[str, list[str]] = {}
    for file, name in names.items():
        files.setdefault(name, []).append(file)
    return [Group(name, tuple(members), selection) for name, members in files.items()]


def short_groups() -> list[Group]:
    """The short tier, room by room and end-to-end tests apart, the longest first."""

    def rooms(file: str) -> str:
        room = Path(file).parts[1]
        if file.startswith("plugins/"):
            return room if room in LARGE_PLUG_INS else "other plug-ins"
        return " ".join(next((rooms for rooms in NEIGHBOURS if room in rooms), (room,)))

    def end_to_end(file: str) -> str:
        if file.startswith("plugins/"):
            return "end to end: plug-ins"
        return f"end to end: {'runs' if Path(file).parts[1] in ('cli', 'flows') else 'others'}"

    files = [file for file in test_files() if not missing_dependencies(file)]
    named = {file: end_to_end(file) for file in files if "end_to_end" in (ROOT / file).read_text()}
    first, *others = map(" ".join, NEIGHBOURS)
    order = ["other plug-ins", "end to end: runs", first, "storyframes-empathy", *others, "end to end: others"]
    groups = grouped(named, END_TO_END) + grouped({file: rooms(file) for file in files}, SHORT)
    return sorted(groups, key=lambda group: order.index(group.name) if group.name in order else len(order))


def rest_groups(selection: str = REST) -> list[Group]:
    """Everything else, the longest first; what depends on the processor a second time, as on one without AVX-512."""
    shared = {place: name for name, places in TOGETHER.items() for place in places}

    def name_of(file: str) -> str:
        path = Path(file)
        if path.stem.removeprefix("test_") in ALONE:
            return file
        named = next((shared[str(place)] for place in (path, *path.parents) if str(place) in shared), "")
        return named or (path.parent.name if path.parts[0] == "tests" else str(path.parent))

    rank = {name: number for number, name in enumerate(LONGEST)}
    groups = grouped({file: name_of(file) for file in test_files()}, selection)
    groups.sort(key=lambda group: rank.get(group.name, len(rank)))
    named = {
        file: f"another processor: {Path(file).parts[0]}"
        for file in test_files()
        if "mark.isa" in (ROOT / file).read_text()
    }
    again = "isa" if selection == NIGHTLY else "isa and not nightly"
    return groups + [replace(group, environment=ANOTHER_PROCESSOR) for group in grouped(named, again)]


def changed_plug_ins(base: str) -> set[str]:
    """The plug-ins that changed since a commit, or something that they import; all of them without a commit."""
    folders = {path.parent.name: path.parent for path in ROOT.glob("plugins/*/pyproject.toml")}
    if not base:
        return set(folders)
    changed = set(changed_files(base))
    paths = {module_of(path): path for folder in IMPORTED_FROM for path in folder.rglob("*.py")}
    found = set()
    for name, folder in folders.items():
        reached, new = set[Path](), set(folder.rglob("*.py"))
        while new:
            reached |= new
            new = {paths[module] for path in new for module in imports_of(path) if module in paths} - reached
        if changed & reached or any(path.is_relative_to(folder) for path in changed):
            found.add(name)
    return found


def last_tag() -> str:
    """The last tag before this commit, '' where there is none."""
    command = ["git", "describe", "--tags", "--abbrev=0"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def prepare(state: Path) -> None:
    """Compile our modules and pytest's plug-ins, and make a Prefect server's database, once for all processes."""
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    packages = ("storyframes", "tasks", "flows", "tests/support", "benchmarks")
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], cwd=ROOT, check=False)
    serve = "from flows.server.prefect_server import prefect_server\nwith prefect_server(): pass"
    plain = {name: value for name, value in writing.items() if not name.startswith("PREFECT_")}
    preparing = [
        subprocess.Popen([sys.executable, "-c", serve], cwd=ROOT, env=plain | {"XDG_STATE_HOME": str(state)}),
        # pytest compiles what may assert in its own way: its plug-ins, 190 modules with those of hypothesis.
        subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/reading/test_rows.py"],
            cwd=ROOT, env=writing, stdout=subprocess.DEVNULL,
        ),
        # What make leaves to Python to compile: an optimizer imports torch's compiler and sympy, scores openai, a
        # Prefect server beartype. Where Python may not write, each process would compile these 1,500 modules again.
        subprocess.Popen([sys.executable, "-c", "import torch._dynamo, openai"], cwd=ROOT, env=writing),
    ]  # fmt: skip
    for process in preparing:
        process.wait()


def run(group: Group, environment: Mapping[str, str], coverage: bool) -> Ended:
    """Run the tests of a group in a process of their own."""
    began = time.monotonic()
    measured = ["-m", "coverage", "run"] if coverage else []
    command = [sys.executable, *measured, "-m", "pytest", "-q", "-m", group.selection, *group.files]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment, **group.environment}
    if all(file.startswith("plugins/") for file in group.files):
        variables["PYTHONPATH"] = INSTALLED_PLUG_INS
    with subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        printed = process.stdout.read() if process.stdout else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    code = 0 if process.returncode == 5 else process.returncode  # 5: none of its tests is in this tier
    return Ended(code, printed, time.monotonic() - began, used.ru_utime + used.ru_stime)


def run_all(groups: Sequence[Group], at_once: int, environment: dict[str, str], coverage: bool) -> dict[str, Ended]:
    """Run groups, several at once, and print a line for each that ends."""
    ended: dict[str, Ended] = {}
    with contextlib.ExitStack() as stack:
        state, used, made = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(3))
        prepare(state)
        shutil.copytree(state, used, dirs_exist_ok=True)
        server = json.dumps(stack.enter_context(one_server(used)))
        environment |= {"STORYFRAMES_TEST_STATE": str(state), MADE_ONCE: str(made), GIVEN: server}
        pool = stack.enter_context(ThreadPoolExecutor(at_once))
        running = {pool.submit(run, group, environment, coverage): group for group in groups}
        for future in as_completed(running):
            name, result = running[future].name, future.result()
            ended[name] = result
            words = (result.printed.strip().splitlines() or ["nothing was printed"])[-1].strip("= ")
            print(f"[{len(ended):2}/{len(groups)}] {name}: {words} ({result.processor:.0f} CPU-s)", flush=True)
            if result.code:
                print(f"===== {name}: exit code {result.code}\n{result.printed}", flush=True)
    return ended


def print_costs(tests: Sequence[Line], fixtures: Sequence[Line], ended: Mapping[str, Ended]) -> list[str]:
    """Print what costs most and which unmarked tests cost too much; those that cost three times the limit."""
    print("===== CPU-seconds and seconds by the clock of each process")
    for name, result in sorted(ended.items(), key=lambda item: -item[1].processor):
        print(f"{result.processor:6.0f} {result.clock:6.0f}  {name}")
    print(f"{sum(result.processor for result in ended.values()):6.0f}         sum")
    unmarked = [test for test in tests if not {"slow", "needs", "nightly", "end_to_end"} & set(test["marks"])]
    for title, lines, kind in (
        (f"above {LIMIT} CPU-s without the mark 'slow'", unmarked, "test"),
        (f"shared fixtures above {LIMIT} CPU-s", fixtures, "fixture"),
    ):
        above = sorted((line for line in lines if line["cost"] > LIMIT), key=lambda line: -line["cost"])
        if above:
            print(f"===== {title}")
        for line in above:
            print(f"{line['cost']:6.1f}  {line[kind]}")
    return [test["test"] for test in unmarked if test["cost"] > 3 * LIMIT]


def still_dear(test: str, environment: Mapping[str, str]) -> bool:
    """Whether a test costs three times the limit when it runs again alone: the first one to use a library may pay for
    what the library makes once (hypothesis its tables of characters)."""
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder) / "costs.jsonl"
        run(Group(test, (test,), SHORT), {**environment, WRITTEN_TO: str(costs)}, coverage=False)
        lines = [json.loads(line) for line in costs.read_text().splitlines()] if costs.exists() else []
    again = [line["cost"] for line in lines if line.get("test") == test]
    return not again or again[0] > 3 * LIMIT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rest", action="store_true", help="what the short tier leaves out, instead of it")
    parser.add_argument("--all", action="store_true", help="with --rest: nightly tests, and all plug-ins")
    parser.add_argument("--base", default="", help="with --rest: the commit since which a plug-in changed or did not")
    parser.add_argument("--strict", action="store_true", help="fail on skips without a reason and on dear tests")
    parser.add_argument("--coverage", action="store_true", help="note which lines run; 'make coverage' reads the notes")
    processors = len(os.sched_getaffinity(0))
    parser.add_argument("--at-once", type=int, default=0, help="processes of tests at a time")
    asked = parser.parse_args()
    began = time.monotonic()
    groups = rest_groups(NIGHTLY if asked.all else REST) if asked.rest else short_groups()
    if asked.rest and not asked.all:
        changed = changed_plug_ins(asked.base or last_tag())
        kept = [group for group in groups if not _only_of_others(group, changed)]
        left = [group.name for group in groups if group not in kept]
        groups = kept
        if left:
            print(f"left out, because nothing that they test changed (ALL=1 runs them): {', '.join(left)}")
        print("left out: tests marked nightly (ALL=1 runs them)")
    lacking = {Path(file).parts[1]: missing_dependencies(file) for file in test_files() if not asked.rest}
    for plug_in, names in lacking.items():
        if names:
            print(f"left out: {plug_in}, which needs {', '.join(names)} (make test-all)")
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder) / "costs.jsonl"
        costs.touch()
        environment = {WRITTEN_TO: str(costs)} | ({"STORYFRAMES_NO_SKIPS": "1"} if asked.strict else {})
        # Some wait for servers and workers most of their time.
        ended = run_all(groups, asked.at_once or processors + (2 if asked.rest else 1), environment, asked.coverage)
        lines = [json.loads(line) for line in costs.read_text().splitlines()]
        tests = [line for line in lines if "test" in line]
        dear = print_costs(tests, [line for line in lines if "fixture" in line], ended)
        dear = [test for test in dear if asked.strict and still_dear(test, environment)]
    failed = [name for name, result in ended.items() if result.code]
    if dear:
        print("===== too dear without a mark: give them one, or make them cheaper:", *dear, sep="\n  ")
    if failed:
        print(f"===== failed: {', '.join(failed)}")
    outcomes = Counter(test["outcome"] for test in tests)
    for reason, times in Counter(test["reason"] for test in tests if test["outcome"] == "skipped").most_common():
        print(f"{times} skipped: {reason.removeprefix('Skipped: ')}")
    numbers = [f"{outcomes[name]} {name}" for name in ("passed", "failed", "skipped") if outcomes[name]]
    print(f"{', '.join(numbers) or '0 passed'} in {(time.monotonic() - began) / 60:.1f} min")
    return 1 if failed or outcomes["failed"] or not tests or dear else 0


def _only_of_others(group: Group, changed: set[str]) -> bool:
    """Whether all files of a group are of plug-ins that did not change."""
    return all(file.startswith("plugins/") and Path(file).parts[1] not in changed for file in group.files)


if __name__ == "__main__":
    sys.exit(main())
