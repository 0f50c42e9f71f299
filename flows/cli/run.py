"""One run from the command line: checks and planning first; then, if anything is due, the work.

Little work is done in this process; more is a flow with workers, on the Prefect server that is configured or on one of
its own. Without a flow, Prefect is not even imported, and ``storyframes runs`` has no run of it. Progress goes to
stderr.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rich.console import Console
from rich.markup import escape

from flows import interruption
from flows.cli.terminal import error_console, fail, not_read
from flows.in_process import is_faster_alone, perform_in_process
from flows.noted_part import NotedPart
from flows.progress import bars
from flows.request import ExtractionRequest
from flows.run import (
    Progress,
    RefusedError,
    Run,
    RunResult,
    conclude,
    open_run,
    planned,
    registered,
    result_of,
    result_without,
)
from flows.server.configured_server import ServerError, check_server, configured_url, is_chosen, is_server_configured
from flows.server.prefect_server import ServerLostError, prefect_server
from flows.server.recent_runs import own_tag
from storyframes.store.records import Status
from tasks.extract import Outcome
from tasks.inspect.formatting import counted
from tasks.tools.disk_space import places_without_room

if TYPE_CHECKING:
    from prefect.states import State

    from flows.cluster_work import ClusterWork

R = TypeVar("R")
_NOT_REACHED = "Failed to reach API"  # as Prefect says it
_FIRST_WORD_S = 120  # of a server that is configured
_RESTART_S = (
    1800  # of the command's own, which starts again slowly on a busy machine; it is given up when it dies often
)


def run_extraction(request: ExtractionRequest, console: Console, *, server: bool = False) -> RunResult:
    """Extract what is asked for, showing progress on ``console``.

    In this process where that is faster and no Prefect server is configured.

    Args:
        server: whatever is due is done by a flow, which a server knows.

    Raises:
        StudyError, SettingsError, ClusterSettingsError, ClusterError, SelectionError, StoreError, MissingToolError:
            what was asked for cannot be done, as planning or the flow found; no feature was begun.
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
        if request.part is not None:
            progress.starting(f"extracting part {request.part} in this process")
            with NotedPart(run) as noting:
                noted = replace(run, progress=noting, plan=noting.plan())
                outcomes = (*run.plan.settled, *perform_in_process(noted))
            return RunResult(outcomes, len(run.plan.units), 0, time.monotonic() - run.began)
        if not run.plan.units:
            progress.planned(*run.plan.counts)
            return conclude(run, ())
        if not server and is_faster_alone(run) and not _has_server(progress):
            progress.starting("extracting in this process")
            return conclude(run, perform_in_process(run))
        return _run_on_a_server(run, progress)


def _has_server(progress: Progress) -> bool:
    """Whether a server is configured that shall have the run, which needs none.

    One that a profile of Prefect or a file names, and that cannot be used, is named and left alone.
    """
    if not is_server_configured():
        return False
    if not is_chosen():
        try:
            check_server(configured_url())
        except ServerError as error:
            progress.warned(f"this run needs no server, and is done without it: {error}")
            return False
    return True


def _run_on_a_server(run: Run, progress: RunProgress) -> RunResult:
    def go_on(run_id: str) -> State:
        from flows.study import go_on  # Prefect reads its environment when it is imported

        return go_on(run.request, run_id, return_state=True)

    try:
        return _run_flow(run, go_on, RunResult, progress.starting)
    except ServerLostError:
        return _without_server(run)


def run_work(work: ClusterWork[Any], go_on: Callable[[str], State], result: type[R]) -> R:
    """Run a plug-in's flow in this process, on the Prefect server that is configured or on one for this command.

    Args:
        work: what the flow does.
        go_on: runs the flow, given the id with which it calls :func:`flows.work_on_cluster`, and gives its end state.
        result: the type of the work's result.

    Raises:
        ServerError: there is no Prefect server to use; nothing was started.
        SystemExit: 1, with a message, where the flow itself broke or the command's own server died again and again.
    """
    shown = error_console()
    try:
        return _run_flow(work, go_on, result, lambda what: shown.print(f"[dim]{escape(what)} …"))
    except ServerLostError:
        interruption.leave_at_once()
        fail(f"the command's own Prefect server died again and again: {interruption.OF_THIS_PROCESS.promise}", 1)


