"""Charts of bars: how often each value is, how many numbers lie in each part of a range, and both by split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from tasks.inspect.formatting import counted
from tasks.inspect.report.chart import COLOURS, Chart, label

_PATTERNS = ("", "/", "x", ".", "+")


def bars(key: str, title: str, alt: str, headings: tuple[str, str], counts: Mapping[str, int], colour: str) -> Chart:
    """One bar for each value."""
    names, numbers = [label(name) for name in counts], list(counts.values())
    lying = _must_lie(list(counts))
    figure = go.Figure(
        go.Bar(
            x=numbers if lying else names,
            y=names if lying else numbers,
            orientation="h" if lying else "v",
            marker={"color": colour},
            hovertemplate=f"%{{{'y' if lying else 'x'}}}: %{{{'x' if lying else 'y'}}}<extra></extra>",
        )
    )
    _set_axes(figure, list(counts), label(headings[0]), label(headings[1]))
    return Chart(key, title, alt, figure, headings, list(counts.items()), height=_height(list(counts)))


def _must_lie(names: Sequence[object]) -> bool:
    """Whether names are too many or too long to stand below their bars, side by side."""
    return len(names) > 12 or max((len(str(name)) for name in names), default=0) > 14


def _height(names: Sequence[object]) -> int:
    return 120 + 22 * len(names) if _must_lie(names) else 280


def _set_axes(figure: go.Figure, names: Sequence[object], title: str, numbers: str) -> None:
    """The axis of the names, cut where they are long (hovering and the table tell all of them), and that of numbers."""
    ticks = [label(name) for name in names]
    shown = [label(name if len(str(name)) <= 24 else f"{str(name)[:23]}…") for name in names]
    categories = {"title": title, "type": "category", "tickvals": ticks, "ticktext": shown}
    if _must_lie(names):
        figure.update_layout(
            xaxis={"title": numbers}, yaxis=categories | {"automargin": True, "autorange": "reversed", "title": ""}
        )
    else:
        figure.update_layout(xaxis=categories, yaxis={"title": numbers})


def stacked(key: str, title: str, column: str, counts: pd.DataFrame, splits: Sequence[str]) -> Chart:
    """One bar for each row of ``counts``, with a part for each split."""
    names = list(counts.index)
    bars = [
        _of_split(split, [label(name) for name in names], counts[split].tolist(), place, lying=_must_lie(names))
        for place, split in enumerate(splits)
    ]
    figure = go.Figure(bars).update_layout(barmode="stack", showlegend=True)
    _set_axes(figure, names, "", "clips")
    rows = [(name, *(int(row[split]) for split in splits), int(row.sum())) for name, row in counts.iterrows()]
    most = rows if len(rows) <= 8 else [row for row in sorted(rows, key=lambda row: -row[-1])[:5] if row[-1]]
    parts = ", ".join(f"{name} {total}" for name, *_, total in most)
    others = f" and {len(rows) - len(most)} more" if len(most) < len(rows) else ""
    alt = f"{counted(int(counts.to_numpy().sum()), 'clip')}: {parts}{others}."
    return Chart(key, title, alt, figure, (column, *splits, "all"), rows, height=_height(names))


def _of_split(
    split: str, x: Sequence[object], y: Sequence[int], place: int, *, lying: bool = False, **more: object
) -> go.Bar:
    return go.Bar(
        name=label(split),
        x=y if lying else x,
        y=x if lying else y,
        orientation="h" if lying else "v",
        marker={"color": COLOURS[place % len(COLOURS)], "pattern": {"shape": _PATTERNS[place % len(_PATTERNS)]}},
        hovertemplate=("%{y}, {}: %{x}" if lying else "%{x}, {}: %{y}").replace("{}", label(split))
        + " clips<extra></extra>",
        **more,
    )


def histogram(key: str, title: str, unit: str, values: Sequence[float], of: str, colour: str) -> Chart:
    """How many of ``values`` lie in each part of their range."""
    data = np.asarray(values, np.float64)
    counts, edges, names = _parts(data)
    figure = go.Figure(
        go.Bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts,
            width=np.diff(edges) * 0.94,
            customdata=names,
            marker={"color": colour},
            hovertemplate=f"%{{customdata}} {label(unit)}: %{{y}} {of}<extra></extra>",
        )
    )
    figure.update_layout(xaxis={"title": label(unit)}, yaxis={"title": of})
    rows = [(name, int(count)) for name, count in zip(names, counts, strict=True)]
    return Chart(key, title, _range(data, of, unit), figure, (unit, of), rows)


def stacked_histogram(
    key: str, title: str, unit: str, values: Mapping[str, Sequence[float]], splits: Sequence[str]
) -> Chart:
    """The same for the numbers of each split, above one another."""
    data = np.concatenate([np.asarray(values.get(split, ()), np.float64) for split in splits])
    _, edges, names = _parts(data)
    by_split = {split: np.histogram(values.get(split, ()), bins=edges)[0] for split in splits}
    middle, width = (edges[:-1] + edges[1:]) / 2, np.diff(edges) * 0.94
    figure = go.Figure(
        [
            _of_split(split, middle, counts.tolist(), place, width=width)
            for place, (split, counts) in enumerate(by_split.items())
        ]
    )
    figure.update_layout(barmode="stack", showlegend=True, xaxis={"title": label(unit)}, yaxis={"title": "clips"})
    table = np.stack(list(by_split.values()), axis=1)
    rows = [(name, *map(int, row), int(row.sum())) for name, row in zip(names, table, strict=True)]
    return Chart(key, title, _range(data, "clips", unit), figure, (unit, *splits, "all"), rows)


def _parts(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    counts, edges = np.histogram(data, bins=min(24, max(5, round(len(data) ** 0.5))))
    return counts, edges, [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]


def _range(data: np.ndarray, of: str, unit: str) -> str:
    return (
        f"{len(data)} {of}: from {data.min():.4g} to {data.max():.4g} {unit}, "
        f"median {np.median(data):.4g}, mean {data.mean():.4g}."
    )
