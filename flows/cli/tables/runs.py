"""The runs that a Prefect server knows: for people and for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from flows.runs.recent import Run
from tasks.inspect.formatting import human_time


def runs_table(runs: Sequence[Run]) -> Table:
    """The runs that a server knows."""
    table = Table()
    for column in ("started (UTC)", "run", "state", "took", "what came of it"):
        table.add_column(column, overflow="fold")
    styles = {"Completed": "green", "PartialSuccess": "yellow", "Failed": "bold red", "Crashed": "bold red"}
    for run in runs:
        started = f"{run.started:%Y-%m-%d %H:%M}" if run.started else ""
        state = f"[{styles.get(run.state, 'default')}]{escape(run.state)}"
        table.add_row(started, escape(run.name), state, human_time(run.seconds), escape(run.message[:300]))
    return table


def runs_json(runs: Sequence[Run]) -> str:
    """The same for scripts."""
    return json.dumps([run.to_json() for run in runs], indent=2)
