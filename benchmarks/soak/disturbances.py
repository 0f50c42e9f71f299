"""What is done to a run: which signals, to which process, and when; all drawn from the seed before the run begins."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from benchmarks.soak.soak_processes import ProcessIdentity, Role, started_at


class Blow(StrEnum):
    """How a process is hit."""

    KILL = "SIGKILL"
    TERM = "SIGTERM"
    INT = "SIGINT"
    STOP = "SIGSTOP, SIGCONT"


_SIGNALS = {Blow.KILL: signal.SIGKILL, Blow.TERM: signal.SIGTERM, Blow.INT: signal.SIGINT, Blow.STOP: signal.SIGSTOP}
_WEIGHTS = {Blow.KILL: 5, Blow.TERM: 2, Blow.INT: 2, Blow.STOP: 3}
_PARTS = {Role.BESIDE: 0.4, Role.DRIVER: 0.25, Role.SERVER: 0.5}  # how likely each is picked; any other part: 1
_ALL_AT_ONCE = 0.12  # of the kills are of everything at once, as where a machine dies


@dataclass(frozen=True)
class Strike:
    """One signal that is planned.

    Attributes:
        after_lines: of what the run's driver prints; a run says whenever a feature is done.
        delay_s: after that.
        pick: a number below 1 that picks the victim among the parts that are there, and within the part.
        everything: all of them, not one.
        stopped_s: how long a stopped process stays so.
    """

    after_lines: int
    delay_s: float
    blow: Blow
    pick: float
    everything: bool
    stopped_s: float

    @classmethod
    def draw(cls, dice: random.Random, lines: int) -> Strike:
        blow = dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        everything = blow is Blow.KILL and dice.random() < _ALL_AT_ONCE
        return cls(
            dice.randint(0, lines), dice.uniform(0, 2), blow, dice.random(), everything, dice.uniform(0.5, 5)
        )  # fmt: skip

    def victims(self, processes: Sequence[ProcessIdentity]) -> list[ProcessIdentity]:
        """Whom it hits: first the part is picked, however many processes play it, then one of these."""
        if self.everything or not processes:
            return list(processes)
        parts = sorted({process.role for process in processes})
        dice = random.Random(self.pick)
        (part,) = dice.choices(parts, [_PARTS.get(part, 1) for part in parts])
        return [dice.choice([process for process in processes if process.role is part])]


def draw_strikes(dice: random.Random, most: int, lines: int) -> list[Strike]:
    """The strikes of one run that prints so many lines, in their order."""
    strikes = [Strike.draw(dice, lines) for _ in range(dice.randint(1, most))]
    return sorted(strikes, key=lambda strike: strike.after_lines)


@dataclass
class Striker:
    """Sends signals, wakes what it stopped, and keeps count.

    Attributes:
        counts: blows by part and kind.
        hit: every process that got one which may have ended it.
    """

    counts: Counter[tuple[Role, Blow]] = field(default_factory=Counter)
    hit: set[ProcessIdentity] = field(default_factory=set)
    _asleep: list[tuple[float, ProcessIdentity]] = field(default_factory=list)

    def strike(self, strike: Strike, processes: Sequence[ProcessIdentity]) -> list[ProcessIdentity]:
        """Hit the victims among these processes; gives them back."""
        victims = strike.victims(processes)
        for victim in victims:
            if not _send(victim, _SIGNALS[strike.blow]):
                continue
            self.counts[victim.role, strike.blow] += 1
            if strike.blow is Blow.STOP:
                self._asleep.append((time.monotonic() + strike.stopped_s, victim))
            else:
                self.hit.add(victim)
        return victims

    def wake(self, *, everybody: bool = False) -> None:
        """Let what was stopped go on when its time has come."""
        now = time.monotonic()
        due = [each for each in self._asleep if everybody or each[0] <= now]
        for each in due:
            self._asleep.remove(each)
            _send(each[1], signal.SIGCONT)


def _send(victim: ProcessIdentity, number: signal.Signals) -> bool:
    if started_at(victim.pid) != victim.started:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim.pid, number)
        return True
    return False
