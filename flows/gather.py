"""Giving out the work of a run and gathering its outcomes: what waits for what, what is tried again, when all is done.

Knows neither Prefect nor Dask, nor what work is about: a unit says what it makes and what it waits for, and a
workplace does it.
"""

from __future__ import annotations

import heapq
import queue
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Generic, Protocol, TypeVar

TRIES = 3  # of what failed for a reason that may pass
# Units of one kind that are submitted at the same time. More than any cluster has workers for: none of them waits for
# the next unit; not all there are: each costs the scheduler and a worker some 70 KB as long as it waits there.
AT_ONCE = 256


class Unit(Protocol):
    """A piece of work that is done in one go."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def makes(self) -> Iterable[Hashable]:
        """What is there when it has ended well; it may be what others wait for."""

    @property
    def awaits(self) -> Iterable[Hashable]:
        """What others make, if they are in this run, before it begins."""


class Outcome(Protocol):
    """What came of a unit, or of a part of it."""

    @property
    def transient(self) -> bool:
        """It failed for a reason that may pass."""


U = TypeVar("U", bound=Unit)
O = TypeVar("O", bound=Outcome)  # noqa: E741 - beside U


class Future(Protocol):
    """What a submission gives back."""

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        """Call ``function`` with this future when it has ended."""


class WorkerLostError(Exception):
    """The worker died, and so did every other that was given the same work."""


class Workplace(ABC, Generic[U, O]):
    """Where units of work are done, and where their outcomes go."""

    @abstractmethod
    def kind(self, unit: U) -> Hashable:
        """Which workers can do it: units of one kind do not take the places of another's."""

    @abstractmethod
    def submit(self, unit: U, rank: int) -> Future:
        """Have it done; the smaller its rank, the sooner."""

    @abstractmethod
    def read(self, future: Any, unit: U) -> Sequence[O]:
        """The outcomes of a unit that has ended.

        Raises:
            WorkerLostError: nobody is left to tell them.
        """

    @abstractmethod
    def lost(self, unit: U) -> Sequence[O]:
        """The outcomes of a unit whose worker died once more while it ran alone."""

    @abstractmethod
    def finished(self, outcome: O) -> None:
        """An outcome stands: nothing more is tried."""


@dataclass(frozen=True, order=True)
class _Ranked(Generic[U]):
    """A unit of work, its place in the order in which all should begin, and its kind."""

    rank: int
    unit: U = field(compare=False)
    kind: Hashable = field(compare=False)


@dataclass
class Gather(Generic[U, O]):
    """Submits work in the right order and gathers its outcomes; nothing that happens to one unit stops the others.

    Work begins in the order in which it is given, so many units of each kind at once. A unit waits until those that
    make what it ``awaits`` have ended, well or not; what it makes of their failure is its own business. What failed for
    a reason that may pass is tried again when the rest is done. Work whose workers died may be innocent (another task
    in the same process did it), so at the very end each such unit is tried once more, alone.

    Attributes:
        workplace: where the work is done.
        at_once: how many units of a kind are submitted at the same time.
    """

    workplace: Workplace[U, O]
    at_once: int = AT_ONCE
    _ranked: list[_Ranked[U]] = field(default_factory=list)
    _order: TopologicalSorter[int] = field(default_factory=TopologicalSorter)  # of the ranks: what waits for what
    _ready: dict[Hashable, list[_Ranked[U]]] = field(default_factory=lambda: defaultdict(list))  # a heap for each kind
    _running: Counter[Hashable] = field(default_factory=Counter)
    _ended: queue.SimpleQueue[tuple[Future, _Ranked[U]]] = field(default_factory=queue.SimpleQueue)
    _tries: Counter[int] = field(default_factory=Counter)
    _again: list[_Ranked[U]] = field(default_factory=list)
    _suspects: list[_Ranked[U]] = field(default_factory=list)
    _outcomes: list[O] = field(default_factory=list)

    def run(self, work: Iterable[U]) -> list[O]:
        """The outcomes of all the work, in the order in which they came to stand.

        Raises:
            ValueError: units wait for each other, so none of them could ever begin; nothing was submitted.
        """
        self._ranked = [_Ranked(rank, unit, self.workplace.kind(unit)) for rank, unit in enumerate(work)]
        self._order = TopologicalSorter(_awaited(self._ranked))
        try:
            self._order.prepare()
        except CycleError as error:
            names = ", ".join(self._ranked[rank].unit.name for rank in error.args[1][1:])
            raise ValueError(f"these wait for each other, so none of them can begin: {names}") from None
        self._put_what_waits_no_more()
        self._drain()
        while self._again or self._suspects:
            if self._again:
                self._put_again()
            else:
                self._try_alone(self._suspects.pop(0))
            self._drain()
        return self._outcomes

    def _put_what_waits_no_more(self) -> None:
        for rank in self._order.get_ready():
            self._put(self._ranked[rank])

    def _put_again(self) -> None:
        again, self._again = self._again, []
        for each in again:
            self._put(each)

    def _put(self, each: _Ranked[U]) -> None:
        """Put it where it waits for a free place; nothing else keeps it from beginning."""
        heapq.heappush(self._ready[each.kind], each)

    def _keep_busy(self) -> bool:
        """Submit as many units as there is room for; returns whether any runs."""
        for kind, ready in self._ready.items():
            while ready and self._running[kind] < self.at_once:
                self._submit(heapq.heappop(ready))
        return self._running.total() > 0

    def _submit(self, each: _Ranked[U]) -> None:
        self._running[each.kind] += 1
        self._tries[each.rank] += 1
        submitted = self.workplace.submit(each.unit, each.rank)
        submitted.add_done_callback(lambda future: self._ended.put((future, each)))

    def _next(self) -> tuple[Future, _Ranked[U]]:
        """Wait until one of the submitted units has ended, and give it back with its future."""
        future, each = self._ended.get()
        self._running[each.kind] -= 1
        return future, each

    def _drain(self) -> None:
        """Submit and read units until nothing runs any more."""
        while self._keep_busy():
            future, each = self._next()
            try:
                outcomes = self.workplace.read(future, each.unit)
            except WorkerLostError:
                self._suspects.append(each)
                continue
            if self._tries[each.rank] < TRIES and any(outcome.transient for outcome in outcomes):
                self._again.append(each)  # whatever of it is done is skipped then
                continue
            self._settle(each, outcomes)

    def _try_alone(self, suspect: _Ranked[U]) -> None:
        self._submit(suspect)
        future, each = self._next()
        try:
            outcomes = self.workplace.read(future, each.unit)
        except WorkerLostError:
            outcomes = self.workplace.lost(each.unit)
        self._settle(each, outcomes)

    def _settle(self, each: _Ranked[U], outcomes: Sequence[O]) -> None:
        for outcome in outcomes:
            self._outcomes.append(outcome)
            self.workplace.finished(outcome)
        self._order.done(each.rank)
        self._put_what_waits_no_more()


def _awaited(ranked: Sequence[_Ranked[Any]]) -> Mapping[int, set[int]]:
    """By rank, the ranks of the units that it waits for; of what is not in this run there are none."""
    making: dict[Hashable, list[int]] = defaultdict(list)
    for each in ranked:
        for made in each.unit.makes:
            making[made].append(each.rank)
    return {each.rank: {rank for made in each.unit.awaits for rank in making.get(made, ())} for each in ranked}
