"""Progress of a run on a terminal, or as plain lines where there is none. Everything goes to stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from flows.run import Progress
from storyframes.store.records import Status
from tasks.extract import Outcome
from tasks.inspect.formatting import counted


class RunProgress(Progress):
    """Shows what a run is doing; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[last]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
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
