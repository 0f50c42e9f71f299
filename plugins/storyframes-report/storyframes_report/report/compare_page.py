"""The page of a comparison: which columns differ, by how much, and the worst frames."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import plotly.graph_objects as go

from storyframes_report.compare import ColumnDifference, Comparison
from storyframes_report.report.chart import BLUE, ORANGE, Chart, label
from storyframes_report.report.pages import new_site, render

_DRAWN = 40


def write_comparison(comparison: Comparison, name_a: str, name_b: str, out: Path) -> None:
    """Write the comparison as a site into ``out``.

    Args:
        out: a new or empty folder, or an older report.

    Raises:
        ReportError: ``out`` holds something else.
        OSError: it cannot be written.
    """
    with new_site(out) as site:
        different = [column for column in comparison.columns if not column.same or column.largest > 0]
        page = render(
            "compare.html",
            root="",
            name_a=name_a,
            name_b=name_b,
            comparison=comparison,
            different=sorted(different, key=severity, reverse=True),
            charts=_charts(different),
        )
        (site / "index.html").write_text(page, encoding="utf-8")


def severity(column: ColumnDifference) -> tuple[bool, float, int]:
    """The order in which to look at columns: beyond tolerance first, then by multiples of it."""
    return not column.same, times_tolerance(column), column.one_sided


def times_tolerance(column: ColumnDifference) -> float:
    """The largest difference as a multiple of its tolerance; infinite where the tolerance is 0."""
    value = abs(column.worst_values[0]) if math.isfinite(column.worst_values[0]) else 0.0
    allowed = column.tolerance.absolute + column.tolerance.relative * value
    if column.largest == 0:
        return 0.0
    return column.largest / allowed if allowed else math.inf


def _charts(different: list[ColumnDifference]) -> list[Chart]:
    charts = []
    for feature in dict.fromkeys(column.feature for column in different):
        columns = sorted((column for column in different if column.feature == feature), key=severity, reverse=True)
        drawn = columns[:_DRAWN]
        largest = np.array([column.largest if math.isfinite(column.largest) else np.nan for column in drawn])
        figure = go.Figure(
            go.Bar(
                orientation="h",
                y=[label(column.column) for column in drawn],
                x=largest,
                marker={
                    "color": [BLUE if column.same else ORANGE for column in drawn],
                    "pattern": {"shape": ["" if column.same else "/" for column in drawn]},
                },
                hovertemplate="%{y}: %{x:.4g}<extra></extra>",
            )
        )
        figure.update_layout(
            xaxis={"title": "largest difference", "rangemode": "tozero"},
            yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        )
        beyond = sum(not column.same for column in columns)
        alt = f"{beyond} columns of {feature} are beyond their tolerance (hatched); the first {len(drawn)} are drawn."
        key = feature.replace("/", "-").replace("@", "-")
        charts.append(Chart(f"columns-{key}", feature, alt, figure, height=120 + 20 * len(drawn)))
    return charts
