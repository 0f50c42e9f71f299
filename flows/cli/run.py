"""One run from the command line: checks and planning first; then, if anything is due, a server and the flow.

A command that finds nothing due brings the tables up to date and ends: no server is asked or started, Prefect is not
even imported, and ``storyframes runs`` has no run of it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console

from flows import interruption
from flows.cli.run_progress import RunProgress
from flows.cli.tables.study import not_read
from flows.request import ExtractionRequest
from flows.run import Run, RunResult, conclude, open_run, planned, registered, result_of, write_tables
from flows.runs.recent import own_tag

if TYPE_CHECKING:
    from prefect.states import State

_NOT_REACHED = "Failed to reach API"  # as Prefect says it
_FIRST_WORD_S = 120


def run_extraction(request: ExtractionRequest, console: Console) -> RunResult:
    """Extract what is asked for, showing progress on ``console``; without a server where nothing is due.

    Raises:
        StudyError, SettingsError, ClusterSettingsError, SelectionError, StoreError, MissingToolError: what was asked
            for cannot be done; nothing was started.
        ServerError: there is no Prefect server to use; nothing was started.
        SystemExit: 1, with a message, where the flow itself broke.
    """
    interruption.promise(interruption.GOES_ON)
    with RunProgress(console) as progress:
        run = open_run(request, progress)
        progress.starting("planning")
        run = planned(run)
        for line in not_read(run.study):
            console.print(line)
        if not run.plan.units:
            progress.planned(*run.plan.counts)
            return conclude(run, ())
        return _run_on_a_server(run, progress)


def _run_on_a_server(run: Run, progress: RunProgress) -> RunResult:
    from flows.runs.own_server import ServerLostError
    from flows.runs.server import prefect_server

    keep_prefect_quiet()
    try:
        with registered(run) as run_id, prefect_server(progress.starting):
            progress.starting("starting the run")
            return _result(lambda: _go_on(run.request, run_id))
    except ServerLostError:
        return _without_server(run)


def keep_prefect_quiet() -> None:
    """A command's own progress says it better; a configured server still gets every line."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")  # while the server is away: every event


def _go_on(request: ExtractionRequest, run_id: str) -> State:
    from flows.study import go_on  # Prefect reads its environment when it is imported

    return go_on(request, run_id, return_state=True)


def _result(run: Callable[[], State]) -> RunResult:
    state = first_word_heard(run)
    result = result_of(state)
    if not isinstance(result, RunResult):
        from tasks.tools.disk_space import places_without_room

        sys.exit("\n".join([f"the run ended as {state.name}: {state.message}", *places_without_room()]))
    return result


def first_word_heard(run: Callable[[], State]) -> State:
    """Run a flow, marked as this process's; also where the server is about to be started anew.

    Raises:
        SystemExit: 1, with a message, where the server did not come back.
    """
    from prefect import tags

    deadline = time.monotonic() + _FIRST_WORD_S
    while True:
        try:
            with tags(own_tag()):
                return run()
        except RuntimeError as error:
            # The first word with a server is the only one that Prefect does not say again while the server starts anew.
            if _NOT_REACHED not in str(error):
                raise
            if time.monotonic() > deadline:
                sys.exit("the Prefect server went away before the run began: nothing was started, run it again")
            time.sleep(1)


def _without_server(run: Run) -> RunResult:
    """The result of a run whose server died too often: the tables are written of all that was published."""
    interruption.leave_at_once()
    index, problem = write_tables(run)
    lost = "the command's own Prefect server died again and again: extract again, what was published stays"
    return RunResult((), 0, len(index.clips), 0.0, "; ".join(filter(None, (lost, problem))))
