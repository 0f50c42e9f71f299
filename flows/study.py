"""The flows: a whole study, or one session of it, from recordings to features and clips."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prefect import flow, get_run_logger
from prefect.states import Failed, State
from prefect.tasks import Task

from flows.clusters.connection import ClusterError, SchedulerLostError
from flows.clusters.preflight import only_able_workers
from flows.clusters.settings import ClusterSettings, ClusterSettingsError
from flows.gather import Bundle
from flows.interruption import heeded
from flows.on_cluster import do_on_cluster, unit_task
from flows.request import ExtractionRequest
from flows.run import RefusedError, Run, RunResult, conclude, open_run, planned, registered_run, result_without
from flows.server.artifacts import ProgressArtifact, publish_key_tables, publish_result
from flows.settings import SettingsError
from storyframes.store.layout import StoreError, open_storage
from storyframes.store.storage import StorageError
from storyframes.store.storage.processes import keep_private
from tasks.extract import ExtractionUnit, Outcome, not_in_store
from tasks.extractors.availability import MissingToolError
from tasks.planning.selection import SelectionError
from tasks.study.load import StudyError

_REFUSALS = (
    StudyError,
    SettingsError,
    ClusterSettingsError,
    ClusterError,
    SelectionError,
    MissingToolError,
    StoreError,
    StorageError,
)


@flow(name="extract-study", persist_result=False)
def extract_study(request: ExtractionRequest) -> State:
    """Bring the features of a study up to date.

    Returns:
        Completed; PartialSuccess where some features failed; Failed where all that were attempted did, or where what
        was asked for cannot be done. Its data is a :class:`flows.run.RunResult`, or None.
    """
    return _ended(lambda: planned(open_run(request)))


@flow(name="extract-session", flow_run_name="{session_id}", persist_result=False)
def extract_session(session_id: str, request: ExtractionRequest) -> State:
    """Bring the features of one session up to date; see :func:`extract_study`."""
    return _ended(lambda: planned(open_run(request.model_copy(update={"session_ids": (session_id,)}))))


@flow(name="extract-study", persist_result=False)
def go_on(request: ExtractionRequest, run_id: str) -> State:
    """Go on with a run that this process has planned; see :func:`extract_study`.

    Args:
        request: of the run, for people who look at the server.
        run_id: see :func:`flows.run.registered`.
    """
    return _ended(lambda: registered_run(run_id))


def _ended(plan: Callable[[], Run]) -> State:
    """The state in which the planned run ends."""
    keep_private()
    try:
        with heeded():
            return _bring_up_to_date(plan()).state()
    except _REFUSALS as error:
        return Failed(message=str(error), data=RefusedError(error))  # of which the command makes its exit code


def _bring_up_to_date(run: Run) -> RunResult:
    # With pandas: workers import this module, and are to start without it. Before the work, in which code may change.
    from storyframes.store.feature_store import FeatureStore
    from tasks.inspect.key_tables import key_tables

    logger = get_run_logger()
    try:
        result = conclude(run, perform(run), lambda odd: logger.warning("%s", odd))
    except SchedulerLostError as error:
        result = result_without(run, str(error))
    publish_result(result)
    if not result.problem:
        publish_key_tables(key_tables(run.study, FeatureStore(run.request.features)))
    return result


def perform(run: Run) -> list[Outcome]:
    """Extract what the run has planned, and report the outcomes to its progress and to the server.

    Raises:
        ClusterError: the cluster cannot do these units; none of them was started.
    """
    logger, counts = get_run_logger(), run.plan.counts
    run.progress.planned(*counts)
    logger.info("%d features are due, %d need nothing done, %d cannot be made", *counts)
    artifact = ProgressArtifact(counts.due) if counts.due else None

    def settled(outcome: Outcome) -> None:
        run.progress.finished(outcome)
        if artifact:
            artifact.finished(failed=outcome.failed)

    def warn(line: str) -> None:
        logger.warning("%s", line)
        run.progress.warned(line)

    return extract_units(run.plan.units, run.cluster, settled, warn=warn)


extract_task = unit_task("extract")


def extract_units(
    units: Sequence[ExtractionUnit],
    cluster: ClusterSettings,
    settled: Callable[[Outcome], None],
    task: Task[[Bundle[Outcome]], State] = extract_task,
    warn: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """Extract units on a cluster; arguments and errors are those of :func:`flows.on_cluster.do_on_cluster`."""
    return do_on_cluster(
        units,
        cluster,
        task=task,
        admit=only_able_workers,
        doubts=lambda outcomes: not_in_store(open_storage(units[0].store), outcomes),
        settled=settled,
        warn=warn,
    )
