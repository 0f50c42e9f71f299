"""The flows: a whole study, or one session of it, from recordings to features and clips."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pandas as pd
from prefect import flow, get_run_logger
from prefect.states import Failed, State

from flows.clusters.needs import ClusterError
from flows.clusters.settings import ClusterSettingsError, LocalCluster
from flows.interruption import heeded
from flows.preparation import Preparation, prepared
from flows.request import ExtractionRequest
from flows.runs.artifacts import ProgressArtifact, publish_key_tables, publish_result
from flows.runs.progress import watcher
from flows.runs.result import RunResult
from flows.settings import SettingsError
from flows.work import do_work
from storyframes.store import catalogue, scratch
from storyframes.store.clip_table import ClipFormatError
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, open_store
from storyframes.store.records import Status
from storyframes.store.storage import StorageError
from tasks.extract import Outcome
from tasks.extractors.required_tools import MissingToolError
from tasks.index import ClipIndex, build_clip_index, write_clip_index
from tasks.inspect.report.facts import read_facts
from tasks.inspect.report.key_tables import key_tables
from tasks.planning.plan import plan_extraction
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
    started = time.monotonic()
    scratch.sweep()  # what an earlier run left on this machine when it was killed
    logger = get_run_logger()
    preparation = prepared(request)
    settings, study = preparation.settings, preparation.study
    cpus = settings.cluster.processors if isinstance(settings.cluster, LocalCluster) else 1
    plan = plan_extraction(
        study, preparation.storage, settings, request.selection, watcher().planning, cpus, settings.labels
    )
    due = sum(len(work.features) for work in plan.work)
    impossible = sum(outcome.status is Status.FAILED for outcome in plan.settled)
    idle = len(plan.settled) - impossible
    watcher().planned(due, idle, impossible)
    logger.info("%d features are due, %d need nothing done, %d cannot be made", due, idle, impossible)
    attempted = do_work(plan.work, settings.cluster, _tell(due))
    index, problem = write_tables(preparation)
    for session_id, reason in index.excluded.items():
        logger.warning("%s gives no clips: %s", session_id, reason)
    for session_id, reason in index.warnings.items():
        logger.warning("%s: %s", session_id, reason)
    for remark in index.remarks:
        logger.warning("%s", remark)
    asked = request.session_ids or tuple(study.sessions)
    excluded = {session_id: reason for session_id, reason in index.excluded.items() if session_id in asked}
    seconds = time.monotonic() - started
    outcomes = (*plan.settled, *attempted)
    result = RunResult(
        outcomes, len(plan.work), len(index.clips), seconds, problem, excluded, index.warnings, index.remarks
    )
    publish_result(result)
    if not problem:
        facts = read_facts(study, FeatureStore(request.features), settings, settings.labels)
        publish_key_tables(key_tables(facts))
    return result


def write_tables(preparation: Preparation) -> tuple[ClipIndex, str]:
    """Write the catalogue and the clip index; gives the index, and why they could not be written."""
    features = preparation.request.features
    try:
        storage = open_store(features)  # still there, after days perhaps?
        catalogue.compact(storage)
        settings = preparation.settings
        index = build_clip_index(preparation.study, settings.clips, FeatureStore(features), settings.labels)
        write_clip_index(index.clips, storage)
    except ClipFormatError as error:
        return ClipIndex(pd.DataFrame(), {}, {}), str(error)
    except (OSError, StorageError) as error:  # a full disk; what was published stays, readers keep the older tables
        problem = f"the catalogue and the clip index could not be written ({error}): extract again"
        return ClipIndex(pd.DataFrame(), {}, {}), problem
    return index, ""


def _tell(due: int) -> Callable[[Outcome], None]:
    """Tells whoever watches, and the server, of every outcome."""
    progress = ProgressArtifact(due) if due else None

    def finished(outcome: Outcome) -> None:
        watcher().finished(outcome)
        if progress:
            progress.finished(failed=outcome.status is Status.FAILED)

    return finished
