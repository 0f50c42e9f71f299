"""Running planned work on a Dask cluster: one Prefect task per session and feature."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from typing import Any

import dask
from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State
from prefect_dask import DaskTaskRunner

from flows.cluster import local_cluster
from flows.progress import watcher
from flows.settings import ClusterSettings
from storyframes.records import Status
from storyframes.storage import open_storage
from tasks.extract import Outcome, Work, extract, not_done
from tasks.extractors import build_extractors
from tasks.plan import CLOCK

_LOST = "every worker that tried it died (out of memory?)"


@task(name="extract", task_run_name="{work.name}", cache_policy=NO_CACHE)
def extract_task(work: Work) -> State:
    """One unit of work; the state tells the truth, its data is the small outcomes."""
    outcomes = extract(work)
    message = "; ".join(outcome.reason or f"{outcome.feature}: {outcome.rows} rows" for outcome in outcomes)
    if any(outcome.status is Status.FAILED for outcome in outcomes):
        return Failed(message=message, data=outcomes)
    return Completed(message=message, data=outcomes)


def run_work(work: Sequence[Work], cluster: ClusterSettings) -> list[Outcome]:
    """Do the work on a local cluster and give back what came of it, in the order of its ending.

    A session's clock comes first: the session's other features need it and are submitted when it has ended, well or
    not. Nothing that happens to one unit of work keeps the others from being done.
    """
    if not work:
        return []
    with local_cluster(cluster, [_needs(unit) for unit in work]) as dask_cluster:
        runner = DaskTaskRunner(address=dask_cluster.scheduler_address)
        state = _extract_features.with_options(task_runner=runner)(list(work), return_state=True)
    return list(result_of(state))


@flow(name="extract-features", validate_parameters=False, persist_result=False)
def _extract_features(work: list[Work]) -> State:
    clocks = {unit.session_id for unit in work if unit.features == (CLOCK,)}
    waiting: dict[str, list[Work]] = {session_id: [] for session_id in clocks}
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    running = {}

    def submit(unit: Work) -> None:
        with dask.annotate(resources=dict(_needs(unit))):
            future = extract_task.submit(unit)
        running[future.task_run_id] = unit
        future.add_done_callback(ended.put)

    for unit in work:
        if unit.features != (CLOCK,) and unit.session_id in clocks:
            waiting[unit.session_id].append(unit)
        else:
            submit(unit)
    outcomes = []
    logger = get_run_logger()
    while running:
        future = ended.get()
        unit = running.pop(future.task_run_id)
        for outcome in _outcomes(future, unit):
            outcomes.append(outcome)
            watcher().finished(outcome)
            logger.info("%s/%s: %s %s", outcome.session_id, outcome.feature, outcome.status, outcome.reason)
        if unit.features == (CLOCK,):
            for dependent in waiting.pop(unit.session_id):
                submit(dependent)
    return Completed(message=f"{len(outcomes)} features attempted", data=outcomes)


def _needs(unit: Work) -> Mapping[str, float]:
    """The most that any of its features needs: they run one after the other, frame by frame."""
    extractors = build_extractors(unit.settings, unit.session_id)
    needs: dict[str, float] = {}
    for feature in unit.features:
        for resource, amount in extractors[feature].needs.items():
            needs[resource] = max(amount, needs.get(resource, 0))
    return needs


def _outcomes(future: Any, unit: Work) -> Sequence[Outcome]:
    """What a finished future says; a lost worker is an outcome as well, not the end of the run."""
    try:
        future.wait()
        outcomes = result_of(future.state)
        if isinstance(outcomes, tuple):
            return outcomes
        reason = f"the task ended as {future.state.name}: {future.state.message}"
        if not future.state.is_final():  # Dask gave the task up: nobody was left to say how it ended
            reason = _LOST
    except Exception as error:
        reason = f"{_LOST} ({type(error).__name__})"
    storage = open_storage(unit.store)
    return [not_done(storage, unit.session_id, feature, Status.FAILED, reason, "") for feature in unit.features]


def result_of(state: State) -> Any:
    """The data of a state of this process, whatever the state's type."""
    data = state.data
    return getattr(data, "result", data)
