"""How two feature stores differ, and what a report holds: for people and for scripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich import filesize
from rich.markup import escape
from rich.table import Table

from flows.cli import finite_json
from storyframes_report.compare import ColumnDifference, Comparison
from tasks.inspect import counted

if TYPE_CHECKING:
    from storyframes_report.report.site import ReportSummary  # needs plotly, which only the report has to have


_COLUMNS, _ROWS = 20, 5


def comparison_tables(compared: Comparison) -> Iterator[Table | str]:
    """What differs between two stores: what only one has, columns, frames, the verdict."""
    if compared.mismatches:
        yield _mismatches_table(compared)
    yield _arrays_table(compared)
    different = [column for column in compared.columns if not column.same]
    if different:
        yield _columns_table(different)
    for feature, rows in compared.worst_rows.items():
        table = Table(title=f"{feature}: worst rows", title_justify="left")
        for heading in ("session", "array", "row", "time (s)", "columns beyond"):
            table.add_column(heading, justify="left" if heading in ("session", "array") else "right")
        for row in rows[:_ROWS]:
            time = "" if row.time_s is None else f"{row.time_s:.2f}"
            table.add_row(escape(row.session_id), row.array, str(row.row), time, str(row.columns))
        yield table
    if compared.unknown:
        yield (
            f"No extractor installed here writes {escape(', '.join(compared.unknown))}: the values had to be exactly "
            "the same, save where --tolerance says otherwise."
        )
    columns = counted(len(compared.columns), "column")
    compared_all = f"{counted(compared.sessions, 'session')} in both, {columns} compared"
    mismatches = f"{len(compared.mismatches)} {'mismatch' if len(compared.mismatches) == 1 else 'mismatches'}"
    if compared.same:
        yield f"[green]the same[/] within tolerance: {compared_all}"
    else:
        yield f"[bold red]different[/]: {counted(len(different), 'column')}, {mismatches}; {compared_all}"


def _mismatches_table(compared: Comparison) -> Table:
    table = Table(title=f"{len(compared.mismatches)} cannot be compared", title_justify="left")
    for heading in ("session", "feature", "what"):
        table.add_column(heading, overflow="fold")
    for mismatch in compared.mismatches[:_COLUMNS]:
        table.add_row(escape(mismatch.session_id), mismatch.feature, escape(mismatch.what))
    if len(compared.mismatches) > _COLUMNS:
        table.add_row("…", "", f"and {len(compared.mismatches) - _COLUMNS} more (--json has all)")
    return table


def _arrays_table(compared: Comparison) -> Table:
    table = Table()
    for heading in ("feature", "array", "columns", "beyond", "values", "values beyond", "largest"):
        table.add_column(heading, justify="left" if heading in ("feature", "array") else "right")
    for feature, array in dict.fromkeys((column.feature, column.array) for column in compared.columns):
        own = [column for column in compared.columns if (column.feature, column.array) == (feature, array)]
        beyond = sum(not column.same for column in own)
        table.add_row(
            feature,
            array,
            str(len(own)),
            f"[bold red]{beyond}[/]" if beyond else "[green]0[/]",
            str(sum(column.compared for column in own)),
            str(sum(column.beyond + column.one_sided for column in own)),
            f"{max(column.largest for column in own):.3g}",
        )
    return table


def _columns_table(different: Sequence[ColumnDifference]) -> Table:
    table = Table(title=f"{counted(len(different), 'column')} beyond tolerance", title_justify="left")
    table.add_column("column", overflow="fold")
    for heading in ("beyond", "only one has", "largest", "mean", "tolerance"):
        table.add_column(heading, justify="right")
    table.add_column("worst at", overflow="fold")
    ordered = sorted(
        different, key=lambda column: (column.beyond + column.one_sided) / max(column.compared, 1), reverse=True
    )
    for column in ordered[:_COLUMNS]:
        relative = f" + {column.tolerance.relative:.2%}" if column.tolerance.relative else ""
        table.add_row(
            escape(f"{column.feature}.{column.column}"),
            str(column.beyond),
            str(column.one_sided),
            f"{column.largest:.3g}",
            f"{column.mean:.3g}",
            f"{column.tolerance.absolute:g}{relative}",
            escape(f"{column.worst[0]}, row {column.worst[1]}") if column.worst else "",
        )
    if len(ordered) > _COLUMNS:
        table.add_row(f"and {len(ordered) - _COLUMNS} more", *[""] * 6)
    return table


def comparison_json(compared: Comparison) -> str:
    """The same for scripts, with every column."""
    content = {"same": compared.same, **dataclasses.asdict(compared)}
    for column, difference in zip(content["columns"], compared.columns, strict=True):
        column["same"] = difference.same
    return finite_json(content)


def report_table(built: ReportSummary) -> Table:
    """What a report holds."""
    facts = built.facts
    table = Table(show_header=False)
    table.add_row("sessions", str(facts.sessions))
    table.add_row("hours", f"{facts.hours:.2f}")
    table.add_row("clips", str(facts.clips))
    table.add_row("on disk", filesize.decimal(facts.bytes))
    for state, count in facts.matrix.counts().items():
        table.add_row(f"features {state}", str(count))
    having = sum(map(bool, built.findings.values()))
    table.add_row("findings", f"{sum(built.findings.values())} in {counted(having, 'session')}")
    return table
