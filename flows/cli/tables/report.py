"""What a report about a study holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tasks.inspect.formatting import counted, human_bytes

if TYPE_CHECKING:
    from tasks.inspect.report.site import ReportSummary  # needs plotly, which only the report has to have


def report_table(built: ReportSummary) -> Table:
    """What a report holds."""
    facts = built.facts
    table = Table(show_header=False)
    table.add_row("sessions", str(facts.sessions))
    table.add_row("hours", f"{facts.hours:.2f}")
    table.add_row("clips", str(facts.clips))
    table.add_row("on disk", human_bytes(facts.bytes))
    for state, count in facts.matrix.counts().items():
        table.add_row(f"features {state}", str(count))
    having = sum(map(bool, built.findings.values()))
    table.add_row("findings", f"{sum(built.findings.values())} in {counted(having, 'session')}")
    return table
