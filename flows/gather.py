"""Keeping the work of a run going: what waits for what, what is tried again, and when nothing is left.

Knows neither Prefect nor Dask: it is given a way to submit a unit of work and a way to read what came of it.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tasks.extract import Outcome, Work
from tasks.plan import CLOCK

TRIES = 3  # of what failed for a reason that may pass


class Future(Protocol):
    """What a submission gives back."""

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        """Call ``function`` with this future when it has ended."""


class WorkerLostError(Exception):
    """The worker died, and so did every other that was given the same work."""


@dataclass
class Gather:
    """Submits work in the right order and gathers its outcomes; nothing that happens to one unit stops the others.

    A session's clock comes first: its other features need it and are submitted when it has ended, well or not. What
    failed for a reason that may pass is tried again when the rest is done. Work whose workers died may be innocent
    (another task in the same process did it), so at the very end each such unit is tried once more, alone.

    Attributes:
        submit: starts a unit of work.
        read: its outcomes; raises WorkerLostError.
        lost: what to make of a unit whose worker died once more while it ran alone.
        finished: told of every outcome that stands.
    """

    submit: Callable[[Work], Future]
    read: Callable[[Any, Work], Sequence[Outcome]]
    lost: Callable[[Work], Sequence[Outcome]]
    finished: Callable[[Outcome], None]
    _ended: queue.SimpleQueue[tuple[Future, Work]] = field(default_factory=queue.SimpleQueue)
    _running: int = 0
    _waiting: dict[str, list[Work]] = field(default_factory=dict)
    _again: list[Work] = field(default_factory=list)
    _suspects: list[Work] = field(default_factory=list)
    _outcomes: list[Outcome] = field(default_factory=list)

    def run(self, work: Iterable[Work]) -> list[Outcome]:
        """The outcomes of all the work, in the order in which they came to stand."""
        work = list(work)
        self._waiting = {unit.session_id: [] for unit in work if unit.features == (CLOCK,)}
        for unit in work:
            if unit.features != (CLOCK,) and unit.session_id in self._waiting:
                self._waiting[unit.session_id].append(unit)
            else:
                self._start(unit)
        self._drain(last_try=False)
        for number in range(1, TRIES):
            again, self._again = self._again, []
            for unit in again:
                self._start(unit)
            self._drain(last_try=number == TRIES - 1)
        self._clear_suspects()
        return self._outcomes

    def _start(self, unit: Work) -> None:
        self._running += 1
        self.submit(unit).add_done_callback(lambda future: self._ended.put((future, unit)))

    def _drain(self, *, last_try: bool) -> None:
        """Until nothing runs any more."""
        while self._running:
            future, unit = self._ended.get()
            self._running -= 1
            try:
                outcomes = self.read(future, unit)
            except WorkerLostError:
                self._suspects.append(unit)
                continue
            if not last_try and any(outcome.transient for outcome in outcomes):
                self._again.append(unit)  # whatever of it is done is skipped then
                continue
            self._settle(unit, outcomes)

    def _clear_suspects(self) -> None:
        while self._suspects:
            unit = self._suspects.pop(0)
            self._start(unit)
            future, _ = self._ended.get()
            self._running -= 1
            try:
                outcomes = self.read(future, unit)
            except WorkerLostError:
                outcomes = self.lost(unit)
            self._settle(unit, outcomes)
            self._drain(last_try=True)  # what had waited for this session's clock

    def _settle(self, unit: Work, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._outcomes.append(outcome)
            self.finished(outcome)
        if unit.features == (CLOCK,):
            for dependent in self._waiting.pop(unit.session_id, []):
                self._start(dependent)
