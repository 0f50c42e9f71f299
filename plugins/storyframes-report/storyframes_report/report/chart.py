"""One chart: a plotly figure, a description in words, and its numbers as a table for readers who cannot see it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from markupsafe import Markup
from plotly.io.json import to_json_plotly

from storyframes_report.report.packing import pack_figure

# Told apart by colour-blind readers, and each with a contrast of at least 3:1 with the page's light and with its dark
# background (tests/inspect/test_report_light.py); the pages set no colour by name.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#1f78b4", "#d55e00", "#0eaa4f", "#9d26d9", "#8f8f8f"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY)
TEXT_ON = {BLUE: "#fff", ORANGE: "#000", GREEN: "#000", PURPLE: "#fff", GREY: "#000"}  # at least 4.5:1
# Traces of the bundle assets/plotly-cartesian.min.js.
CARTESIAN = frozenset(
    ("bar", "box", "contour", "heatmap", "histogram", "histogram2d", "histogram2dcontour", "image", "pie", "scatter",
     "scatterternary", "violin")
)  # fmt: skip
LIGHT_BACKGROUND, DARK_BACKGROUND = "#ffffff", "#14161a"


@dataclass(frozen=True)
class Chart:
    """A chart of a page."""

    key: str  # its id on the page: lower-case letters and hyphens
    title: str  # heading
    alt: str  # a description in one or two sentences with the important numbers
    figure: go.Figure  # plotly's; every text in it is escaped by :func:`label`
    # headings, rows: its numbers; without them the page shows no table
    headings: tuple[str, ...] = ()
    rows: Sequence[tuple[object, ...]] = ()
    height: int = 280  # of the drawing, CSS pixels

    @property
    def is_cartesian(self) -> bool:
        """Whether the pages' bundle of plotly.js draws it; the whole one is three times as large."""
        return all(trace.type in CARTESIAN for trace in self.figure.data)

    @property
    def data(self) -> Markup:
        """The figure for a ``<script type="application/json">``, in which no text of it can end the element."""
        figure = self.figure.to_dict()
        figure["layout"].pop("template", None)  # the pages bring their own colours
        return embed_json(to_json_plotly(pack_figure(figure)))


def label(text: object) -> str:
    """``text`` escaped for plotly, which reads tags and entities."""
    return html.escape(str(text), quote=False)


def embed_json(content: object) -> Markup:
    """JSON without ``<``, ``>`` and ``&``, safe in an HTML page; a string is JSON already."""
    text = content if isinstance(content, str) else json.dumps(content, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - made safe in the line above
