"""Giving out the units of a run and gathering their outcomes: what waits for what, and what is tried again.

Knows neither Prefect nor Dask, nor what a unit is about. An executor does the units: on a cluster
(:class:`flows.on_cluster.ClusterExecutor`) or in this process (:class:`flows.in_process.InThisProcess`). Prefect's own
``wait_for=[allow_failure(…)]`` ends as NotReady on Dask, so units are submitted here when what they wait for has ended.
"""

from __future__ import annotations

import heapq
import queue
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Generic, Protocol, TypeVar

TRIES = 3  # of a unit that failed for a reason that may pass
# Seconds before its second and its third try: a file server that restarts is away for about a minute.
PAUSES_S = (10.0, 60.0)
# Tasks of one kind that are submitted at the same time. More than any cluster has workers, so that none of them waits
# for its next task; not all of them, because each costs the scheduler and a worker some 70 KB while it waits.
AT_ONCE = 256
# CPU-seconds that a task should be worth, so that giving it out costs less than one percent of it.
WORTH_S = 20.0
UNKNOWN_S = 2.5  # CPU-seconds of a unit whose cost nothing says: few of them go together
MOST = 200  # units of a task, however little they cost: their cost is a guess
PARTS = 4  # as many tasks for each worker, where there is less to do than would fill tasks for all of them


class Outcome(Protocol):
    """What came of a unit, or of a part of it. As text it is a line of a log."""

    @property
    def failed(self) -> bool:
        """It gave nothing."""

    @property
    def transient(self) -> bool:
        """It failed for a reason that may pass."""


O = TypeVar("O", bound=Outcome)  # noqa: E741 - an outcome; one letter, as type variables are
O_co = TypeVar("O_co", bound=Outcome, covariant=True)


class Unit(Protocol[O_co]):
    """What is done in one go, by one worker."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def makes(self) -> Iterable[Hashable]:
        """What exists when it has ended well; other units may wait for it."""

    @property
    def awaits(self) -> Iterable[Hashable]:
        """What other units of this run make before this one begins."""

    @property
    def needs(self) -> Mapping[str, float]:
        """What it needs of a worker, in Dask's resources; units with the same needs are of one kind."""

    @property
    def cost(self) -> float:
        """CPU-seconds that it is expected to take; 0 where nothing says, infinity for a unit that always goes alone."""

    def do(self) -> Sequence[O_co]:
        """Do it; runs in a worker. What it raises is this unit's fault alone."""

    def left_behind(self) -> Sequence[O_co] | None:
        """Its outcomes, where its worker died after it had ended; None where it is not known to have ended."""

    def apart(self) -> Sequence[Unit[O_co]]:
        """What it is done in where its worker died, one after the other, so that not all of it is lost again."""

    def lost(self, reason: str) -> Sequence[O_co]:
        """Its outcomes, where its worker could not say them, for this reason."""


class Bundle(Generic[O]):
    """Units that go to one worker, which does them one after the other.

    Not a dataclass: Prefect looks into those, field by field, whenever a task is submitted.
    """

    def __init__(self, units: Iterable[Unit[O]]) -> None:
        self.units = tuple(units)

    @property
    def name(self) -> str:
        """The first unit's name and how many more there are."""
        more = len(self.units) - 1
        return f"{self.units[0].name} and {more} more" if more else self.units[0].name


class Future(Protocol):
    """What a submission gives back."""

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        """Call ``function`` with this future when it has ended."""


class WorkerLostError(Exception):
    """The worker died, and so did every other that was given the same units.

    With a text where a unit that was alone need not be tried again; it says why.
    """


class Executor(ABC, Generic[O]):
    """Does bundles of units.

    Attributes:
        worth_s: CPU-seconds that a bundle should be worth, so that giving it out costs little of it.
    """

    worth_s = WORTH_S

    def kind_of(self, needs: Mapping[str, float]) -> Hashable:
        """Units of the same kind wait for the same workers."""
        return tuple(sorted(needs.items()))

    @abstractmethod
    def capacity(self, needs: Mapping[str, float]) -> int:
        """How many units with these needs can be done at the same time, at least one."""

    @abstractmethod
    def submit(self, bundle: Bundle[O], rank: int) -> Future:
        """Have a bundle done; the smaller the rank, the sooner."""

    @abstractmethod
    def read(self, future: Any, bundle: Bundle[O]) -> Sequence[Sequence[O]]:
        """The outcomes of each unit of a bundle that has ended.

        Raises:
            WorkerLostError: no worker is left to say them.
        """


