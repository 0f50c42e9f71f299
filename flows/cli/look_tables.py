"""What the commands for looking show, at most 100 columns wide in a terminal, and the same as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from flows.cli.tables import entry_json, human_bytes
from storyframes.store.catalogue import Entry
from storyframes.store.records import Status
from tasks.inspect.comparison import ColumnDifference, Comparison
from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.curves.summary import summarize_curves
from tasks.inspect.human import counted
from tasks.inspect.quality.check import find_problems
from tasks.inspect.quality.findings import QualityFinding

if TYPE_CHECKING:
    from tasks.inspect.report.site import ReportSummary  # needs plotly, which only the report has to have

_COLUMNS, _ROWS, _SPANS = 20, 5, 6


def report_table(built: ReportSummary) -> Table:
    """What a report holds."""
    facts = built.facts
    table = Table(show_header=False)
    table.add_row("sessions", str(facts.sessions))
    table.add_row("hours", f"{facts.hours:.2f}")
    table.add_row("clips", str(int(facts.clips["clips"].sum())))
    table.add_row("on disk", human_bytes(facts.bytes))
    for state, count in facts.matrix.counts().items():
        table.add_row(f"features {state}", str(count))
    having = sum(map(bool, built.findings.values()))
    table.add_row("findings", f"{sum(built.findings.values())} in {counted(having, 'session')}")
    return table


# --- one session ---


def session_tables(entries: Sequence[Entry], curves: SessionCurves | None) -> Iterator[Table | str]:
    """One session: features, curves, findings."""
    features = Table()
    for heading in ("feature", "status", "rows", "size"):
        features.add_column(heading, justify="right" if heading in ("rows", "size") else "left")
    features.add_column("notes", overflow="fold")
    for entry in entries:
        current = entry.current
        style = {Status.DONE: "green", Status.MISSING: "yellow", Status.FAILED: "bold red"}[entry.status]
        notes = [entry.reason] if entry.reason else []
        notes += current.stamps if current else []
        notes += [f"{name} {value:.4g}" for name, value in current.quality.items()] if current else []
        features.add_row(
            entry.feature,
            f"[{style}]{entry.status}[/]",
            str(current.rows) if current else "",
            human_bytes(current.nbytes) if current else "",
            escape("; ".join(notes)),
        )
    yield features
    if curves is None:
        yield "No curves: the session has no frames."
        return
    yield _curves_table(curves)
    findings = find_problems(curves)
    yield (
        _findings_table(findings) if findings else "[green]no rule is broken[/]: nothing looks wrong with the recording"
    )


def _curves_table(curves: SessionCurves) -> Table:
    table = Table(title=f"{curves.end_s:.2f} s, {len(curves.time)} frames", title_justify="left")
    for heading in ("curve", "lowest", "median", "highest", "there"):
        table.add_column(heading, justify="left" if heading == "curve" else "right", no_wrap=True)
    table.add_column("from start to end", no_wrap=True)
    for one in summarize_curves(curves):
        numbers = ["" if value is None else f"{value:.3g}" for value in (one.low, one.median, one.high)]
        table.add_row(f"{one.name} {one.unit}".strip(), *numbers, f"{one.present:.0%}", one.spark)
    return table


def _findings_table(findings: Sequence[QualityFinding]) -> Table:
    table = Table(title=counted(len(findings), "finding"), title_justify="left")
    for heading in ("finding", "what", "rule", "times (s)"):
        table.add_column(heading, overflow="fold")
    for one in findings:
        spans = ", ".join(f"{start:.2f}-{stop:.2f}" for start, stop in one.spans[:_SPANS])
        more = f" and {len(one.spans) - _SPANS} more" if len(one.spans) > _SPANS else ""
        table.add_row(f"[yellow]{one.rule}[/]", escape(one.message), escape(one.rule_text), spans + more)
    return table


def session_json(session_id: str, entries: Sequence[Entry], curves: SessionCurves | None) -> str:
    """The same for scripts."""
    content: dict[str, Any] = {"session_id": session_id, "features": [entry_json(entry) for entry in entries]}
    if curves is not None:
        content |= {
            "frames": len(curves.time),
            "end_s": curves.end_s,
            "curves": [dataclasses.asdict(one) for one in summarize_curves(curves)],
            "findings": [dataclasses.asdict(one) for one in find_problems(curves)],
        }
    return json.dumps(_finite(content), indent=1, ensure_ascii=False, allow_nan=False)


# --- two stores ---


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
    for one in compared.mismatches[:_COLUMNS]:
        table.add_row(escape(one.session_id), one.feature, escape(one.what))
    if len(compared.mismatches) > _COLUMNS:
        table.add_row("…", "", f"and {len(compared.mismatches) - _COLUMNS} more (--json has all)")
    return table


def _arrays_table(compared: Comparison) -> Table:
    table = Table()
    for heading in ("feature", "array", "columns", "beyond", "values", "values beyond", "largest"):
        table.add_column(heading, justify="left" if heading in ("feature", "array") else "right")
    for feature, array in dict.fromkeys((one.feature, one.array) for one in compared.columns):
        own = [one for one in compared.columns if (one.feature, one.array) == (feature, array)]
        beyond = sum(not one.same for one in own)
        table.add_row(
            feature,
            array,
            str(len(own)),
            f"[bold red]{beyond}[/]" if beyond else "[green]0[/]",
            str(sum(one.compared for one in own)),
            str(sum(one.beyond + one.one_sided for one in own)),
            f"{max(one.largest for one in own):.3g}",
        )
    return table


def _columns_table(different: Sequence[ColumnDifference]) -> Table:
    table = Table(title=f"{counted(len(different), 'column')} beyond tolerance", title_justify="left")
    table.add_column("column", overflow="fold")
    for heading in ("beyond", "only one has", "largest", "mean", "tolerance"):
        table.add_column(heading, justify="right")
    table.add_column("worst at", overflow="fold")
    ordered = sorted(different, key=lambda one: (one.beyond + one.one_sided) / max(one.compared, 1), reverse=True)
    for one in ordered[:_COLUMNS]:
        relative = f" + {one.tolerance.relative:.2%}" if one.tolerance.relative else ""
        table.add_row(
            escape(f"{one.feature}.{one.column}"),
            str(one.beyond),
            str(one.one_sided),
            f"{one.largest:.3g}",
            f"{one.mean:.3g}",
            f"{one.tolerance.absolute:g}{relative}",
            escape(f"{one.worst[0]}, row {one.worst[1]}") if one.worst else "",
        )
    if len(ordered) > _COLUMNS:
        table.add_row(f"and {len(ordered) - _COLUMNS} more", *[""] * 6)
    return table


def comparison_json(compared: Comparison) -> str:
    """The same for scripts, with every column."""
    content = {"same": compared.same, **dataclasses.asdict(compared)}
    for column, one in zip(content["columns"], compared.columns, strict=True):
        column["same"] = one.same
    return json.dumps(_finite(content), indent=1, ensure_ascii=False, allow_nan=False)


def _finite(content: Any) -> Any:
    """``content`` with None for numbers that JSON has not."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
