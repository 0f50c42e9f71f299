"""Giving out the work of a run and gathering its outcomes: what waits for what, what is tried again, when all is done.

Knows neither Prefect nor Dask, nor what work is about: a unit says what it makes and what it waits for, and a
workplace does it.
"""

from __future__ import annotations

import heapq
import queue
from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Generic, Protocol, TypeVar

TRIES = 3  # of what failed for a reason that may pass
# Tasks of one kind that are submitted at the same time. More than any cluster has workers for: none of them waits for
# the next task; not all there are: each costs the scheduler and a worker some 70 KB as long as it waits there.
AT_ONCE = 256
# What a task should be worth, CPU-seconds: so many that what it costs to give out is below one percent of it.
WORTH_S = 20.0
MOST = 200  # units of a task, however little they cost: what they are expected to cost is a guess
PARTS = 4  # as many tasks for each worker, where there is less to do than would fill tasks for all of them


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


class Bundle(Generic[U]):
    """Units of work that go to one worker, which does them one after the other.

    Not a dataclass: Prefect looks into those, field by field, whenever a task is handed on.
    """

    def __init__(self, units: Iterable[U]) -> None:
        self.units = tuple(units)

    @property
    def name(self) -> str:
        """For whoever looks at the tasks: names of 40 sessions would tell nobody anything."""
        more = len(self.units) - 1
        return f"{self.units[0].name} and {more} more" if more else self.units[0].name


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
    def cost_s(self, unit: U) -> float:
        """CPU-seconds that it is expected to take; infinity for one that always goes alone."""

    @abstractmethod
    def workers(self, unit: U) -> int:
        """How many units of its kind can be done at the same time, at least one."""

    @abstractmethod
    def submit(self, bundle: Bundle[U], rank: int) -> Future:
        """Have it done; the smaller the rank, the sooner."""

    @abstractmethod
    def read(self, future: Any, bundle: Bundle[U]) -> Sequence[Sequence[O]]:
        """Of each of the units of a bundle that has ended, its outcomes.

        Raises:
            WorkerLostError: nobody is left to tell them.
        """

    @abstractmethod
    def left(self, unit: U) -> Sequence[O] | None:
        """The outcomes of a unit whose worker died, where it had ended before; None where it is not known to have."""

    @abstractmethod
    def lost(self, unit: U) -> Sequence[O]:
        """The outcomes of a unit whose worker died once more while it ran alone."""

    @abstractmethod
    def finished(self, outcome: O) -> None:
        """An outcome stands: nothing more is tried."""


@dataclass(frozen=True, order=True, slots=True)
class _Ranked(Generic[U]):
    """A unit of work, its place in the order in which all should begin, and its kind."""

    rank: int
    unit: U = field(compare=False)
    kind: Hashable = field(compare=False)


