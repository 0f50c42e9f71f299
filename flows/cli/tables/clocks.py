"""Clocks that were measured."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from tasks.inspect.formatting import human_time
from tasks.synchronise import Proposal


def clocks_table(proposals: Sequence[Proposal]) -> Table:
    """One row a clock: the moments that it would be written as, and how sure they are."""
    table = Table()
    for heading in ("session", "track", "clock", "", "clock_s = session_s", "drift"):
        table.add_column(heading, overflow="fold")
    for heading in ("shared", "pieces", "score", "residual"):
        table.add_column(heading, justify="right")
    for one in proposals:
        cells = [escape(one.session_id), escape(one.track), escape(one.clock), one.outcome.value]
        if match := one.match:
            moments = zip(match.device_s, match.session_s, strict=True)
            cells += [", ".join(f"{here:.10g} = {there:.10g}" for here, there in moments)]
            cells += [f"{match.drift_ppm:+.1f} ppm" if match.drift_ppm else "none seen"]
            cells += [human_time(match.shared_s), f"{match.agreeing} of {match.pieces}", f"{match.score:.2f}"]
            cells += [f"{match.residual_ms:.1f} ms"]
        table.add_row(*cells)
    return table
