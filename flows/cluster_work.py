"""Doing units of work on a Dask cluster as Prefect tasks, short ones several to a task, whatever the work is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
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
        describe: an outcome as a line of a log.
        check: raises ClusterError where the workers cannot do the work.
    """

    name: str
    task: Task[[Bundle[U]], State]
    needs: Callable[[U], Mapping[str, float]]
    cost_s: Callable[[U], float]
    left: Callable[[U], Sequence[O] | None]
    lost: Callable[[U, str], Sequence[O]]
    describe: Callable[[O], str]
    check: Callable[[Connection, Sequence[U]], None]


# What the flow does. Not its parameters: all the work would be written to the server's database. Nor a closure: Prefect
# sends the flow along with every task, so every task would carry all the work.
_job: ContextVar[Callable[[], list[Any]]] = ContextVar("job")


def _do_job() -> State:
    outcomes = _job.get()()
    return Completed(message=f"{len(outcomes)} attempted", data=outcomes)


def do_on_cluster(
    work: Sequence[U], cluster: ClusterSettings, kind: KindOfWork[U, O], finished: Callable[[O], None]
) -> list[O]:
    """Do the work on a cluster and give back what came of it, in the order of its ending.

    See :class:`flows.gather.Gather` for the order, and for what is tried again.

    Args:
        work: in the order in which it should begin.
        cluster: what to run on.
        kind: what there is to know of it.
        finished: told of every outcome that stands.

    Raises:
        ClusterError: the cluster cannot do this work; nothing of it was started.
    """
    if not work:
        return []
    with dask_cluster(cluster, [kind.needs(unit) for unit in work]) as connection:
        kind.check(connection, work)
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
    """

    work: KindOfWork[U, O]
    tell: Callable[[O], None]
    there: Needs

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
            return [
                self.work.lost(unit, of_it) if isinstance(of_it, str) else of_it
                for unit, of_it in zip(bundle.units, ended, strict=True)
            ]
        if len(bundle.units) > 1:  # it ended in the middle of one of them: alone each will say what became of it
            raise WorkerLostError
        lost = f"the task ended as {state.name}, and what came of it was lost with its worker"
        why = lost if state.is_completed() else f"the task ended as {state.name}: {state.message}"
        return [self.work.lost(unit, why) for unit in bundle.units]

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