@dataclass(frozen=True, order=True, slots=True)
class _Ranked(Generic[O]):
    """A unit, its place in the order in which all should begin, and its kind."""

    rank: int
    unit: Unit[O] = field(compare=False)
    kind: Hashable = field(compare=False)


@dataclass
class Gather(Generic[O]):
    """Submits units in the right order and gathers their outcomes; nothing that happens to one unit stops the others.

    Units begin in the order in which they are given, so many tasks of each kind at once. Short units of one kind go
    several to a task, as many as are worth giving out, but never so many that workers have none (see ``_bundle``). A
    unit waits until those that make what it ``awaits`` have ended, well or not; what their failure means for it, it
    finds out itself. A unit that failed for a reason that may pass is tried again when the rest is done, after a pause.
    A unit whose worker died may be innocent (a neighbour in the same process, or in its own task, killed it), so at the
    very end each such unit is tried once more, alone, and in its parts if it has any.
    """

    executor: Executor[O]  # does the units
    settled: Callable[[O], None] = lambda _: None  # called with every outcome that is final
    at_once: int = AT_ONCE  # how many tasks of a kind are submitted at the same time
    warn: Callable[[str], None] = lambda _: None  # called with a line where the run waits
    sleep: Callable[[float], None] = time.sleep  # waits so many seconds
    _ranked: list[_Ranked[O]] = field(default_factory=list)
    _order: TopologicalSorter[int] = field(default_factory=TopologicalSorter)  # of the ranks: what waits for what
    _ready: dict[Hashable, list[_Ranked[O]]] = field(default_factory=lambda: defaultdict(list))  # a heap for each kind
    _tasks: Counter[Hashable] = field(default_factory=Counter)  # that are submitted and have not ended
    _units: Counter[Hashable] = field(default_factory=Counter)  # in them
    _ended: queue.SimpleQueue[tuple[Future, list[_Ranked[O]]]] = field(default_factory=queue.SimpleQueue)
    _tries: Counter[int] = field(default_factory=Counter)
    _again: list[_Ranked[O]] = field(default_factory=list)
    _suspects: deque[_Ranked[O]] = field(default_factory=deque)
    _outcomes: list[O] = field(default_factory=list)

    def run(self, units: Iterable[Unit[O]]) -> list[O]:
        """The outcomes of all units, in the order in which they became final.

        Raises:
            ValueError: units wait for each other, so none of them could ever begin; nothing was submitted.
        """
        self._ranked = [_Ranked(rank, unit, self.executor.kind_of(unit.needs)) for rank, unit in enumerate(units)]
        self._order = _order_of(self._ranked)
        try:
            self._order.prepare()
        except CycleError as error:
            names = ", ".join(self._ranked[rank].unit.name for rank in error.args[1][1:])
            raise ValueError(f"these wait for each other, so none of them can begin: {names}") from None
        self._queue_unblocked()
        self._drain()
        while self._again or self._suspects:
            if self._again:
                again, self._again = self._again, []
                pause_s = max(PAUSES_S[self._tries[ranked.rank] - 1] for ranked in again)
                named = f"{again[0].unit.name}" + (f" and {len(again) - 1} more" if len(again) > 1 else "")
                self.warn(f"{named} failed for a reason that may pass: trying again in {pause_s:.0f} s")
                self.sleep(pause_s)
                for ranked in again:
                    self._queue(ranked)
            else:
                self._try_alone(self._suspects.popleft())
            self._drain()
        return self._outcomes

    def _queue_unblocked(self) -> None:
        """Queue the units that wait for nothing any more."""
        for rank in self._order.get_ready():
            self._queue(self._ranked[rank])

    def _queue(self, ranked: _Ranked[O]) -> None:
        heapq.heappush(self._ready[ranked.kind], ranked)

    def _keep_busy(self) -> bool:
        """Submit as many tasks as there is room for; returns whether any runs."""
        for kind, ready in self._ready.items():
            while ready and self._has_room(kind, ready[0].unit):
                self._submit(self._bundle(kind, ready))
        return self._tasks.total() > 0

    def _has_room(self, kind: Hashable, unit: Unit[O]) -> bool:
        """As many units may be submitted as tasks, or tasks enough that no worker has to wait for its next."""
        tasks, units = self._tasks[kind], self._units[kind]
        return tasks < self.at_once and (units < self.at_once or tasks < 2 * self.executor.capacity(unit.needs))

    def _bundle(self, kind: Hashable, ready: list[_Ranked[O]]) -> list[_Ranked[O]]:
        """The next units that go to one worker, the first in the order of those that are ready.

        They are worth the executor's ``worth_s``, by their expected costs, and no more than each worker's share of the
        units in ``PARTS`` parts.
        """
        share = (len(ready) + self._units[kind]) // (PARTS * self.executor.capacity(ready[0].unit.needs))
        together = [heapq.heappop(ready)]
        worth_s = together[0].unit.cost or UNKNOWN_S
        while ready and len(together) < min(share, MOST):
            worth_s += ready[0].unit.cost or UNKNOWN_S
            if worth_s > self.executor.worth_s:
                break
            together.append(heapq.heappop(ready))
        return together

    def _submit(self, together: list[_Ranked[O]]) -> None:
        first = together[0]
        self._tasks[first.kind] += 1
        self._units[first.kind] += len(together)
        self._tries.update(ranked.rank for ranked in together)
        submitted = self.executor.submit(_as_bundle(together), first.rank)
        submitted.add_done_callback(lambda future: self._ended.put((future, together)))

    def _next_ended(self) -> tuple[Future, list[_Ranked[O]]]:
        """Wait until one of the submitted tasks has ended; its future and its units."""
        future, together = self._ended.get()
        self._tasks[together[0].kind] -= 1
        self._units[together[0].kind] -= len(together)
        return future, together

    def _drain(self) -> None:
        """Submit and read tasks until nothing runs any more."""
        while self._keep_busy():
            future, together = self._next_ended()
            try:
                outcomes = self.executor.read(future, _as_bundle(together))
            except WorkerLostError as lost:
                if len(together) == 1 and str(lost):
                    self._settle(together[0], together[0].unit.lost(str(lost)))
                else:
                    self._suspect(together)
                continue
            del future  # Dask would do it again if its worker died now
            for ranked, of_unit in zip(together, outcomes, strict=True):
                if self._tries[ranked.rank] < TRIES and any(outcome.transient for outcome in of_unit):
                    self._again.append(ranked)  # what of it is done is skipped then
                else:
                    self._settle(ranked, of_unit)

    def _suspect(self, together: list[_Ranked[O]]) -> None:
        """Settle what had ended before the worker died; the others are tried alone at the end."""
        for ranked in together:
            outcomes = ranked.unit.left_behind()
            if outcomes is None:
                self._suspects.append(ranked)
            else:
                self._settle(ranked, outcomes)

    def _try_alone(self, suspect: _Ranked[O]) -> None:
        outcomes: list[O] = []
        for unit in suspect.unit.apart():
            self._submit([_Ranked(suspect.rank, unit, suspect.kind)])
            future, together = self._next_ended()
            try:
                (of_part,) = self.executor.read(future, _as_bundle(together))
            except WorkerLostError as lost:
                died = (
                    "every worker that tried it died, also when it ran alone (out of memory, or longer than a job may "
                    "run?)"
                )
                of_part = unit.lost(str(lost) or died)
            outcomes += of_part
        self._settle(suspect, outcomes)

    def _settle(self, ranked: _Ranked[O], outcomes: Sequence[O]) -> None:
        for outcome in outcomes:
            self._outcomes.append(outcome)
            self.settled(outcome)
        self._order.done(ranked.rank)
        self._queue_unblocked()


def _as_bundle(together: Iterable[_Ranked[O]]) -> Bundle[O]:
    return Bundle(ranked.unit for ranked in together)


def _order_of(ranked_units: Sequence[_Ranked[Any]]) -> TopologicalSorter[int]:
    """The ranks, each after those of the units that it waits for; what is not in this run is not waited for."""
    awaited = {made for ranked in ranked_units for made in ranked.unit.awaits}
    makers: dict[Hashable, list[int]] = defaultdict(list)
    for ranked in ranked_units:
        for made in ranked.unit.makes:
            if made in awaited:
                makers[made].append(ranked.rank)
    order: TopologicalSorter[int] = TopologicalSorter()
    for ranked in ranked_units:
        order.add(ranked.rank, *{rank for made in ranked.unit.awaits for rank in makers.get(made, ())})
    return order
