"""Keeping the work of a run going: what waits for what, what is tried again, and when nothing is left.

Knows neither Prefect nor Dask: it is given a way to submit a unit of work and a way to read what came of it.
"""

from __future__ import annotations

import heapq
import queue
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tasks.extract import Outcome, Work
from tasks.planning.selection import CLOCK

TRIES = 3  # of what failed for a reason that may pass
# Units of one kind that are submitted at the same time. More than any cluster has workers for: none of them waits for
# the next unit; not all there are: each costs the scheduler and a worker some 70 KB as long as it waits there.
AT_ONCE = 256


class Future(Protocol):
    """What a submission gives back."""

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        """Call ``function`` with this future when it has ended."""


class WorkerLostError(Exception):
    """The worker died, and so did every other that was given the same work."""


@dataclass(frozen=True, order=True)
class _Ranked:
    """A unit of work, its place in the order in which all should begin, and its kind."""

    rank: int
    unit: Work = field(compare=False)
    kind: Hashable = field(compare=False)

    @property
    def is_clock(self) -> bool:
        return self.unit.features == (CLOCK,)


@dataclass
class Gather:
    """Submits work in the right order and gathers its outcomes; nothing that happens to one unit stops the others.

    Work begins in the order in which it is given, so many units of each kind at once. A session's clock comes before
    its other features: they need it and are submitted when it has ended, well or not. What failed for a reason that may
    pass is tried again when the rest is done. Work whose workers died may be innocent (another task in the same process
    did it), so at the very end each such unit is tried once more, alone.

    Attributes:
        submit: starts a unit of work; the second argument is its rank, the smaller the sooner.
        read: its outcomes; raises WorkerLostError.
        lost: what to make of a unit whose worker died once more while it ran alone.
        finished: told of every outcome that stands.
        kind: what workers a unit needs: those of one kind do not take the places of another's.
        at_once: how many units of a kind are submitted at the same time.
    """

    submit: Callable[[Work, int], Future]
    read: Callable[[Any, Work], Sequence[Outcome]]
    lost: Callable[[Work], Sequence[Outcome]]
    finished: Callable[[Outcome], None]
    kind: Callable[[Work], Hashable]
    at_once: int = AT_ONCE
    _ready: dict[Hashable, list[_Ranked]] = field(default_factory=lambda: defaultdict(list))  # a heap for each kind
    _running: Counter[Hashable] = field(default_factory=Counter)
    _ended: queue.SimpleQueue[tuple[Future, _Ranked]] = field(default_factory=queue.SimpleQueue)
    _waiting: dict[str, list[_Ranked]] = field(default_factory=dict)  # for their session's clock
    _again: list[_Ranked] = field(default_factory=list)
    _suspects: list[_Ranked] = field(default_factory=list)
    _outcomes: list[Outcome] = field(default_factory=list)

    def run(self, work: Iterable[Work]) -> list[Outcome]:
        """The outcomes of all the work, in the order in which they came to stand."""
        ranked = [_Ranked(rank, unit, self.kind(unit)) for rank, unit in enumerate(work)]
        self._waiting = {each.unit.session_id: [] for each in ranked if each.is_clock}
        for each in ranked:
            if not each.is_clock and each.unit.session_id in self._waiting:
                self._waiting[each.unit.session_id].append(each)
            else:
                self._put(each)
        self._drain(last_try=False)
        for number in range(1, TRIES):
            again, self._again = self._again, []
            for each in again:
                self._put(each)
            self._drain(last_try=number == TRIES - 1)
        self._clear_suspects()
        return self._outcomes

    def _put(self, each: _Ranked) -> None:
        """It may begin."""
        heapq.heappush(self._ready[each.kind], each)

    def _keep_busy(self) -> bool:
        """Submit what there is room for; whether anything runs."""
        for kind, ready in self._ready.items():
            while ready and self._running[kind] < self.at_once:
                self._submit(heapq.heappop(ready))
        return self._running.total() > 0

    def _submit(self, each: _Ranked) -> None:
        self._running[each.kind] += 1
        self.submit(each.unit, each.rank).add_done_callback(lambda future: self._ended.put((future, each)))

    def _next(self) -> tuple[Future, _Ranked]:
        """Wait for one to end."""
        future, each = self._ended.get()
        self._running[each.kind] -= 1
        return future, each

    def _drain(self, *, last_try: bool) -> None:
        """Until nothing runs any more."""
        while self._keep_busy():
            future, each = self._next()
            try:
                outcomes = self.read(future, each.unit)
            except WorkerLostError:
                self._suspects.append(each)
                continue
            if not last_try and any(outcome.transient for outcome in outcomes):
                self._again.append(each)  # whatever of it is done is skipped then
                continue
            self._settle(each, outcomes)

    def _clear_suspects(self) -> None:
        while self._suspects:
            self._submit(self._suspects.pop(0))
            future, each = self._next()
            try:
                outcomes = self.read(future, each.unit)
            except WorkerLostError:
                outcomes = self.lost(each.unit)
            self._settle(each, outcomes)
            self._drain(last_try=True)  # what had waited for this session's clock

    def _settle(self, each: _Ranked, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._outcomes.append(outcome)
            self.finished(outcome)
        if each.is_clock:
            for dependent in self._waiting.pop(each.unit.session_id, []):
                self._put(dependent)
