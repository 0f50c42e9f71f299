"""Doing planned work on a Dask cluster: one Prefect task per session and feature, or features that share a pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import dask
from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State
from prefect.task_runners import TaskRunner
from prefect.tasks import Task
from prefect_dask import DaskTaskRunner

from flows.clusters.dask_cluster import dask_cluster
from flows.clusters.preflight import check_workers
from flows.clusters.settings import ClusterSettings
from flows.gather import Future, Gather, WorkerLostError, Workplace
from flows.interruption import heeded
from flows.runs.result import IncompleteError
from storyframes.store.location import open_storage
from storyframes.store.records import Status
from tasks.extract import Outcome, Work, extract, not_done, published
from tasks.extractors.registry import build_extractor


@task(name="extract", task_run_name="{work.name}", cache_policy=NO_CACHE)
def extract_task(work: Work) -> State:
    """One unit of work; the state tells the truth, its data is the small outcomes."""
    logger = get_run_logger()
    logger.info("%s: started", work.name)
    outcomes = extract(work)
    for outcome in outcomes:
        logger.info("%s", describe(outcome))
    message = "; ".join(outcome.reason or f"{outcome.feature}: {outcome.rows} rows" for outcome in outcomes)
    if any(outcome.status is Status.FAILED for outcome in outcomes):
        return Failed(message=message, data=outcomes)
    return Completed(message=message, data=outcomes)


def describe(outcome: Outcome) -> str:
    """An outcome as a line of a log: its session, its feature and what came of it."""
    name = f"{outcome.session_id}/{outcome.feature}"
    if outcome.status is Status.DONE:
        return f"{name}: done, {outcome.rows} rows in {outcome.seconds:.1f} s"
    return f"{name}: {outcome.status}: {outcome.reason}"


# What the flow does. Not its parameters: all the work would be written to the server's database. Nor a closure: Prefect
# sends the flow along with every task, so every task would carry all the work.
_job: ContextVar[Callable[[], list[Outcome]]] = ContextVar("job")


def _do_job() -> State:
    outcomes = _job.get()()
    return Completed(message=f"{len(outcomes)} features attempted", data=outcomes)


def do_work(
    work: Sequence[Work],
    cluster: ClusterSettings,
    finished: Callable[[Outcome], None],
    extract_one: Task[[Work], State] = extract_task,
) -> list[Outcome]:
    """Do the work on a cluster and give back what came of it, in the order of its ending.

    See :class:`flows.gather.Gather` for the order, and for what is tried again.

    Args:
        work: from planning, in the order in which it should begin.
        cluster: what to run on.
        finished: told of every outcome that stands.
        extract_one: the task that does one unit of work.

    Raises:
        ClusterError: the cluster cannot do this work; nothing of it was started.
    """
    if not work:
        return []
    with dask_cluster(cluster, [needs_of(unit) for unit in work]) as connection:
        check_workers(connection, work)

        def do() -> list[Outcome]:
            logger = get_run_logger()

            def settled(outcome: Outcome) -> None:
                logger.info("%s", describe(outcome))
                finished(outcome)

            with heeded():
                return Gather(PrefectTasks(extract_one, settled)).run(work)

        runner: TaskRunner[Any] = DaskTaskRunner(address=connection.address, client_kwargs=connection.options)
        do_job = flow(name="extract-features", task_runner=runner, persist_result=False)(_do_job)
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
class PrefectTasks(Workplace):
    """Units of work as Prefect tasks, which Dask's workers do.

    Attributes:
        extract_one: the task that does one unit of work.
        tell: told of every outcome that stands.
    """

    extract_one: Task[[Work], State]
    tell: Callable[[Outcome], None]

    def kind(self, unit: Work) -> Hashable:
        """Which workers can do it: by what it needs of one."""
        return tuple(sorted(needs_of(unit).items()))

    def submit(self, unit: Work, rank: int) -> Future:
        """Hand it to Dask, which begins what waits for a worker in the order of the ranks."""
        with dask.annotate(resources=dict(needs_of(unit)), priority=-rank):
            return self.extract_one.submit(unit)

    def read(self, future: Any, unit: Work) -> Sequence[Outcome]:
        """What a finished future says; of one that cannot say it, what the store says."""
        try:
            future.wait()
        except Exception as error:  # KilledWorker, or what else Dask raises for a task that it gave up
            raise WorkerLostError from error
        state = future.state
        if not state.is_final():  # Dask gave the task up: nobody was left to say how it ended
            raise WorkerLostError
        outcomes = result_of(state)
        if isinstance(outcomes, tuple):
            return outcomes
        lost = f"the task ended as {state.name}, and what came of it was lost with its worker"
        return _as_stored(unit, lost if state.is_completed() else f"the task ended as {state.name}: {state.message}")

    def lost(self, unit: Work) -> Sequence[Outcome]:
        """What the store says of a unit whose workers all died."""
        return _as_stored(
            unit,
            "every worker that tried it died, also when it ran alone (out of memory, or longer than a job may run?)",
        )

    def finished(self, outcome: Outcome) -> None:
        """Tell whoever watches the run of the outcome."""
        self.tell(outcome)


def needs_of(unit: Work) -> Mapping[str, float]:
    """The most that any of its features needs: they run one after the other, frame by frame."""
    needs: dict[str, float] = {}
    for feature in unit.features:
        extractor = build_extractor(unit.settings, unit.session_id, feature)
        for resource, amount in extractor.needs.items():
            needs[resource] = max(amount, needs.get(resource, 0))
    return needs


def _as_stored(unit: Work, reason: str) -> Sequence[Outcome]:
    """The outcomes of work whose worker could not tell them: the store knows what was published before it died."""
    storage = open_storage(unit.store)
    return [
        published(unit, feature) or not_done(storage, unit.session_id, unit.stored(feature), Status.FAILED, reason, "")
        for feature in unit.features
    ]


def result_of(state: State) -> Any:
    """The data of a state of this process, whatever the state's type."""
    data = getattr(state.data, "result", state.data)
    return data.result if isinstance(data, IncompleteError) else data
