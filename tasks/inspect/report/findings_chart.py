"""The study page's chart of findings: which rules are broken, in how many sessions, how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from tasks.inspect.findings import QualityFinding, Rule
from tasks.inspect.formatting import counted
from tasks.inspect.report.chart import ORANGE, Chart, label


def findings_chart(found: Mapping[str, Sequence[QualityFinding]]) -> Chart | None:
    """One bar for each rule that some session breaks; None where none does.

    Args:
        found: by session, the findings of all its tracks.
    """
    rows = []
    for rule in Rule:
        of_rule = {session: [one for one in ones if one.rule == rule] for session, ones in found.items()}
        findings = [one for ones in of_rule.values() for one in ones]
        if findings:
            sessions = sum(map(bool, of_rule.values()))
            listed_s = sum(stop - start for one in findings for start, stop in one.spans)
            rows.append((str(rule), sessions, len(findings), f"{listed_s:.1f}"))
    if not rows:
        return None
    rows.sort(key=lambda row: -row[1])
    figure = go.Figure(
        go.Bar(
            x=[sessions for _, sessions, *_ in rows],
            y=[label(rule) for rule, *_ in rows],
            orientation="h",
            marker={"color": ORANGE},
            hovertemplate="%{y}: %{x} sessions<extra></extra>",
        )
    )
    figure.update_layout(
        xaxis={"title": "sessions", "range": [0, len(found)], "tickformat": "d"},
        yaxis={"type": "category", "automargin": True, "autorange": "reversed"},
    )
    touched = sum(map(bool, found.values()))
    parts = ", ".join(f"{rule} in {sessions}" for rule, sessions, *_ in rows)
    alt = f"{touched} of {counted(len(found), 'session')} with a finding: {parts}."
    headings = ("rule", "sessions", "findings", "seconds listed")
    return Chart(
        "findings-by-rule", "Findings over the study", alt, figure, headings, rows, height=130 + 34 * len(rows)
    )
