"""Extracting what is due: one Prefect task per session and feature, or features that share a pass over the frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State
from prefect.tasks import Task

from flows.cluster_work import KindOfWork, do_on_cluster
from flows.clusters.preflight import check_workers
from flows.clusters.settings import ClusterSettings
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


def do_work(
    work: Sequence[Work],
    cluster: ClusterSettings,
    finished: Callable[[Outcome], None],
    extract_one: Task[[Work], State] = extract_task,
) -> list[Outcome]:
    """Extract what is due on a cluster; see :func:`flows.cluster_work.do_on_cluster`.

    Args:
        work: from planning, in the order in which it should begin.
        cluster: what to run on.
        finished: told of every outcome that stands.
        extract_one: the task that does one unit of work.

    Raises:
        ClusterError: the cluster cannot do this work; nothing of it was started.
    """
    extraction = KindOfWork("extract-features", extract_one, needs_of, _as_stored, describe, check_workers)
    return do_on_cluster(work, cluster, extraction, finished)


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