@dataclass
class Gather(Generic[U, O]):
    """Submits work in the right order and gathers its outcomes; nothing that happens to one unit stops the others.

    Work begins in the order in which it is given, so many tasks of each kind at once. Short units of one kind go
    several to a task, as many as are worth giving out, but never so many that workers have none (see ``_together``). A
    unit waits until those that make what it ``awaits`` have ended, well or not; what it makes of their failure is its
    own business. What failed for a reason that may pass is tried again when the rest is done. Work whose workers died
    may be innocent (another task in the same process did it, or a neighbour in its own), so at the very end each such
    unit is tried once more, alone.

    Attributes:
        workplace: where the work is done.
        at_once: how many tasks of a kind are submitted at the same time.
    """

    workplace: Workplace[U, O]
    at_once: int = AT_ONCE
    _ranked: list[_Ranked[U]] = field(default_factory=list)
    _order: TopologicalSorter[int] = field(default_factory=TopologicalSorter)  # of the ranks: what waits for what
    _ready: dict[Hashable, list[_Ranked[U]]] = field(default_factory=lambda: defaultdict(list))  # a heap for each kind
    _tasks: Counter[Hashable] = field(default_factory=Counter)  # that are submitted and have not ended
    _units: Counter[Hashable] = field(default_factory=Counter)  # in them
    _ended: queue.SimpleQueue[tuple[Future, list[_Ranked[U]]]] = field(default_factory=queue.SimpleQueue)
    _tries: Counter[int] = field(default_factory=Counter)
    _again: list[_Ranked[U]] = field(default_factory=list)
    _suspects: deque[_Ranked[U]] = field(default_factory=deque)
    _outcomes: list[O] = field(default_factory=list)

    def run(self, work: Iterable[U]) -> list[O]:
        """The outcomes of all the work, in the order in which they came to stand.

        Raises:
            ValueError: units wait for each other, so none of them could ever begin; nothing was submitted.
        """
        self._ranked = [_Ranked(rank, unit, self.workplace.kind(unit)) for rank, unit in enumerate(work)]
        self._order = _order_of(self._ranked)
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
                self._try_alone(self._suspects.popleft())
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
        """Submit as many tasks as there is room for; returns whether any runs."""
        for kind, ready in self._ready.items():
            while ready and self._has_room(kind, ready[0].unit):
                self._submit(self._together(kind, ready))
        return self._tasks.total() > 0

    def _has_room(self, kind: Hashable, unit: U) -> bool:
        """As many units may be submitted as tasks, or tasks enough that no worker has to wait for its next."""
        tasks, units = self._tasks[kind], self._units[kind]
        return tasks < self.at_once and (units < self.at_once or tasks < 2 * self.workplace.workers(unit))

    def _together(self, kind: Hashable, ready: list[_Ranked[U]]) -> list[_Ranked[U]]:
        """The next units that go to one worker, the first in the order of those that are ready.

        They are worth ``WORTH_S``, as well as that can be told, and no more than each worker's share of what is there
        to do in ``PARTS`` parts.
        """
        share = (len(ready) + self._units[kind]) // (PARTS * self.workplace.workers(ready[0].unit))
        together = [heapq.heappop(ready)]
        worth_s = self.workplace.cost_s(together[0].unit)
        while ready and len(together) < min(share, MOST):
            worth_s += self.workplace.cost_s(ready[0].unit)
            if worth_s > WORTH_S:
                break
            together.append(heapq.heappop(ready))
        return together

    def _submit(self, together: list[_Ranked[U]]) -> None:
        first = together[0]
        self._tasks[first.kind] += 1
        self._units[first.kind] += len(together)
        self._tries.update(each.rank for each in together)
        submitted = self.workplace.submit(_bundle(together), first.rank)
        submitted.add_done_callback(lambda future: self._ended.put((future, together)))

    def _next(self) -> tuple[Future, list[_Ranked[U]]]:
        """Wait until one of the submitted tasks has ended, and give back its units with its future."""
        future, together = self._ended.get()
        self._tasks[together[0].kind] -= 1
        self._units[together[0].kind] -= len(together)
        return future, together

    def _drain(self) -> None:
        """Submit and read tasks until nothing runs any more."""
        while self._keep_busy():
            future, together = self._next()
            try:
                outcomes = self.workplace.read(future, _bundle(together))
            except WorkerLostError:
                self._suspect(together)
                continue
            for each, of_it in zip(together, outcomes, strict=True):
                if self._tries[each.rank] < TRIES and any(outcome.transient for outcome in of_it):
                    self._again.append(each)  # whatever of it is done is skipped then
                else:
                    self._settle(each, of_it)

    def _suspect(self, together: list[_Ranked[U]]) -> None:
        """Settle what had ended before the worker died; what had not, or had not begun, is tried alone at the end."""
        for each in together:
            ended = self.workplace.left(each.unit)
            if ended is None:
                self._suspects.append(each)
            else:
                self._settle(each, ended)

    def _try_alone(self, suspect: _Ranked[U]) -> None:
        self._submit([suspect])
        future, together = self._next()
        try:
            (outcomes,) = self.workplace.read(future, _bundle(together))
        except WorkerLostError:
            outcomes = self.workplace.lost(suspect.unit)
        self._settle(suspect, outcomes)

    def _settle(self, each: _Ranked[U], outcomes: Sequence[O]) -> None:
        for outcome in outcomes:
            self._outcomes.append(outcome)
            self.workplace.finished(outcome)
        self._order.done(each.rank)
        self._put_what_waits_no_more()


def _bundle(together: Iterable[_Ranked[U]]) -> Bundle[U]:
    return Bundle(each.unit for each in together)


def _order_of(ranked: Sequence[_Ranked[Any]]) -> TopologicalSorter[int]:
    """The ranks, each after those of the units that it waits for; what is not in this run is not waited for."""
    awaited = {made for each in ranked for made in each.unit.awaits}
    making: dict[Hashable, list[int]] = defaultdict(list)
    for each in ranked:
        for made in each.unit.makes:
            if made in awaited:
                making[made].append(each.rank)
    order: TopologicalSorter[int] = TopologicalSorter()
    for each in ranked:
        order.add(each.rank, *{rank for made in each.unit.awaits for rank in making.get(made, ())})
    return order
