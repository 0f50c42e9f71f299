"""The extractors that there are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from tasks.extractors.base import Run
from tasks.extractors.overview import ExtractorState

_RUNS = {Run.INLINE: "in the worker", Run.VENV: "own environment", Run.CONTAINER: "container"}


def extractors_table(states: Sequence[ExtractorState]) -> Table:
    """The extractors: what they read, where they run, whether they can, what they cost."""
    table = Table()
    for heading in ("feature", "reads", "runs", "from", "here", "CPU-s per s", "private"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "CPU-s per s" else "left")
    for state in states:
        table.add_row(
            escape(state.feature),
            ", ".join(state.inputs) or "nothing",
            _RUNS[state.run],
            escape(state.origin) or "storyframes",
            f"[red]no[/]: {escape(state.missing)}" if state.missing else "[green]yes[/]",
            f"{state.cost.cpu_s_per_s:g}",
            "yes" if state.private else "no",
        )
    return table
