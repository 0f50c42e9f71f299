"""The page of a study's topics: where each story lies, and which belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from storyframes_report import COLOURS, Chart, label, new_site, render

FILE = "topics.parquet"
_SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "star", "x")
_SHOWN = 160  # characters of a story's text in a hover


@dataclass(frozen=True)
class TopicsPage:
    """What the page shows.

    Attributes:
        title: of the study.
        table: story_id, x, y and topic of each story.
        silhouette: how well the topics part.
        settings: what decided them.
        caveats: what the numbers do not tell by themselves.
        terms: of each topic; None where no word may be shown.
        texts: of each row of the table; likewise.
    """

    title: str
    table: pd.DataFrame
    silhouette: float
    settings: dict[str, str]
    caveats: tuple[str, ...] = ()
    terms: Sequence[Sequence[str]] | None = None
    texts: Sequence[str] | None = None


def write_topics(page: TopicsPage, out: Path) -> None:
    """Write the page and, beside it, ``topics.parquet`` into ``out``.

    Raises:
        ReportError: ``out`` holds something else.
        OSError: it cannot be written.
    """
    with new_site(out) as site:
        page.table.to_parquet(site / FILE, index=False)
        topics = [
            (topic, len(rows), ", ".join(page.terms[int(topic)]) if page.terms else "")
            for topic, rows in page.table.groupby("topic")
        ]
        shown = render(
            "topics.html", "storyframes_empathy.report", root="", page=page, topics=topics, charts=[_chart(page)]
        )
        (site / "index.html").write_text(shown, encoding="utf-8")


def _chart(page: TopicsPage) -> Chart:
    figure = go.Figure()
    for topic, rows in page.table.groupby("topic"):
        place = int(topic)
        hover = [_hover(page, int(row)) for row in rows.index]
        figure.add_trace(
            go.Scatter(
                x=rows["x"].to_numpy(np.float64),
                y=rows["y"].to_numpy(np.float64),
                mode="markers",
                name=f"topic {place}",
                text=hover,
                hovertemplate="%{text}<extra></extra>",
                marker={
                    "color": COLOURS[place % len(COLOURS)],
                    "symbol": _SYMBOLS[place // len(COLOURS) % len(_SYMBOLS)],
                    "size": 8,
                },
            )
        )
    figure.update_layout(xaxis={"visible": False}, yaxis={"visible": False}, showlegend=True)
    count = page.table["topic"].nunique()
    alt = f"{len(page.table)} stories in {count} topics; near ones have similar embeddings. The axes mean nothing."
    numbers = [(row.story_id, row.topic, f"{row.x:.2f}", f"{row.y:.2f}") for row in page.table.itertuples()]
    return Chart("topics", "Stories", alt, figure, ("story", "topic", "x", "y"), numbers, height=520)


def _hover(page: TopicsPage, row: int) -> str:
    name = label(page.table["story_id"][row])
    if page.texts is None:
        return name
    text = page.texts[row]
    return f"{name}<br>{label(text[:_SHOWN])}{'…' if len(text) > _SHOWN else ''}"
