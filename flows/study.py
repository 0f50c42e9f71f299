"""The flows: a whole study, or one session of it, from recordings to features and clips."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.states import Completed, Failed, State

from flows.extraction import run_work
from flows.progress import watcher
from flows.settings import Settings
from storyframes import catalogue
from storyframes.records import Status
from storyframes.store import FeatureStore
from storyframes.study import load_study
from tasks.extract import Outcome
from tasks.index import build_clip_index, write_clip_index
from tasks.plan import Selection, plan_extraction


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    Attributes:
        outcomes: one for each session and feature asked for.
        submitted: how many tasks were submitted for those that were due.
        clips: rows of the clip index after it.
    """

    outcomes: tuple[Outcome, ...]
    submitted: int
    clips: int

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status is Status.FAILED)

    def count(self, status: Status, *, skipped: bool) -> int:
        return sum(outcome.status is status and outcome.skipped is skipped for outcome in self.outcomes)

    def __str__(self) -> str:
        return (
            f"{self.count(Status.DONE, skipped=False)} extracted, {self.count(Status.DONE, skipped=True)} up to date, "
            f"{sum(outcome.status is Status.MISSING for outcome in self.outcomes)} without input, "
            f"{len(self.failed)} failed"
        )


@flow(name="extract-study", validate_parameters=True, persist_result=False)
def extract_study(
    study: Path,
    features: Path,
    settings: Settings | None = None,
    session_ids: list[str] | None = None,
    only: list[str] | None = None,
    force: bool = False,
) -> State:
    """Bring the features of a study up to date.

    Args:
        study: the study's folder.
        features: the feature store, made where absent.
        settings: the configuration.
        session_ids: only these sessions; all of them and the stories otherwise.
        only: only these features.
        force: extract again what is up to date.

    Returns:
        Completed; PartialSuccess where some features failed; Failed where all that were attempted did. Its data is a
        :class:`RunReport`.
    """
    selection = Selection(tuple(session_ids) if session_ids else None, tuple(only) if only else None, force)
    return _extract(study, features, settings or Settings(), selection)


@flow(name="extract-session", flow_run_name="{session_id}", validate_parameters=True, persist_result=False)
def extract_session(
    study: Path,
    features: Path,
    session_id: str,
    settings: Settings | None = None,
    only: list[str] | None = None,
    force: bool = False,
) -> State:
    """Bring the features of one session up to date; see :func:`extract_study`."""
    selection = Selection((session_id,), tuple(only) if only else None, force)
    return _extract(study, features, settings or Settings(), selection)


def _extract(study_path: Path, features: Path, settings: Settings, selection: Selection) -> State:
    logger = get_run_logger()
    study = load_study(study_path)
    cpus = settings.cluster.cpus or len(os.sched_getaffinity(0))
    plan = plan_extraction(study, features, settings, selection, watcher().planning, cpus)
    due = sum(len(work.features) for work in plan.work)
    watcher().planned(due, len(plan.settled))
    logger.info("%d features are due, %d need nothing done", due, len(plan.settled))
    attempted = run_work(plan.work, settings.cluster)
    catalogue.compact(features)
    index = build_clip_index(study, settings.clips, FeatureStore(features))
    write_clip_index(index, features)
    report = RunReport((*plan.settled, *attempted), len(plan.work), len(index))
    _publish_table(report)
    return _final_state(report)


def _publish_table(report: RunReport) -> None:
    table = [
        {
            "session": outcome.session_id,
            "feature": outcome.feature,
            "status": "up to date" if outcome.skipped and outcome.status is Status.DONE else str(outcome.status),
            "rows": outcome.rows,
            "seconds": round(outcome.seconds, 1),
            "reason": outcome.reason,
            "stamps": ", ".join(outcome.stamps),
        }
        for outcome in sorted(report.outcomes, key=lambda outcome: (outcome.session_id, outcome.feature))
    ]
    create_table_artifact(table, key="extraction", description=str(report))


def _final_state(report: RunReport) -> State:
    if not report.failed:
        return Completed(message=str(report), data=report)
    good = len(report.outcomes) - len(report.failed)
    name = "PartialSuccess" if good else "Failed"
    return Failed(name=name, message=str(report), data=report)