def _run_flow(run: object, go_on: Callable[[str], State], result: type[R], starting: Callable[[str], None]) -> R:
    """Run a flow in this process, on the Prefect server that is configured or on one for this command.

    Args:
        run: what the flow goes on with; ``flows.run.registered_run`` gives it.
        go_on: runs the flow, given the run's id, and gives its end state. Prefect is imported there first.
        result: the type of the flow's result.
        starting: called with what is being started.

    Raises:
        ServerError: there is no Prefect server to use; nothing was started.
        ServerLostError: the command's own server died again and again.
        SystemExit: 1, with a message, where the flow itself broke.
    """
    # A command's own progress says it better; a configured server still gets every line.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")  # while the server is away: every event
    patience_s = _FIRST_WORD_S if is_server_configured() else _RESTART_S
    with registered(run) as run_id, prefect_server(starting):
        starting("starting the run")
        state = _first_word_heard(lambda: go_on(run_id), patience_s)
    ended = result_of(state)
    if isinstance(ended, RefusedError):
        raise ended.error
    if not isinstance(ended, result):
        sys.exit("\n".join([f"the run ended as {state.name}: {state.message}", *places_without_room()]))
    return ended


def _first_word_heard(run: Callable[[], State], patience_s: float) -> State:
    """Run a flow, marked as this process's; also where the server is about to be started anew.

    Raises:
        SystemExit: 1, with a message, where the server did not come back.
    """
    from prefect import tags

    deadline = time.monotonic() + patience_s
    while True:
        try:
            with tags(own_tag()):
                return run()
        except RuntimeError as error:
            # Prefect repeats every request while the server restarts, except the first one.
            if _NOT_REACHED not in str(error):
                raise
            if time.monotonic() > deadline:
                sys.exit("the Prefect server went away before the run began: nothing was started, run it again")
            time.sleep(1)


def _without_server(run: Run) -> RunResult:
    """The result of a run whose server died too often: the tables are written from what was published."""
    interruption.leave_at_once()
    lost = "the command's own Prefect server died again and again: extract again, what was published stays"
    return result_without(run, lost)


class RunProgress(Progress):
    """Shows what a run is doing; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = bars(console)
        self._task = self._progress.add_task("starting", total=None, last="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def starting(self, what: str) -> None:
        """Something that takes seconds begins."""
        self._progress.update(self._task, description=escape(what))
        if not self._console.is_terminal:
            self._console.print(f"[dim]{escape(what)} …")

    def planning(self, session_id: str, number: int, count: int) -> None:
        self._progress.update(self._task, description="planning", completed=number, total=count, last=session_id)

    def planned(self, due: int, idle: int, impossible: int) -> None:
        self._progress.update(self._task, description="extracting", completed=0, total=due, last="")
        is_due, needs = "is" if due == 1 else "are", "needs" if idle == 1 else "need"
        cannot = f", {impossible} cannot be made" if impossible else ""
        self._console.print(f"{counted(due, 'feature')} {is_due} due, {idle} {needs} nothing done{cannot}")

    def finished(self, outcome: Outcome) -> None:
        name = escape(f"{outcome.session_id}/{outcome.feature}")
        self._progress.update(self._task, advance=1, last=name)
        if outcome.status is Status.DONE:
            self._console.print(f"[green]done[/] {name}: {counted(outcome.rows, 'row')} in {outcome.seconds:.1f} s")
        else:
            style = "yellow" if outcome.status is Status.MISSING else "bold red"
            self._console.print(f"[{style}]{outcome.status}[/] {name}: {escape(outcome.reason)}")

    def warned(self, line: str) -> None:
        self._console.print(f"[yellow]{escape(line)}")
