"""Bars of progress on a terminal: what is done, how many of how many, since when, and what is at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


def bars(shown: Console) -> Bars:
    """A line with what is done, a bar, how many of how many, the time since it began, and what is at hand.

    Where the console is no terminal it shows nothing.
    """
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[last]}"),
        console=shown,
        transient=True,
        redirect_stdout=False,  # which is for data, and may be a file
        disable=not shown.is_terminal,
    )


@contextmanager
def progress_bar(doing: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr while the block runs; gives the function that moves it.

    The function is called with (what, number, how many) before each of them.
    """
    with bars(Console(stderr=True, emoji=False)) as shown:
        task = shown.add_task(doing, total=None, last="")

        def progress(what: str, number: int, count: int) -> None:
            shown.update(task, completed=number - 1, total=count, last=escape(what))

        yield progress
