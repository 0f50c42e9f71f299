"""Running planned work on a Dask cluster: one Prefect task per session and feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dask
from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State
from prefect_dask import DaskTaskRunner

from flows.cluster import dask_cluster
from flows.cluster_settings import ClusterSettings
from flows.gather import Future, Gather, WorkerLostError
from flows.progress import watcher
from storyframes.records import Status
from storyframes.storage import open_storage
from tasks.extract import Outcome, Work, extract, not_done
from tasks.extractors import build_extractors


@task(name="extract", task_run_name="{work.name}", cache_policy=NO_CACHE)
def extract_task(work: Work) -> State:
    """One unit of work; the state tells the truth, its data is the small outcomes."""
    outcomes = extract(work)
    message = "; ".join(outcome.reason or f"{outcome.feature}: {outcome.rows} rows" for outcome in outcomes)
    if any(outcome.status is Status.FAILED for outcome in outcomes):
        return Failed(message=message, data=outcomes)
    return Completed(message=message, data=outcomes)


def run_work(work: Sequence[Work], cluster: ClusterSettings) -> list[Outcome]:
    """Do the work on a cluster and give back what came of it, in the order of its ending.

    See :class:`flows.gather.Gather` for the order, and for what is tried again.
    """
    if not work:
        return []
    with dask_cluster(cluster, [_needs(unit) for unit in work]) as address:
        runner = DaskTaskRunner(address=address)
        state = _extract_features.with_options(task_runner=runner)(list(work), return_state=True)
    return list(result_of(state))


@flow(name="extract-features", validate_parameters=False, persist_result=False)
def _extract_features(work: list[Work]) -> State:
    logger = get_run_logger()

    def submit(unit: Work) -> Future:
        with dask.annotate(resources=dict(_needs(unit))):
            return extract_task.submit(unit)

    def finished(outcome: Outcome) -> None:
        watcher().finished(outcome)
        logger.info("%s/%s: %s %s", outcome.session_id, outcome.feature, outcome.status, outcome.reason)

    outcomes = Gather(submit, _read, _lost, finished).run(work)
    return Completed(message=f"{len(outcomes)} features attempted", data=outcomes)


def _needs(unit: Work) -> Mapping[str, float]:
    """The most that any of its features needs: they run one after the other, frame by frame."""
    extractors = build_extractors(unit.settings, unit.session_id)
    needs: dict[str, float] = {}
    for feature in unit.features:
        for resource, amount in extractors[feature].needs.items():
            needs[resource] = max(amount, needs.get(resource, 0))
    return needs


def _read(future: Any, unit: Work) -> Sequence[Outcome]:
    """What a finished future says."""
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
    return _not_done(unit, f"the task ended as {state.name}: {state.message}")


def _lost(unit: Work) -> Sequence[Outcome]:
    return _not_done(unit, "every worker that tried it died, also when it ran alone (out of memory?)")


def _not_done(unit: Work, reason: str) -> Sequence[Outcome]:
    storage = open_storage(unit.store)
    return [not_done(storage, unit.session_id, feature, Status.FAILED, reason, "") for feature in unit.features]


def result_of(state: State) -> Any:
    """The data of a state of this process, whatever the state's type."""
    data = state.data
    return getattr(data, "result", data)
