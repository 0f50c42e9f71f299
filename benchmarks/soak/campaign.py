"""The disturbed part of a soak: extractions that are killed at random, with other commands and a reader beside them."""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from benchmarks.soak.commands import Command
from benchmarks.soak.disturbances import Strike, Striker, draw_strikes
from benchmarks.soak.soak_paths import SoakPaths
from benchmarks.soak.soak_processes import Holdings, Role, of_the_soak
from storyframes.store import record_status
from storyframes.store.layout import open_store
from storyframes.store.records import Status

_RUN_STALLED_S = 420  # without any progress
_BESIDE_STALLED_S = 240
_MOST_STRIKES = 6
_LINES = 4  # about as many are printed before the first feature is done, and for each session
_TWO_AT_ONCE = 0.2  # of the runs get a second one beside them
_READER_S = 40


@dataclass
class Campaign:
    """One soak's disturbed part.

    Attributes:
        paths: where.
        seed: of everything that is drawn.
        sessions: of the study.
        run_s: how long an undisturbed run takes.
        ended: how commands ended, by name and exit code.
        findings: what must not be.
    """

    paths: SoakPaths
    seed: int
    sessions: tuple[str, ...]
    run_s: float = 30
    striker: Striker = field(default_factory=Striker)
    holdings: Holdings = field(default_factory=Holdings)
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    _runs: list[tuple[Command, list[Strike]]] = field(default_factory=list)
    _beside: list[Command] = field(default_factory=list)
    _due: list[tuple[float, Strike]] = field(default_factory=list)
    _runs_left: int = 0
    _struck_at: list[tuple[float, str]] = field(default_factory=list)  # when, and the kind of signal
    _next_run: float = 0.0
    _second_run: float = math.inf  # when it begins
    _next_beside: float = 0.0

    def __post_init__(self) -> None:
        # Each kind of thing has random numbers of its own, so that how fast the machine is changes no other kind's.
        kinds = ("runs", "pauses", "strikes", "beside", "reader")
        self._dice = {kind: random.Random(f"{self.seed} {kind}") for kind in kinds}

    def run(self, seconds: float, runs: int) -> None:
        """Until the time is up, or so many extractions have begun, and everything that was started has ended."""
        until = time.time() + seconds
        self._runs_left = runs
        try:
            while True:
                going_on = time.time() < until and bool(self._runs_left or self._runs)
                if not (going_on or self._runs or self._beside):
                    return
                self._tick(going_on=going_on)
                time.sleep(0.2)
        finally:
            self.striker.wake(everybody=True)

    def _tick(self, *, going_on: bool) -> None:
        processes = of_the_soak(self.paths.folder)
        self.holdings.note(processes)
        self.striker.wake()
        victims = [process for process in processes if process.role is not Role.READER]
        for command, strikes in self._runs:
            if going_on and strikes and strikes[0].after_lines <= command.lines:
                strike = strikes.pop(0)
                self._due.append((time.time() + strike.delay_s, strike))
        for due, strike in [pair for pair in self._due if pair[0] <= time.time()]:
            self._due.remove((due, strike))
            if going_on:
                hit = self.striker.strike(strike, victims)
                self._struck_at.append((time.time(), ", ".join(f"{strike.blow} {each.role}" for each in hit)))
        for command, strikes in [pair for pair in self._runs if pair[0].is_over()]:
            self._runs.remove((command, strikes))
            self._judge_run(command)
        for command in [command for command in self._beside if command.is_over()]:
            self._beside.remove(command)
            self._judge_beside(command)
        if going_on:
            self._start_runs()
            self._start_beside()

    def _start_runs(self) -> None:
        dice = self._dice["runs"]
        now = time.time()
        if self._runs_left < 1 or now < (self._second_run if self._runs else self._next_run):
            return
        self._second_run = math.inf
        if not self._runs and dice.random() < _TWO_AT_ONCE:
            self._second_run = now + dice.uniform(0.1, 0.9) * self.run_s
        selection = self._draw_selection(dice)
        line = self.paths.extract(self.paths.store, *selection)
        command = Command.start(self.paths, "extract", line, _RUN_STALLED_S, selection)
        strikes = draw_strikes(self._dice["strikes"], _MOST_STRIKES, _LINES + len(self.sessions) * _LINES)
        self._runs.append((command, strikes))
        self._runs_left -= 1

    def _draw_selection(self, dice: random.Random) -> list[str]:
        options: list[str] = []
        if dice.random() < 0.75:
            options.append("--force")
        if dice.random() < 0.25:
            options += ["--session", dice.choice(self.sessions)]
        if dice.random() < 0.25:
            options += ["--features", dice.choice(self.paths.features)]
        return options

    def _start_beside(self) -> None:
        if not (self.paths.store / "zarr.json").exists():
            return
        if not any(command.name == "reader" for command in self._beside):
            seed = self._dice["reader"].randrange(1 << 30)
            arguments = map(str, (self.paths.store, self.paths.reference, seed, _READER_S))
            line = [sys.executable, "-m", "benchmarks.soak.reader", *arguments]
            self._beside.append(Command.start(self.paths, "reader", line, _BESIDE_STALLED_S))
        if time.time() < self._next_beside or len(self._beside) > 1:
            return
        dice, store = self._dice["beside"], self.paths.store
        lines = {
            "gc": ["gc", store, "--grace-hours", 0],
            "index": ["index", self.paths.study, store, "--config", self.paths.configuration],
            "status": ["status", store],
            "verify": ["verify", store],
        }
        name = dice.choices(list(lines), [4, 2, 1, 2])[0]
        self._beside.append(
            Command.start(self.paths, name, self.paths.command(*map(str, lines[name])), _BESIDE_STALLED_S)
        )
        self._next_beside = time.time() + dice.uniform(1, 6)

    # --- how it ended ------------------------------------------------------------------------------------------------

    def _judge_run(self, command: Command) -> None:
        self._next_run = time.time() + self._dice["pauses"].uniform(0, 2)
        was_hit = self._note_end(command)
        if was_hit:
            return
        if command.code == 0:
            for problem in self._untruths(command):
                self._find(command, f"ended with 0, but {problem}")
        elif command.code != 1:
            self._find(command, f"ended with {command.code}, though nothing had been done to its driver")
        elif not self._blows_since(command.began):
            self._find(command, "failed, though nothing had been done to anything")

    def _judge_beside(self, command: Command) -> None:
        was_hit = self._note_end(command)
        if command.name == "reader" and command.printed.startswith("{"):
            said = json.loads(command.printed.splitlines()[-1])
            self.read.update(said["counts"])
            for wrong in said["wrong"]:
                self._find(command, f"WRONG VALUES: {wrong}")
        elif not was_hit and command.code != 0 and not _came_too_early(command):
            self._find(command, f"ended with {command.code}")

    def _note_end(self, command: Command) -> bool:
        """Counts it; whether it had been hit itself."""
        was_hit = command.identity in self.striker.hit
        how = "hung" if command.hung else str(command.code)
        self.ended[command.name, f"{how}{' (hit)' if was_hit else ''}"] += 1
        if command.hung:
            self._find(command, f"hung: {command.hung}")
        elif command.traceback:
            self._find(command, "printed a traceback")
        return was_hit or bool(command.hung)

    def _find(self, command: Command, what: str) -> None:
        blows = "; ".join(f"{at - command.began:.0f} s: {blow}" for at, blow in self._blows_since(command.began))
        name = " ".join([command.name, *command.selection])
        self.findings.append(f"{name} ({command.log.name}): {what}\n      blows: {blows or 'none'}\n{command.tail}")
        print(f"  finding: {name}: {what}", flush=True)

    def _blows_since(self, began: float) -> list[tuple[float, str]]:
        return [(at, blow) for at, blow in self._struck_at if at > began and blow]

    def _untruths(self, command: Command) -> list[str]:
        """What should be in the store after this extraction, and is not."""
        began = datetime.fromtimestamp(command.began, UTC).isoformat()
        options = list(command.selection)
        value = {name: options[options.index(name) + 1] for name in ("--session", "--features") if name in options}
        entries = {(each.session_id, each.feature): each for each in record_status.scan(open_store(self.paths.store))}
        untrue = []
        for session_id in [value["--session"]] if "--session" in value else self.sessions:
            for feature in [value["--features"]] if "--features" in value else self.paths.features:
                entry = entries.get((session_id, feature))
                if entry is None or entry.current is None or entry.status is not Status.DONE:
                    untrue.append(f"{session_id}/{feature} is not there")
                elif "--force" in options and entry.current.created_at < began:
                    untrue.append(f"{session_id}/{feature} is older than the run that was to make it again")
        return untrue


def _came_too_early(command: Command) -> bool:
    """Whether it is a ``verify`` of a store whose first runs were killed before they published anything."""
    unknown = ("nothing was verified", "whether others are lost is not known")
    return command.name == "verify" and command.code == 1 and any(said in command.printed for said in unknown)
