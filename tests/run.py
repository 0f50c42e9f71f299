"""All tests, the longest files first, and how long each took by the clock and the processors: what ``make test`` runs.

    python tests/run.py [--at-once N]

Tests are in rooms that mirror the code (tests/store, tests/clips, ...). The files of a room share a process: most of
their time would go into starting pytest and into imports. Those that start clusters, servers or workers have one each,
because one process for all of them may die late in the run, where a child ends and the kernel cannot say so
(docs/facts.md, processes and signals). Those that look at the extracted demo share one, so that it is extracted once.
Small rooms share a process too, and so do those that build the same images of containers. Plug-ins bring tests of
their own, in plugins/*/tests; the others see storyframes as it is without them.

Commands that need a Prefect server and are not about it share one (support/servers/one_server.py).

Two more at once than there are processors: the files with servers and clusters wait for most of their time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from support.servers.one_server import GIVEN, one_server

ROOT = Path(__file__).parent.parent
INSTALLED_PLUG_INS = Path(sys.prefix) / "plugins"  # by make, beside the environment
# What shares a process, by the name of the group: files, and folders but for those of their files that are named.
TOGETHER = {
    "the demo": (
        "tests/cli/test_cli.py", "tests/project/test_docs_site.py", "tests/inspect/test_report.py",
        "tests/inspect/test_report_browser.py", "tests/project/test_snippets.py", "tests/project/test_wheel.py",
        "plugins/storyframes-empathy/tests/test_demo.py",
    ),
    "containers": (
        "tests/tools/test_containers.py", "tests/tools/test_container_faults.py",
        "tests/plugins/test_outside_containers.py",
    ),
    "small rooms": ("tests/planning", "tests/project", "tests/sharing", "tests/tools"),
    "small plug-ins": (
        "plugins/storyframes-adopt/tests", "plugins/storyframes-empathy/tests/scores",
        "plugins/storyframes-empathy/tests/statistics", "plugins/storyframes-empathy/tests/test_documented.py",
        "plugins/storyframes-empathy/tests/test_light_install_of_empathy.py",
        "plugins/storyframes-empathy/tests/text", "plugins/storyframes-example/tests",
        "plugins/storyframes-labels/tests", "plugins/storyframes-sync/tests",
    ),
}  # fmt: skip
# A process each: they start servers, clusters, containers or workers, or change what the whole process has.
ALONE = set(
    """
    benchmark_flow check_extractor clusters deployments existing_scheduler far_rows faults flows interruption
    leftovers locale object_store openface_binary opensmile outside plugin_example plugin_privacy plugin_workers
    resnet50 server slurm soak stored_pictures strangers topics worker_mounts
    """.split()
)
# What took longest when it was last looked at, in this order; whatever is not named comes after.
LONGEST = (
    "tests/flows/test_flows.py", "tests/flows/test_deployments.py", "the demo", "tests/flows/test_server.py",
    "tests/flows/test_faults.py", "dope", "tests/extractors/test_resnet50.py", "tests/flows/test_soak.py", "store",
    "plugins/storyframes-empathy/tests/training", "plugins/storyframes-empathy/tests/own_studies", "clips",
    "tests/plugins/test_check_extractor.py", "tests/flows/test_slurm.py", "plugins", "extractors",
    "plugins/storyframes-pyfeat/tests", "plugins/storyframes-mediapipe/tests", "tests/plugins/test_plugin_example.py",
    "flows", "plugins/storyframes-release/tests", "small plug-ins", "containers", "small rooms",
    "tests/flows/test_leftovers.py", "tests/flows/test_strangers.py",
    "plugins/storyframes-empathy/tests/text/test_topics.py", "media", "plugins/storyframes-transcribe/tests", "embed",
    "study", "tests/store/test_object_store.py", "tests/flows/test_existing_scheduler.py",
    "tests/plugins/test_outside.py", "tests/extractors/test_stored_pictures.py",
    "tests/plugins/test_plugin_privacy.py", "reading", "index", "tests/flows/test_clusters.py",
)  # fmt: skip


def groups() -> dict[str, list[str]]:
    """What is tested in one process: its name, and the files; in the order in which they begin."""
    found: dict[str, list[str]] = {}
    for path in sorted([*ROOT.glob("tests/*/test_*.py"), *ROOT.glob("plugins/*/tests/**/test_*.py")]):
        found.setdefault(group_of(path.relative_to(ROOT)), []).append(str(path.relative_to(ROOT)))
    first = {name: rank for rank, name in enumerate(LONGEST)}
    return dict(sorted(found.items(), key=lambda group: first.get(group[0], len(first))))


def group_of(path: Path) -> str:
    """The name of the group of a file of tests: its own, that of the nearest folder that shares one, or its room."""
    shared = {place: name for name, places in TOGETHER.items() for place in places}
    if path.stem.removeprefix("test_") in ALONE:
        return str(path)
    named = next((shared[str(place)] for place in (path, *path.parents) if str(place) in shared), "")
    return named or (path.parent.name if path.parts[0] == "tests" else str(path.parent))


def prepare(state: Path) -> None:
    """What each process of tests begins with: modules that are compiled, and a copy of a Prefect server's database.

    Both would be made again and again: a database takes seconds, and where Python may not write what it compiles
    (PYTHONDONTWRITEBYTECODE, as in many images), each of a thousand processes compiles all of our modules, and each
    pytest its plug-ins.
    """
    packages = ("storyframes", "tasks", "flows", "tests/support", "benchmarks")
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], cwd=ROOT, check=False)
    # pytest compiles what may assert in its own way: its plug-ins, 190 modules with those of hypothesis.
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/reading/test_rows.py"]
    subprocess.run(collect, cwd=ROOT, env=writing, stdout=subprocess.DEVNULL, check=False)
    code = "from flows.server.prefect_server import prefect_server\nwith prefect_server(): pass"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=ROOT, env=environment | {"XDG_STATE_HOME": str(state)}, check=False)


@dataclass(frozen=True)
class Seconds:
    """What a group took. Processor seconds are those of pytest and of all processes that it waited for."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.0f} s, {self.processor:.0f} s of a processor"


