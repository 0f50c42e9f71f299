"""One extraction from the command line: checks first, then a server, the flow, and its report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from flows.cluster_settings import load_cluster
from flows.console import ConsoleWatcher
from flows.progress import watched_by
from flows.server import ServerError, prefect_server
from flows.settings import Settings, load_settings
from storyframes.layout import create_store
from storyframes.study import load_study
from tasks.plan import Selection, check_selection

if TYPE_CHECKING:
    from flows.study import RunReport


def run_extraction(
    study: Path,
    features: str,
    config: Path | None,
    selection: Selection,
    console: Console,
    cluster: str | None = None,
) -> RunReport:
    """Extract what is selected, showing progress on ``console``.

    Args:
        study: its folder.
        features: the feature store's location.
        config: the configuration's file.
        selection: what to extract.
        console: for progress.
        cluster: a cluster's file or a scheduler's address, in the place of the configuration's.

    Raises:
        StudyError, SettingsError, ClusterSettingsError, SelectionError, StoreError: what was asked for cannot be done;
            nothing was started.
        SystemExit: 1, with a message, where the flow itself broke.
    """
    settings = load_settings(config)
    if cluster is not None:
        settings = settings.model_copy(update={"cluster": load_cluster(cluster)})
    check_selection(load_study(study), settings, selection)
    create_store(features)
    # The progress below says it better; a configured server still gets every line.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    with ConsoleWatcher(console) as watcher, watched_by(watcher):
        watcher.starting("starting the Prefect server")
        try:
            with prefect_server():
                watcher.starting("planning")
                return _run_flow(study, features, settings, selection)
        except ServerError as error:
            sys.exit(str(error))


def _run_flow(study: Path, features: str, settings: Settings, selection: Selection) -> RunReport:
    from flows.extraction import result_of  # Prefect reads its environment when it is imported
    from flows.study import RunReport, extract_study

    state = extract_study(
        study,
        features,
        settings=settings,
        session_ids=selection.session_ids and list(selection.session_ids),
        only=selection.only and list(selection.only),
        force=selection.force,
        return_state=True,
    )
    report = result_of(state)
    if not isinstance(report, RunReport):
        sys.exit(f"the run ended as {state.name}: {state.message}")
    return report
