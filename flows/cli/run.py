"""One extraction from the command line: checks first, then a server, the flow, and its report."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console

from flows import interruption
from flows.cli.run_progress import RunProgress
from flows.cli.tables.study import not_read
from flows.request import ExtractionRequest
from flows.runs.own_server import ServerLostError
from flows.runs.progress import watched_by
from flows.runs.recent import own_tag
from flows.runs.server import prefect_server
from storyframes.store.layout import StoreError, create_store
from storyframes.store.storage import Storage
from tasks.extractors.required_tools import check_tools
from tasks.planning.selection import check_selection
from tasks.study.load import load_study
from tasks.study.record import remember_study

if TYPE_CHECKING:
    from flows.runs.report import RunReport

_NOT_REACHED = "Failed to reach API"  # as Prefect says it
_FIRST_WORD_S = 120


def run_extraction(request: ExtractionRequest, console: Console) -> RunReport:
    """Extract what is asked for, showing progress on ``console``.

    Raises:
        StudyError, SettingsError, ClusterSettingsError, SelectionError, StoreError, MissingToolError: what was asked
            for cannot be done; nothing was started.
        ServerError: there is no Prefect server to use; nothing was started.
        SystemExit: 1, with a message, where the flow itself broke.
    """
    interruption.promise(interruption.GOES_ON)
    settings, study = request.load_settings(), load_study(request.study)
    check_selection(study, settings, request.selection)
    check_tools(settings, request.selection.only)
    for line in not_read(study):
        console.print(line)
    storage = create_store(request.features)
    _check_writable(storage)
    remember_study(storage, study, replace=request.replace_study)
    # The progress below says it better; a configured server still gets every line.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")  # while the server is away: every event
    with RunProgress(console) as watcher, watched_by(watcher):
        watcher.starting("starting the Prefect server")
        try:
            with prefect_server():
                watcher.starting("planning")
                return _run_flow(request)
        except ServerLostError:
            return _without_server(request)


def _check_writable(storage: Storage) -> None:
    folder = storage.local("")
    if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"{folder} cannot be written to: it is another user's, or on a read-only file system")


def _run_flow(request: ExtractionRequest) -> RunReport:
    from prefect import tags  # Prefect reads its environment when it is imported

    from flows.extraction import result_of
    from flows.runs.report import RunReport
    from flows.study import extract_study

    deadline = time.monotonic() + _FIRST_WORD_S
    while True:
        try:
            with tags(own_tag()):
                state = extract_study(request, return_state=True)
            break
        except RuntimeError as error:
            # The first word with a server is the only one that Prefect does not say again while the server starts anew.
            if _NOT_REACHED not in str(error):
                raise
            if time.monotonic() > deadline:
                sys.exit("the Prefect server went away before the run began: nothing was started, run it again")
            time.sleep(1)
    report = result_of(state)
    if not isinstance(report, RunReport):
        sys.exit(f"the run ended as {state.name}: {state.message}")
    return report


def _without_server(request: ExtractionRequest) -> RunReport:
    """The report of a run whose server died too often: the tables are written of all that was published."""
    from flows.runs.report import RunReport
    from flows.study import write_tables

    interruption.leave_at_once()
    index, problem = write_tables(load_study(request.study), request.features, request.load_settings().clips)
    lost = "the command's own Prefect server died again and again: extract again, what was published stays"
    return RunReport((), 0, len(index.clips), 0.0, "; ".join(filter(None, (lost, problem))))
