"""``python -m benchmarks.soak``: extracts a small study again and again while everything of it is killed at random.

    python -m benchmarks.soak [--minutes 20] [--runs N] [--seed N] [--sessions 3] [--seconds 6] [--without resnet50]

Beside it ``gc --grace-hours 0``, ``index``, ``status``, ``verify`` and a training job work on the same store. In the
end one undisturbed run has to complete; then the store must be sound, complete and equal to one that nobody disturbed,
array by array, and no process, temporary folder, socket or listening port may be left. Ends with 0 if all that is so,
else with 1. The seed is printed: the same seed draws the same commands and signals, though when a signal reaches a run
depends on how fast the machine is. ``--keep`` leaves the folder with the logs of all commands.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import print_machine
from benchmarks.soak import final_checks
from benchmarks.soak.campaign import Campaign
from benchmarks.soak.commands import Command
from benchmarks.soak.soak_paths import FEATURES, SoakPaths
from benchmarks.soak.soak_processes import of_the_soak
from tasks.media.synthesize import SyntheticStudy

_STALLED_S = 900


def soak(paths: SoakPaths, campaign: Campaign, minutes: float, runs: int) -> list[str]:
    """All of it; gives back what must not be."""
    began = time.monotonic()
    wrong = _undisturbed(paths, "the undisturbed extraction", paths.extract(paths.reference))
    if wrong:
        return wrong
    campaign.run_s = time.monotonic() - began
    print(
        f"  an undisturbed extraction takes {campaign.run_s:.0f} s; disturbing others for {minutes:g} minutes",
        flush=True,
    )
    campaign.run(60 * minutes, runs)
    print("  the disturbance is over; one more extraction, and a look at everything", flush=True)
    lines = {
        "the last extraction": paths.extract(paths.store),
        "verify": paths.command("verify", paths.store),
        "gc": paths.command("gc", paths.store, "--grace-hours", "0"),
        "verify after gc": paths.command("verify", paths.store),
    }
    wrong = [problem for name, line in lines.items() for problem in _undisturbed(paths, name, line)]
    wrong += final_checks.differences(paths, campaign.sessions)
    wrong += final_checks.stray_files(paths)
    wrong += final_checks.leftovers(paths, campaign.holdings)
    return [*campaign.findings, *wrong]


def _undisturbed(paths: SoakPaths, name: str, line: list[str]) -> list[str]:
    command = Command.start(paths, name, line, _STALLED_S)
    code = command.wait()
    return [f"{name} ended with {code} ({command.log.name})\n{command.tail}"] if code else []


def end_everything(paths: SoakPaths) -> None:
    """Of a soak that was interrupted; after one that ended well nothing is there."""
    for process in of_the_soak(paths.folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def print_table(campaign: Campaign) -> None:
    """What was done, and how it ended."""
    print("\n  what was hit            " + "".join(f"{blow:>20}" for blow in _blows(campaign)))
    for role in sorted({role for role, _ in campaign.striker.counts}):
        counts = (campaign.striker.counts[role, blow] for blow in _blows(campaign))
        print(f"  {role:<24}" + "".join(f"{count or '':>20}" for count in counts))
    print("\n  what ran                how it ended: how often")
    for name in sorted({name for name, _ in campaign.ended}):
        ways = {how: count for (other, how), count in sorted(campaign.ended.items()) if other == name}
        print(f"  {name:<24}" + ", ".join(f"{how}: {count}" for how, count in ways.items()))
    print("\n  what the training job read")
    for what, count in sorted(campaign.read.items()):
        print(f"  {count:8d} {what}")


def _blows(campaign: Campaign) -> list[str]:
    return sorted({blow for _, blow in campaign.striker.counts})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--runs", type=int, default=10_000, help="begin no more extractions than this")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="of each session")
    parser.add_argument("--without", action="append", default=[], choices=FEATURES[1:], help="a feature")
    parser.add_argument("--state", type=Path, help="a folder to begin with in place of an empty XDG_STATE_HOME")
    parser.add_argument("--keep", action="store_true", help="leave the folder, logs and all, to look at")
    arguments = parser.parse_args()
    features = tuple(feature for feature in FEATURES if feature not in arguments.without)
    sessions = tuple(f"s{number:04d}" for number in range(1, arguments.sessions + 1))
    print_machine()
    print(
        f"soak: seed {arguments.seed}, {arguments.sessions} sessions of {arguments.seconds:g} s, {', '.join(features)}"
    )
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    paths = SoakPaths(folder, features)
    campaign = Campaign(paths, arguments.seed, sessions)
    try:
        study = SyntheticStudy(sessions=arguments.sessions, seconds=arguments.seconds, width=160, height=120)
        paths.prepare(study, tool_seconds=1.5)
        if arguments.state:  # else the first run makes a Prefect server's database, for ten seconds of a processor
            shutil.copytree(arguments.state, folder / "state", dirs_exist_ok=True)
        wrong = soak(paths, campaign, arguments.minutes, arguments.runs)
    finally:
        print_table(campaign)
        end_everything(paths)
        if arguments.keep:
            print(f"\n  kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{time.monotonic() - started:.0f} s, seed {arguments.seed}: {len(wrong)} things that must not be")
    for number, problem in enumerate(wrong, start=1):
        print(f"  {number}. {problem}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
