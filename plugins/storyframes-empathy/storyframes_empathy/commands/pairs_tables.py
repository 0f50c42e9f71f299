"""What scores of pairs are worth: for people and for scripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from flows.cli.tables.finite_json import finite_json
from storyframes_empathy.pairs.metrics import Evaluation

_HEADINGS = {
    **{name: name for name in ("r", "rho", "mse", "acc")},
    "precision": "P",
    "recall": "R",
    "f1": "F1",
    "order_gap": "order\ngap",
}


def pairs_tables(evaluated: Evaluation) -> Iterator[Table | str]:
    """A row for each column of scores and aspect."""
    table = Table()
    has_orders = any(row.order_gap is not None for row in evaluated.rows)
    numbers = [name for name in _HEADINGS if has_orders or name != "order_gap"]
    for heading in ("scores", "aspect"):
        table.add_column(heading, overflow="fold")
    for heading in ("pairs", "missing", *(_HEADINGS[name] for name in numbers)):
        table.add_column(heading, justify="right")
    for row in evaluated.rows:
        values = (getattr(row, name) for name in numbers)
        shown = ("–" if value is None else f"{value:.3f}" for value in values)
        table.add_row(escape(row.scores), row.aspect, str(row.pairs), str(row.missing), *shown)
    yield table
    yield f"acc, and P, R and F1 (macro), of what is above {evaluated.threshold:g}"
    for aspect, counts in evaluated.labels.items():
        yield f"labels of {aspect}, by their floor: {', '.join(f'{step}: {count}' for step, count in counts.items())}"
    for remark in evaluated.remarks:
        yield f"[yellow]look at[/] {escape(remark)}"


def pairs_json(evaluated: Evaluation) -> str:
    """The same for scripts."""
    return finite_json(dataclasses.asdict(evaluated))
