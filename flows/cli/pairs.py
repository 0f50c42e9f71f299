"""``storyframes pairs``: scores of story pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.terminal import LOOK, console, fail, usage_errors

pairs_app = typer.Typer(help="Scores of how similar two stories are.", no_args_is_help=True, **LOOK)


@pairs_app.callback()
def _root() -> None:
    """Keeps ``evaluate`` a command of its own name while it is the only one."""


@pairs_app.command("evaluate")
def evaluate(
    file: Annotated[Path, typer.Argument(help="A table (CSV, Parquet): a row a pair, with labels and scores.")],
    score: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Scores from 1 to 4, as the labels; repeat.")
    ] = None,
    cosine: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Cosines, which become 1 + 3 max(0, cos); repeat.")
    ] = None,
    times4: Annotated[bool, typer.Option("--times4", help="Cosines become 4 cos.")] = False,
    ab: Annotated[str | None, typer.Option(metavar="COLUMN", help="Scores of A with B; needs --ba.")] = None,
    ba: Annotated[str | None, typer.Option(metavar="COLUMN", help="Scores of B with A; the mean counts.")] = None,
    threshold: Annotated[float, typer.Option(help="Above it a pair is similar.")] = 2.5,
    json: Annotated[bool, typer.Option("--json", help="For scripts: one object on stdout.")] = False,
) -> None:
    """What scores of pairs are worth, against the labels of each aspect."""
    from flows.cli.tables.pairs import pairs_json, pairs_tables
    from tasks.pairs import metrics
    from tasks.pairs.table import CosineScale, read_pairs
    from tasks.statistics.rating_table import TableFaultError

    if (ab is None) != (ba is None):
        fail("--ab and --ba belong together: the scores of both orders", 2)
    if not (score or cosine or ab):
        fail("name the scores: --score, --cosine, or --ab with --ba", 2)
    scale = CosineScale.TIMES4 if times4 else CosineScale.CLIPPED
    orders = (ab, ba) if ab is not None and ba is not None else None
    with usage_errors():
        try:
            table = read_pairs(file, scores=score or (), cosines=cosine or (), orders=orders, scale=scale)
        except TableFaultError as error:
            fail(str(error), 2)
    evaluated = metrics.evaluate(table, threshold)
    if json:
        print(pairs_json(evaluated))  # noqa: T201
    else:
        shown = console()
        for part in pairs_tables(evaluated):
            shown.print(part)
