"""What is on a machine, and what to do about what is not: for people and for scripts."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from flows.cli.tables.finite_json import finite_json
from flows.doctor.findings import Finding, State

_STYLE = {State.HERE: "green", State.GAP: "yellow", State.FAULT: "bold red"}


def doctor_table(findings: Sequence[Finding]) -> Table:
    """One row for each thing that was looked at; below a gap what to do about it."""
    table = Table()
    for heading in ("", "about", "what there is"):
        table.add_column(heading, overflow="fold")
    for one in findings:
        advice = f"\n[bold]→[/] {escape(one.advice)}" if one.advice else ""
        table.add_row(f"[{_STYLE[one.state]}]{one.state}[/]", escape(one.about), f"{escape(one.what)}{advice}")
    return table


def doctor_json(findings: Sequence[Finding]) -> str:
    """The same for scripts."""
    works = not any(one.is_fault for one in findings)
    return finite_json({"works": works, "findings": [one.to_json() for one in findings]})
