"""Doing units of work on a Dask cluster as Prefect tasks, short ones several to a task, whatever the work is."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic

import dask
from prefect import flow, get_run_logger
from prefect.states import Completed, State
from prefect.task_runners import TaskRunner
from prefect.tasks import Task
from prefect_dask import DaskTaskRunner

from flows.clusters.connection import Connection
from flows.clusters.dask_cluster import dask_cluster
from flows.clusters.needs import Needs
from flows.clusters.settings import ClusterSettings
from flows.clusters.workers import at_the_same_time, resources_of
from flows.gather import Bundle, Future, Gather, O, U, WorkerLostError, Workplace
from flows.interruption import heeded
from flows.runs.result import IncompleteError

PATIENCE_S = 60.0  # for a network file system that shows this machine what was there a moment ago
_LOOK_EVERY_S = 2.0


@dataclass(frozen=True)
class KindOfWork(Generic[U, O]):
    """What there is to know of units of work.

    Attributes:
        name: of the flow in which their tasks are.
        task: does the units of a bundle, see :func:`flows.in_turn.do_in_turn`.
        needs: what a unit needs of a worker, in Dask's resources.
        cost_s: CPU-seconds that it is expected to take; infinity for what always goes alone.
        left: the outcomes of a unit whose worker died after it had ended; None where it is not known to have.
        lost: the outcomes of a unit whose worker could not tell them, with why it could not.
        doubts: of the outcomes that workers have told, those of which this process does not find what is said to be
            done, with why they do not stand.
        describe: an outcome as a line of a log.
        admit: a block in which only workers that can do the work do it; raises ClusterError where one cannot, and
            tells the function in a line of one that joins later.
    """

    name: str
    task: Task[[Bundle[U]], State]
    needs: Callable[[U], Mapping[str, float]]
    cost_s: Callable[[U], float]
    left: Callable[[U], Sequence[O] | None]
    lost: Callable[[U, str], Sequence[O]]
    doubts: Callable[[Sequence[O]], Mapping[O, str]]
    describe: Callable[[O], str]
    admit: Callable[[Connection, Sequence[U], Callable[[str], None]], AbstractContextManager[None]]


# What the flow does. Not its parameters: all the work would be written to the server's database. Nor a closure: Prefect
# sends the flow along with every task, so every task would carry all the work.
_job: ContextVar[Callable[[], list[Any]]] = ContextVar("job")


def _do_job() -> State:
    outcomes = _job.get()()
    return Completed(message=f"{len(outcomes)} attempted", data=outcomes)


def do_on_cluster(
    work: Sequence[U],
    cluster: ClusterSettings,
    kind: KindOfWork[U, O],
    finished: Callable[[O], None],
    warn: Callable[[str], None],
) -> list[O]:
    """Do the work on a cluster and give back what came of it, in the order of its ending.

    See :class:`flows.gather.Gather` for the order, and for what is tried again.

    Args:
        work: in the order in which it should begin.
        cluster: what to run on.
        kind: what there is to know of it.
        finished: told of every outcome that stands.
        warn: told, from another thread, of workers that joined while the run goes on and take no work.

    Raises:
        ClusterError: the cluster cannot do this work; nothing of it was started.
    """
    if not work:
        return []
    needs = [kind.needs(unit) for unit in work]
    with dask_cluster(cluster, needs) as connection, kind.admit(connection, work, warn):
        there = resources_of(cluster, connection)

        def do() -> list[O]:
            logger = get_run_logger()

            def settled(outcome: O) -> None:
                logger.info("%s", kind.describe(outcome))
                finished(outcome)

            with heeded():
                return Gather(PrefectTasks(kind, settled, there)).run(work)

        runner: TaskRunner[Any] = DaskTaskRunner(address=connection.address, client_kwargs=connection.options)
        do_job = flow(name=kind.name, task_runner=runner, persist_result=False)(_do_job)
        token = _job.set(do)
        try:
            state = do_job(return_state=True)
        finally:
            _job.reset(token)
    outcomes = result_of(state)
    if isinstance(outcomes, BaseException):  # the gathering itself broke: no outcome says why, this does
        raise outcomes
    return list(outcomes)


@dataclass(frozen=True)
class PrefectTasks(Workplace[U, O]):
    """Units of work as Prefect tasks, which Dask's workers do.

    Attributes:
        work: what there is to know of them.
        tell: told of every outcome that stands.
        there: the resources of all workers together.
        patience: until when outcomes that are in doubt are looked at again; begins with the first that is.
    """

    work: KindOfWork[U, O]
    tell: Callable[[O], None]
    there: Needs
    patience: list[float] = field(default_factory=list)

    def kind(self, unit: U) -> Hashable:
        """Which workers can do it: by what it needs of one."""
        return tuple(sorted(self.work.needs(unit).items()))

    def cost_s(self, unit: U) -> float:
        """What it is expected to take."""
        return self.work.cost_s(unit)

    def workers(self, unit: U) -> int:
        """How many such units the cluster does at the same time."""
        return at_the_same_time(self.there, self.work.needs(unit))

    def submit(self, bundle: Bundle[U], rank: int) -> Future:
        """Hand it to Dask, which begins what waits for a worker in the order of the ranks."""
        with dask.annotate(resources=dict(self.work.needs(bundle.units[0])), priority=-rank):
            return self.work.task.submit(bundle)

    def read(self, future: Any, bundle: Bundle[U]) -> Sequence[Sequence[O]]:
        """What a finished future says; of what it cannot say, what was left behind."""
        try:
            future.wait()
        except Exception as error:  # KilledWorker, or what else Dask raises for a task that it gave up
            raise WorkerLostError from error
        state = future.state
        if not state.is_final():  # Dask gave the task up: nobody was left to say how it ended
            raise WorkerLostError
        ended = result_of(state)
        if isinstance(ended, tuple) and len(ended) == len(bundle.units):
            doubts = self._doubts([outcome for of_it in ended if not isinstance(of_it, str) for outcome in of_it])
            return [self._standing(unit, of_it, doubts) for unit, of_it in zip(bundle.units, ended, strict=True)]
        if len(bundle.units) > 1:  # it ended in the middle of one of them: alone each will say what became of it
            raise WorkerLostError
        lost = f"the task ended as {state.name}, and what came of it was lost with its worker"
        why = lost if state.is_completed() else f"the task ended as {state.name}: {state.message}"
        return [self.work.lost(unit, why) for unit in bundle.units]

    def _doubts(self, outcomes: Sequence[O]) -> Mapping[O, str]:
        """Those of the outcomes that do not stand; waits once in a run for what may only be late to be seen."""
        doubts = self.work.doubts(outcomes)
        if doubts and not self.patience:
            self.patience.append(time.monotonic() + PATIENCE_S)
        while doubts and time.monotonic() < self.patience[0]:
            time.sleep(_LOOK_EVERY_S)
            doubts = self.work.doubts(tuple(doubts))
        return doubts

    def _standing(self, unit: U, told: Sequence[O] | str, doubts: Mapping[O, str]) -> Sequence[O]:
        """The outcomes of a unit: as its worker told them, or as this process finds them where it did not or cannot."""
        why = told if isinstance(told, str) else next((doubts[outcome] for outcome in told if outcome in doubts), "")
        return self.work.lost(unit, why) if isinstance(told, str) or why else told

    def left(self, unit: U) -> Sequence[O] | None:
        """What the unit has left behind, where that is all of it."""
        return self.work.left(unit)

    def lost(self, unit: U) -> Sequence[O]:
        """What is known of a unit whose workers all died."""
        return self.work.lost(
            unit,
            "every worker that tried it died, also when it ran alone (out of memory, or longer than a job may run?)",
        )

    def finished(self, outcome: O) -> None:
        """Tell whoever watches the run of the outcome."""
        self.tell(outcome)


def result_of(state: State) -> Any:
    """The data of a state of this process, whatever the state's type."""
    data = getattr(state.data, "result", state.data)
    return data.result if isinstance(data, IncompleteError) else data
