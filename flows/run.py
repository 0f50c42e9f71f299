"""One extraction from the command line: checks first, then a server, the flow, and its report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from flows.console import ConsoleWatcher
from flows.progress import watched_by
from flows.server import ServerError, prefect_server
from flows.settings import load_settings
from storyframes.layout import create_store
from storyframes.study import load_study
from tasks.plan import Selection, check_selection

if TYPE_CHECKING:
    from flows.study import RunReport


def run_extraction(
    study: Path,
    features: Path,
    config: Path | None,
    session_ids: list[str] | None,
    only: list[str] | None,
    force: bool,
    console: Console,
) -> RunReport:
    """Extract, showing progress on ``console``.

    Raises:
        StudyError, SettingsError, SelectionError, StoreError: what was asked for cannot be done; nothing was started.
        SystemExit: 1, with a message, where the flow itself broke.
    """
    settings = load_settings(config)
    selection = Selection(tuple(session_ids) if session_ids else None, tuple(only) if only else None, force)
    check_selection(load_study(study), settings, selection)
    create_store(features)
    # The progress below says it better; a configured server still gets every line.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    with ConsoleWatcher(console) as watcher, watched_by(watcher):
        watcher.starting("starting the Prefect server")
        try:
            with prefect_server():
                watcher.starting("planning")
                return _run_flow(study, features, settings, session_ids, only, force)
        except ServerError as error:
            sys.exit(str(error))


def _run_flow(study, features, settings, session_ids, only, force) -> RunReport:  # type: ignore[no-untyped-def]
    from flows.extraction import result_of
    from flows.study import RunReport, extract_session, extract_study

    if session_ids and len(session_ids) == 1:
        state = extract_session(
            study, features, session_ids[0], settings=settings, only=only, force=force, return_state=True
        )
    else:
        state = extract_study(
            study, features, settings=settings, session_ids=session_ids, only=only, force=force, return_state=True
        )
    report = result_of(state)
    if not isinstance(report, RunReport):
        sys.exit(f"the run ended as {state.name}: {state.message}")
    return report