def test(places: Sequence[str], state: Path, server: str) -> tuple[int, str, Seconds]:
    """How pytest ended, what it printed, and the seconds that took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "--durations=5", "--durations-min=8", *places]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "STORYFRAMES_TEST_STATE": str(state), GIVEN: server}
    if all(place.startswith("plugins/") for place in places):
        environment["PYTHONPATH"] = str(INSTALLED_PLUG_INS)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as started:
        printed = started.stdout.read() if started.stdout else ""
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    return started.returncode, printed, Seconds(time.monotonic() - began, used.ru_utime + used.ru_stime)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    processors = len(os.sched_getaffinity(0))
    parser.add_argument("--at-once", type=int, default=processors + 2, help="processes of tests at a time")
    took: dict[str, Seconds] = {}
    failed = []
    at_once = parser.parse_args().at_once
    with contextlib.ExitStack() as stack:
        state, used = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        prepare(state)
        shutil.copytree(state, used, dirs_exist_ok=True)
        server = json.dumps(stack.enter_context(one_server(used)))
        pool = stack.enter_context(ThreadPoolExecutor(at_once))
        running = {pool.submit(test, places, state, server): (name, places) for name, places in groups().items()}
        for ended in as_completed(running):
            (name, places), (code, printed, took[name]) = running[ended], ended.result()
            print(f"===== {name}: {' '.join(places)} ({took[name]})\n{printed}", flush=True)
            failed += [name] if code else []
    print("===== seconds by the clock and of a processor, what costs most first")
    for name, seconds in sorted(took.items(), key=lambda one: -one[1].processor):
        print(f"{seconds.clock:6.0f} {seconds.processor:6.0f}  {name}")
    print(f"{'sum':>6} {sum(seconds.processor for seconds in took.values()):6.0f}")
    print(f"===== failed: {', '.join(failed)}" if failed else "===== all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
