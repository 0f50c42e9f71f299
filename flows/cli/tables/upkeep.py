"""What ``verify`` found in a feature store, and what ``gc`` removed from it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from storyframes.store.maintenance import Finding, Removal
from tasks.inspect.formatting import human_bytes


def findings_table(findings: Sequence[Finding]) -> Table:
    """What ``verify`` found."""
    kinds = "damaged, lost or unreadable" if any(finding.lost for finding in findings) else "damaged or unreadable"
    table = Table(title=f"{len(findings)} {kinds}", title_justify="left")
    for heading in ("session", "feature", "file", "problem"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(*(escape(text) for text in (finding.session_id, finding.feature, finding.path, finding.problem)))
    return table


def removals_table(removals: Sequence[Removal]) -> Table:
    """What ``gc`` removed."""
    table = Table()
    table.add_column("path", overflow="fold")
    table.add_column("kind")
    table.add_column("size", justify="right")
    for removal in removals:
        table.add_row(escape(removal.path), str(removal.kind), human_bytes(removal.bytes))
    return table
