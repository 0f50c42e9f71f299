"""The page of a comparison: which columns differ, by how much, and at which frames to look."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import plotly.graph_objects as go

from storyframes.tracks import SIGN
from tasks.inspect.comparison import ColumnDifference, Comparison
from tasks.inspect.report.chart import BLUE, ORANGE, Chart, label
from tasks.inspect.report.folder import new_site
from tasks.inspect.report.pages import render

_DRAWN = 40


def write_comparison(comparison: Comparison, name_a: str, name_b: str, out: Path) -> None:
    """Write the comparison as a site into ``out``.

    Args:
        comparison: of A with B.
        name_a, name_b: how the page calls the two.
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
    """The largest difference as a multiple of what was allowed there; infinite where nothing was."""
    at = abs(column.worst_values[0]) if math.isfinite(column.worst_values[0]) else 0.0
    allowed = column.tolerance.absolute + column.tolerance.relative * at
    if column.largest == 0:
        return 0.0
    return column.largest / allowed if allowed else math.inf


def _charts(different: list[ColumnDifference]) -> list[Chart]:
    charts = []
    for feature in dict.fromkeys(column.feature for column in different):
        own = sorted((one for one in different if one.feature == feature), key=severity, reverse=True)[:_DRAWN]
        names = [label(one.column) for one in own]
        largest = np.array([one.largest if math.isfinite(one.largest) else np.nan for one in own])
        figure = go.Figure(
            go.Bar(
                orientation="h",
                y=names,
                x=largest,
                marker={
                    "color": [BLUE if one.same else ORANGE for one in own],
                    "pattern": {"shape": ["" if one.same else "/" for one in own]},
                },
                hovertemplate="%{y}: %{x:.4g}<extra></extra>",
            )
        )
        figure.update_layout(
            xaxis={"title": "largest difference", "rangemode": "tozero"},
            yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        )
        beyond = sum(not one.same for one in different if one.feature == feature)
        alt = f"{beyond} columns of {feature} are beyond their tolerance (hatched); drawn are the first {len(own)}."
        key = feature.replace("/", "-").replace(SIGN, "-")
        charts.append(Chart(f"columns-{key}", feature, alt, figure, height=120 + 20 * len(own)))
    return charts
