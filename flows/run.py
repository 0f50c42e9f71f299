"""One extraction from the command line: checks first, then a server, the flow, and its report."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rich.console import Console

from flows import interruption
from flows.console import ConsoleWatcher
from flows.progress import watched_by
from flows.request import ExtractionRequest
from flows.server import ServerError, prefect_server
from storyframes.layout import create_store
from storyframes.study import load_study
from tasks.plan import check_selection
from tasks.required_tools import check_tools

if TYPE_CHECKING:
    from flows.run_report import RunReport


def run_extraction(request: ExtractionRequest, console: Console) -> RunReport:
    """Extract what is asked for, showing progress on ``console``.

    Raises:
        StudyError, SettingsError, ClusterSettingsError, SelectionError, StoreError, MissingToolError: what was asked
            for cannot be done; nothing was started.
        SystemExit: 1, with a message, where the flow itself broke.
    """
    interruption.promise(interruption.GOES_ON)
    settings = request.load_settings()
    check_selection(load_study(request.study), settings, request.selection)
    check_tools(settings, request.selection.only)
    create_store(request.features)
    # The progress below says it better; a configured server still gets every line.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    with ConsoleWatcher(console) as watcher, watched_by(watcher):
        watcher.starting("starting the Prefect server")
        try:
            with prefect_server():
                watcher.starting("planning")
                return _run_flow(request)
        except ServerError as error:
            sys.exit(str(error))


def _run_flow(request: ExtractionRequest) -> RunReport:
    from flows.extraction import result_of  # Prefect reads its environment when it is imported
    from flows.run_report import RunReport
    from flows.study import extract_study

    state = extract_study(request, return_state=True)
    report = result_of(state)
    if not isinstance(report, RunReport):
        sys.exit(f"the run ended as {state.name}: {state.message}")
    return report
