"""``storyframes empathy evaluate``: what runs are worth, from their predictions alone."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from flows.cli import cannot_write, error_console, fail, finite_json, need, refused_if
from storyframes_empathy import DISTRIBUTION


class _Level(StrEnum):
    CLIP = "clip"
    STORY = "story"


class _Format(StrEnum):
    MD = "md"
    CSV = "csv"
    JSON = "json"
    TEX = "tex"


def evaluate(
    runs: Annotated[Path, typer.Argument(help="A folder with runs: run.json beside predictions.parquet, in any tree.")],
    level: Annotated[
        _Level, typer.Option(help="Score every clip, or each story by the mean of its clips.")
    ] = _Level.CLIP,
    split: Annotated[str, typer.Option(help="The split of the clips.")] = "test",
    kind: Annotated[_Format, typer.Option("--format", help="json also has intervals and p of every run.")] = _Format.MD,
    published: Annotated[
        bool, typer.Option("--published", help="Also show the paper's tables of these phases.")
    ] = False,
    each_once: Annotated[
        bool,
        typer.Option("--each-once", help="Count every clip once, also if runs have copies."),
    ] = False,
    allow_leaked: Annotated[
        bool, typer.Option("--allow-leaked", help="Exit 0 although a participant is in two splits.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write into this file instead of stdout.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a page into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts: the same as --format json.")] = False,
) -> None:
    """Score runs by their predictions, also those of models trained elsewhere.

    Exit 1 if a run is left out, a participant is in two splits, or scores are not on the scale that their run declares.
    """
    need("scipy", "", DISTRIBUTION)
    need("pydantic", "", DISTRIBUTION)
    for module in ("plotly", "jinja2") if report else ():
        need(module, "report", DISTRIBUTION)
    from storyframes.store import write_atomically
    from storyframes_empathy.scores.evaluation import evaluate as evaluate_runs
    from storyframes_empathy.scores.run_record import Level, RunError
    from storyframes_empathy.scores.table_formats import Format, content, written
    from storyframes_empathy.scores.tables import build_tables, published_tables

    kind = _Format.JSON if as_json else kind
    with refused_if(RunError):
        done = evaluate_runs(runs, Level(level), split, each_once=each_once, intervals=kind is _Format.JSON)
    tables = build_tables(done)
    if published:
        tables += published_tables({table.about["phase"] for table in tables})
    text = f"{finite_json(content(tables, done))}\n" if kind is _Format.JSON else written(tables, done, Format(kind))
    if out:
        try:
            write_atomically(out, text.encode())
        except OSError as error:
            cannot_write(out, error)
    elif done.runs or kind is _Format.JSON:
        print(text, end="")  # noqa: T201
    for note in done.notes if kind is _Format.CSV else ():  # a file of rows has no place for them
        error_console().print(f"[yellow]note[/] {escape(note)}")
    for fault in done.faults:
        error_console().print(f"[bold red]left out[/] {escape(fault)}")
    if report and done.runs:
        from storyframes_empathy.report.benchmark_page import write_benchmark
        from storyframes_report import ReportError

        try:
            write_benchmark(done, tables, runs, report)
        except ReportError as error:
            fail(str(error), 2)
        except OSError as error:
            cannot_write(report, error)
        error_console().print(f"Open {escape(str(report / 'index.html'))}", soft_wrap=True)
    if not done.runs:
        fail(f"{runs}: no run could be scored", 1)
    alarms = [*([] if allow_leaked else done.leaks), *done.off_scale]
    for alarm in alarms:
        more = " (--allow-leaked: exit 0)" if alarm in done.leaks else ""
        error_console().print(f"[bold red]not to be used[/] {escape(alarm + more)}", soft_wrap=True)
    if done.faults or alarms:
        raise typer.Exit(1)
