"""One session: its features, its curves and what looks wrong with it; for people and for scripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.cli.tables.finite_json import finite_json
from flows.cli.tables.status import STYLE, entry_json
from storyframes.features import in_order
from storyframes.store.catalogue import Entry
from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.curves.summary import summarize_curves
from tasks.inspect.human import counted, human_bytes
from tasks.inspect.quality.check import find_problems
from tasks.inspect.quality.findings import QualityFinding

_SPANS = 6  # of a finding


def session_tables(entries: Sequence[Entry], curves: SessionCurves | None) -> Iterator[Table | str]:
    """One session: features, curves, findings."""
    features = Table()
    for heading in ("feature", "status", "rows", "size"):
        features.add_column(heading, justify="right" if heading in ("rows", "size") else "left")
    for heading in ("caveats", "notes"):
        features.add_column(heading, overflow="fold")
    place = {name: number for number, name in enumerate(in_order(entry.feature for entry in entries))}
    for entry in sorted(entries, key=lambda entry: place[entry.feature]):
        current = entry.current
        notes = [entry.reason] if entry.reason else []
        notes += [f"{name} {value:.4g}" for name, value in current.quality.items()] if current else []
        features.add_row(
            escape(entry.feature),
            f"[{STYLE[entry.status]}]{entry.status}[/]",
            str(current.rows) if current else "",
            human_bytes(current.nbytes) if current else "",
            escape("; ".join(current.caveats)) if current else "",
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
        table.add_row(escape(f"{one.name} {one.unit}".strip()), *numbers, f"{one.present:.0%}", one.spark)
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
    return finite_json(content)
