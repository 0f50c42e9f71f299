"""Extracting what is due: a session's feature, or features that share a pass over the frames, is a unit of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import State
from prefect.tasks import Task

from flows.cluster_work import KindOfWork, do_on_cluster
from flows.clusters.preflight import only_able_workers
from flows.clusters.settings import ClusterSettings
from flows.gather import Bundle
from flows.in_turn import do_in_turn
from storyframes.features import STORIES
from storyframes.store.layout import open_storage
from storyframes.store.records import Status
from tasks.extract import Outcome, Work, extract, not_done, not_in_store, published
from tasks.extractors.registry import ExtractorsSettings, build_extractor

_UNKNOWN_S = 2.5


@task(name="extract", task_run_name="{bundle.name}", cache_policy=NO_CACHE)
def extract_task(bundle: Bundle[Work]) -> State:
    """Units of work, one after the other; the state tells the truth, its data is the small outcomes."""
    return do_in_turn(bundle, extract, describe)


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
    extract_some: Task[[Bundle[Work]], State] = extract_task,
    warn: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """Extract what is due on a cluster; see :func:`flows.cluster_work.do_on_cluster`.

    Args:
        work: from planning, in the order in which it should begin.
        cluster: what to run on.
        finished: told of every outcome that stands.
        extract_some: the task that does the units of a bundle.
        warn: told of workers that joined while the run goes on and take no work.

    Raises:
        ClusterError: the cluster cannot do this work; nothing of it was started.
    """
    extraction = KindOfWork(
        name="extract-features",
        task=extract_some,
        needs=needs_of_units(),
        cost_s=cost_of,
        left=_published,
        lost=_as_stored,
        doubts=lambda outcomes: not_in_store(open_storage(work[0].store), outcomes),
        describe=describe,
        admit=only_able_workers,
    )
    return do_on_cluster(work, cluster, extraction, finished, warn)


def cost_of(unit: Work) -> float:
    """CPU-seconds that a unit is expected to take; so much that few go together where no header says."""
    return unit.cost or _UNKNOWN_S


def needs_of_units() -> Callable[[Work], Mapping[str, float]]:
    """:func:`needs_of`, which looks once for all units that are alike but for their session."""
    known: dict[tuple[int, tuple[str, ...], bool], tuple[ExtractorsSettings, Mapping[str, float]]] = {}

    def needs(unit: Work) -> Mapping[str, float]:
        key = id(unit.settings), unit.features, unit.session_id == STORIES
        if key not in known:
            known[key] = unit.settings, needs_of(unit)  # kept, so that no other settings get their id
        return known[key][1]

    return needs


def needs_of(unit: Work) -> Mapping[str, float]:
    """The most that any of its features needs: they run one after the other, frame by frame."""
    needs: dict[str, float] = {}
    for feature in unit.features:
        extractor = build_extractor(unit.settings, unit.session_id, feature)
        for resource, amount in extractor.needs.items():
            needs[resource] = max(amount, needs.get(resource, 0))
    return needs


def _published(unit: Work) -> Sequence[Outcome] | None:
    """The outcomes of work whose worker could not tell them, where all of it was published."""
    outcomes = []
    for feature in unit.features:
        if (outcome := published(unit, feature)) is None:
            return None
        outcomes.append(outcome)
    return outcomes


def _as_stored(unit: Work, reason: str) -> Sequence[Outcome]:
    """The outcomes of work whose worker could not tell them: the store knows what was published before it died."""
    storage = open_storage(unit.store)
    return [
        published(unit, feature) or not_done(storage, unit.session_id, unit.stored(feature), Status.FAILED, reason, "")
        for feature in unit.features
    ]
