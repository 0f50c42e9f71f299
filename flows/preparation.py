"""Everything that a run checks, reads and plans before anything is started: configuration, study, feature store.

The command line prepares a run before it starts a server, and hands on what it has read and planned to the flow. Where
nothing is due it needs neither: so nothing here imports Prefect.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from flows.clusters.settings import LocalCluster
from flows.request import ExtractionRequest
from flows.runs.progress import watcher
from flows.settings import Settings, check_labels
from storyframes.store.layout import StoreError, create_store
from storyframes.store.storage import Storage, scratch
from tasks.extractors.required_tools import check_tools
from tasks.planning.label_curves import curve_features
from tasks.planning.plan import Plan, plan_extraction
from tasks.planning.selection import check_selection
from tasks.study.load import Study, load_study
from tasks.study.study_identity import remember_study


@dataclass(frozen=True)
class Preparation:
    """What a run goes by.

    Attributes:
        request: what it is asked to do.
        settings: the configuration, as it is now.
        study: the tables, as they are now.
        storage: the feature store, which is there.
        plan: what is due and what is not.
        began: by :func:`time.monotonic`, when planning began.
    """

    request: ExtractionRequest
    settings: Settings
    study: Study
    storage: Storage
    plan: Plan
    began: float


def prepare(request: ExtractionRequest, planning: Callable[[], None] = lambda: None) -> Preparation:
    """Read, check and plan what a run needs; makes the feature store where there is none, and notes whose it is.

    Args:
        request: what is asked for.
        planning: called once all is checked, before anything is planned.

    Whoever watches the run is told of the planning. What is due is so at this moment: a task looks again before it
    extracts anything, so nothing is lost if another run makes it meanwhile.

    Raises:
        StudyError, SettingsError, ClusterSettingsError, SelectionError, MissingToolError, StoreError, StorageError:
            what is asked for cannot be done; nothing was started.
    """
    settings, study = request.load_settings(), load_study(request.study)
    check_labels(settings, study)
    check_selection(study, settings, request.selection, curve_features(study, settings.labels))
    check_tools(settings, request.selection.only)
    storage = create_store(request.features)
    _check_writable(storage)
    remember_study(storage, study, replace=request.replace_study)
    planning()
    began = time.monotonic()
    scratch.sweep()  # what an earlier run left on this machine when it was killed
    cpus = settings.cluster.processors if isinstance(settings.cluster, LocalCluster) else 1
    plan = plan_extraction(study, storage, settings, request.selection, watcher().planning, cpus, settings.labels)
    return Preparation(request, settings, study, storage, plan, began)


def _check_writable(storage: Storage) -> None:
    folder = storage.local("")
    if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"{folder} cannot be written to: it is another user's, or on a read-only file system")


# Not a parameter of the flow: a study would be written to the server's database.
_handed_on: ContextVar[Preparation | None] = ContextVar("preparation", default=None)


@contextmanager
def handed_on(preparation: Preparation) -> Iterator[None]:
    """Let the flow in this block go by what is prepared already."""
    token = _handed_on.set(preparation)
    try:
        yield
    finally:
        _handed_on.reset(token)


def prepared(request: ExtractionRequest) -> Preparation:
    """What was handed on for this very request, else what is prepared now; raises what :func:`prepare` does."""
    there = _handed_on.get()
    return there if there and there.request == request else prepare(request)
