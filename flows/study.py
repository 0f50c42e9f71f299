"""The flows: a whole study, or one session of it, from recordings to features and clips."""

from __future__ import annotations

import os
from collections.abc import Callable

from prefect import flow, get_run_logger
from prefect.states import Failed, State

from flows.clusters.needs import ClusterError
from flows.clusters.settings import ClusterSettingsError
from flows.conclusion import conclude
from flows.interruption import heeded
from flows.preparation import prepared
from flows.request import ExtractionRequest
from flows.runs.artifacts import ProgressArtifact, publish_key_tables, publish_result
from flows.runs.progress import watcher
from flows.runs.result import RunResult
from flows.settings import SettingsError
from flows.work import do_work
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.records import Status
from storyframes.store.storage import StorageError
from tasks.extract import Outcome
from tasks.extractors.required_tools import MissingToolError
from tasks.inspect.report.facts import read_facts
from tasks.inspect.report.key_tables import key_tables
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

    Args:
        request: which study, to where, and how much of it.

    Returns:
        Completed; PartialSuccess where some features failed; Failed where all that were attempted did, or where what
        was asked for cannot be done. Its data is a :class:`flows.runs.result.RunResult`, or None.
    """
    return _extract(request)


@flow(name="extract-session", flow_run_name="{session_id}", persist_result=False)
def extract_session(session_id: str, request: ExtractionRequest) -> State:
    """Bring the features of one session up to date; see :func:`extract_study`."""
    return _extract(request.model_copy(update={"session_ids": (session_id,)}))


def _extract(request: ExtractionRequest) -> State:
    os.umask(0o077)  # recordings are intimate: what is written is its owner's alone
    try:
        with heeded():
            return _bring_up_to_date(request).state()
    except _REFUSALS as error:
        return Failed(message=str(error))


def _bring_up_to_date(request: ExtractionRequest) -> RunResult:
    logger = get_run_logger()
    preparation = prepared(request)
    settings, plan = preparation.settings, preparation.plan
    counts = plan.counts
    watcher().planned(*counts)
    logger.info("%d features are due, %d need nothing done, %d cannot be made", *counts)

    def warn(line: str) -> None:
        logger.warning("%s", line)
        watcher().warned(line)

    attempted = do_work(plan.work, settings.cluster, _tell(counts.due), warn=warn)
    result = conclude(preparation, attempted, lambda odd: logger.warning("%s", odd))
    publish_result(result)
    if not result.problem:
        facts = read_facts(preparation.study, FeatureStore(request.features), settings, settings.labels)
        publish_key_tables(key_tables(facts))
    return result


def _tell(due: int) -> Callable[[Outcome], None]:
    """Tells whoever watches, and the server, of every outcome."""
    progress = ProgressArtifact(due) if due else None

    def finished(outcome: Outcome) -> None:
        watcher().finished(outcome)
        if progress:
            progress.finished(failed=outcome.status is Status.FAILED)

    return finished
