"""A study extracted by one worker and by two, and a lone session on all processors, through the command line.

    python -m benchmarks.extracting.study [--sessions 10] [--seconds 75] [--runs 1]

Everything is in it: the server's start, the workers' imports, planning, the index. What ``storyframes plan`` says
beforehand stands beside it: that is from the first task to the last, without the start. A run has as many processors
as workers: else a lone worker decodes ahead on the second one, where the driver and the server are as well. Wall time
means something on an idle machine only, so the processor time of every worker is told too: what one worker needs for
all, over what the busiest of two needs, is the speed-up on a machine that has nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from tasks.media.synthesize import SyntheticStudy, write_study

_CONFIG = """
features = ["frames", "openface", "resnet50", "opensmile", "sbert"]
[resnet50]
allow_untrained = true
[cluster]
cpus = {cpus}
"""


@dataclass(frozen=True)
class Run:
    """One command.

    Attributes:
        wall_s: from its start to its end.
        cpu_s: of all its processes.
        workers_s: of each Dask worker, the busiest first.
    """

    wall_s: float
    cpu_s: float
    workers_s: tuple[float, ...]


def configuration(folder: Path, cpus: int) -> Path:
    path = folder / f"{cpus}.toml"
    path.write_text(_CONFIG.format(cpus=cpus))
    return path


def predicted_s(study: Path, folder: Path, cpus: int) -> float:
    """How long ``storyframes plan`` says that it will take."""
    options = ["--config", str(configuration(folder, cpus)), "--workers", str(cpus), "--json"]
    command = [sys.executable, "-m", "flows.cli", "plan", str(study), *options]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[2]).stdout
    return json.loads(said)["wall_s"]


def run(study: Path, folder: Path, cpus: int, *options: str) -> Run:
    """Extract into a new feature store, watching the processes."""
    config = configuration(folder, cpus)
    features = folder / f"features-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "flows.cli", "extract", "--server", str(study), str(features)]
    command += ["--config", str(config)]
    processors = sorted(os.sched_getaffinity(0))[:cpus]
    started = time.perf_counter()
    process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[2])
    os.sched_setaffinity(process.pid, processors)  # before it has any thread or child
    spent: dict[int, tuple[bool, float]] = {}
    root = psutil.Process(process.pid)
    while process.poll() is None:
        _note(root, spent)
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"the extraction ended with {process.returncode}")
    workers = sorted((seconds for is_worker, seconds in spent.values() if is_worker), reverse=True)
    return Run(time.perf_counter() - started, sum(seconds for _, seconds in spent.values()), tuple(workers[:cpus]))


def _note(root: psutil.Process, spent: dict[int, tuple[bool, float]]) -> None:
    """The processor time of every process of the command by now, and whether it is a worker."""
    try:
        for process in [root, *root.children(recursive=True)]:
            times = process.cpu_times()
            is_worker = any("spawn_main" in argument for argument in process.cmdline())
            spent[process.pid] = (is_worker, times.user + times.system)
    except psutil.NoSuchProcess:  # it has just ended; the others are noted next time
        return


def print_study(folder: Path, plan: SyntheticStudy, runs: int) -> list[list[str]]:
    study = folder / "study"
    write_study(study, plan)
    measured: dict[int, list[Run]] = {1: [], 2: []}
    predicted = {cpus: predicted_s(study, folder, cpus) for cpus in measured}
    for _ in range(runs):
        for cpus, results in measured.items():
            results.append(run(study, folder, cpus))
    rows = []
    for cpus, results in measured.items():
        name = f"{plan.sessions} sessions of {plan.seconds:g} s, {cpus} worker{'s' * (cpus > 1)} and as many processors"
        each = ", ".join(f"{seconds:.0f}" for seconds in results[0].workers_s)
        shown = (predicted[cpus], _median(results, "wall_s"), _median(results, "cpu_s"))
        rows.append([name, *(f"{seconds:.0f}" for seconds in shown), each])
    wall = _median(measured[1], "wall_s") / _median(measured[2], "wall_s")
    busiest = {cpus: statistics.median(result.workers_s[0] for result in results) for cpus, results in measured.items()}
    print(f"  two workers: {wall:.2f} x as fast by the clock, {busiest[1] / busiest[2]:.2f} x by processor time")
    return rows


def print_lone_session(folder: Path, seconds: float) -> list[str]:
    cpus = len(os.sched_getaffinity(0))
    study = folder / "lone"
    write_study(study, SyntheticStudy(sessions=1, seconds=seconds))
    predicted = predicted_s(study, folder, cpus)
    result = run(study, folder, cpus, "--session", "s0001")
    share = result.wall_s / (result.cpu_s / cpus)
    print(f"a lone session: {share:.2f} x the processor time over {cpus}")
    shown = (predicted, result.wall_s, result.cpu_s)
    return [f"one session of {seconds:g} s, {cpus} processors", *(f"{seconds:.0f}" for seconds in shown), ""]


def _median(results: list[Run], name: str) -> float:
    return statistics.median(getattr(result, name) for result in results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--runs", type=int, default=1)
    arguments, _ = parser.parse_known_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        rows = print_study(Path(temporary), SyntheticStudy(arguments.sessions, arguments.seconds), arguments.runs)
        rows.append(print_lone_session(Path(temporary), arguments.sessions * arguments.seconds / 2))
        columns = ("", "`storyframes plan` predicted", "wall s", "CPU-s", "CPU-s of each worker")
        record("a-study-and-a-single-session", columns, rows, ["torch", "openvino", "prefect", "distributed"])
        print(f"load {os.getloadavg()[0]:.1f} when it ended: by the clock only an idle machine counts")


if __name__ == "__main__":
    main()
