"""The study page's charts: sessions, participants, labels, clips and findings.

Those of sessions and participants are the paper's Figures 3 and 4, for any study. Bars count values, numbers in parts
of their range (histograms), or both by split (stacked).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, pairwise

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from storyframes_report.report.chart import BLUE, COLOURS, GREEN, ORANGE, PURPLE, Chart, label
from storyframes_report.report.facts import StudyFacts
from storyframes_report.report.label_facts import SchemeFacts
from tasks.inspect import Rule, counted

_TIMEPOINTS = ("pre", "mid", "post")
_MEASURES, _OUTLIERS = 16, 4  # of a chart, and of a measure
_FARTHEST = 12.0  # robust standard deviations; farther outliers are drawn there


def study_charts(facts: StudyFacts) -> list[Chart]:
    """Every chart that the study has data for."""
    return [*_about_sessions(facts), *_given_labels(facts), *_about_participants(facts), *_about_clips(facts)]


def _about_sessions(facts: StudyFacts) -> Iterator[Chart]:
    if facts.lengths_s:
        unit, size = ("minutes", 60) if max(facts.lengths_s.values()) >= 180 else ("seconds", 1)
        lengths = [seconds / size for seconds in facts.lengths_s.values()]
        yield histogram("session-lengths", "How long are the sessions?", unit, lengths, "sessions", BLUE)
    if facts.words:
        yield histogram(
            "words", "How much is said in a session?", "words", list(facts.words.values()), "sessions", GREEN
        )


def _about_participants(facts: StudyFacts) -> Iterator[Chart]:
    if facts.ages:
        yield histogram("ages", "How old are the participants?", "years", facts.ages, "participants", BLUE)
    if facts.traits:
        alt = f"Scores of {len(facts.traits)} scales that were taken once: {_medians(facts.traits)}."
        yield _boxes("traits", "How do participants score once?", alt, {"score": facts.traits})
    if facts.states:
        points = dict.fromkeys(point for taken in facts.states.values() for point in taken)
        by_time = {
            point: {scale: taken[point] for scale, taken in facts.states.items() if point in taken}
            for point in sorted(points, key=lambda point: _TIMEPOINTS.index(point) if point in _TIMEPOINTS else 3)
        }
        medians = "; ".join(f"{point}: {_medians(scales)}" for point, scales in by_time.items())
        alt = f"Scores of {len(facts.states)} scales before, during and after the study. Medians, {medians}."
        yield _boxes("states", "How do scores change over the study?", alt, by_time)


def _about_clips(facts: StudyFacts) -> Iterator[Chart]:
    splits = [row.split for row in facts.splits.rows]
    if facts.clips:
        yield stacked("clips-by-phase", "How are the clips of each phase split?", "phase", facts.phases, splits)
    yield from _labels_of_clips(facts, splits)


def _boxes(key: str, title: str, alt: str, groups: Mapping[str, Mapping[str, Sequence[float]]]) -> Chart:
    """A box for each scale; one colour for each group."""
    figure, rows = go.Figure(), []
    for (group, scales), colour in zip(groups.items(), cycle((BLUE, ORANGE, PURPLE)), strict=False):
        xs = [score for scores in scales.values() for score in scores]
        ys = [label(scale) for scale, scores in scales.items() for _ in scores]
        figure.add_trace(
            go.Box(
                name=label(group), orientation="h", x=xs, y=ys, marker={"color": colour}, boxpoints="all", pointpos=0
            )
        )
        rows += [
            (scale, group, len(scores), *(f"{value:.3g}" for value in np.percentile(scores, (25, 50, 75))))
            for scale, scores in scales.items()
        ]
    figure.update_layout(
        boxmode="group",
        showlegend=len(groups) > 1,
        xaxis={"title": "score"},
        yaxis={"type": "category", "automargin": True, "autorange": "reversed"},
    )
    headings = ("scale", "taken", "n", "25 %", "median", "75 %")
    return Chart(key, title, alt, figure, headings, rows, height=120 + 30 * len(rows))


def _medians(scales: Mapping[str, Sequence[float]]) -> str:
    return ", ".join(f"{scale} {np.median(scores):.3g}" for scale, scores in scales.items())


def _given_labels(facts: StudyFacts) -> Iterator[Chart]:
    """A chart for each scheme whose values may be shown, as the tables give them."""
    for number, scheme in enumerate(facts.schemes, start=1):
        key, title = f"labels-{number}", f"How often was each value of {scheme.name} given?"
        if scheme.counts:
            yield bars(key, title, _about_scheme(scheme), (scheme.name, "how often"), scheme.counts, ORANGE)
        elif scheme.values:
            yield histogram(key, title, scheme.name, scheme.values, "labels", ORANGE)


def _about_scheme(scheme: SchemeFacts) -> str:
    """The numbers in words, with the mean where values are numbers."""
    most = max(scheme.counts, key=lambda value: scheme.counts[value])
    text = f"{counted(scheme.labels, 'label')} of {counted(scheme.sessions, 'session')}, most often {most}"
    if not scheme.is_numeric:
        return f"{text} ({scheme.counts[most]})."
    total = sum(float(value) * count for value, count in scheme.counts.items())
    return f"{text}, mean {total / sum(scheme.counts.values()):.2f}."


def _labels_of_clips(facts: StudyFacts, splits: Sequence[str]) -> Iterator[Chart]:
    """A chart for each column of labels of the clip index."""
    for number, column in enumerate(facts.labels, start=1):
        key, title = f"clips-by-label-{number}", f"How are the clips of each {column.name} split?"
        if column.counts is not None:
            yield stacked(key, title, column.name, column.counts, splits)
        elif column.labelled:
            without = f" Without a label: {column.unlabelled}." if column.unlabelled else ""
            chart = stacked_histogram(key, title, column.name, column.values, splits)
            yield replace(chart, alt=chart.alt + without)


def findings_chart(sessions: Mapping[Rule, int], of: int, alt: str) -> Chart:
    """One bar for each rule that some session breaks: the number of these sessions."""
    figure = go.Figure(
        go.Bar(
            x=list(sessions.values()),
            y=[label(rule) for rule in sessions],
            orientation="h",
            marker={"color": ORANGE},
            hovertemplate="%{y}: %{x} sessions<extra></extra>",
        )
    )
    figure.update_layout(
        xaxis={"title": "sessions", "range": [0, of], "tickformat": "d"},
        yaxis={"type": "category", "automargin": True, "autorange": "reversed"},
    )
    return Chart("findings-by-rule", "Sessions by rule", alt, figure, height=130 + 34 * len(sessions))


def spread_chart(scores: Mapping[str, Mapping[str, float]], outlier: float, alt: str) -> Chart:
    """A box of the participants for each measure, in robust standard deviations, and the outliers by name.

    Boxes are drawn from their quartiles, so that the chart is as small for thousands of participants as for ten.
    """
    far = {name: max(map(abs, of_person.values())) for name, of_person in scores.items()}
    shown = sorted(scores, key=lambda name: -far[name])[:_MEASURES]
    quartiles = np.array([np.percentile(list(scores[name].values()), (0, 25, 50, 75, 100)) for name in shown])
    low, q1, median, q3, high = np.clip(quartiles, -outlier, outlier).T
    names = [label(name) for name in shown]
    boxes = go.Box(
        orientation="h", y=names, q1=q1, median=median, q3=q3, lowerfence=low, upperfence=high,
        marker={"color": BLUE}, hoverinfo="skip", name="",
    )  # fmt: skip
    odd = [
        (name, person, score)
        for name in shown
        for person, score in sorted(scores[name].items(), key=lambda item: -abs(item[1]))[:_OUTLIERS]
        if abs(score) > outlier
    ]
    points = go.Scatter(
        x=[max(-_FARTHEST, min(_FARTHEST, score)) for _, _, score in odd],
        y=[label(name) for name, _, _ in odd],
        text=[label(person) for _, person, _ in odd],
        customdata=[round(score, 1) for _, _, score in odd],
        mode="markers+text",
        textposition="top center",
        marker={"color": ORANGE, "size": 8, "symbol": "diamond"},
        hovertemplate="%{text}, %{y}: %{customdata}<extra></extra>",
        name="",
    )
    figure = go.Figure([boxes, points])
    figure.update_layout(
        xaxis={
            "title": "robust standard deviations from the median participant",
            "range": [-_FARTHEST - 1, _FARTHEST + 1],
        },
        yaxis={"type": "category", "automargin": True, "autorange": "reversed"},
        showlegend=False,
    )
    title = "Participants, the farthest measures first"
    return Chart("participants-spread", title, alt, figure, height=120 + 34 * len(shown))


def clocks_chart(tracks: Sequence[tuple[str, float, float]], alt: str) -> Chart:
    """A point for each track: its offset in seconds and its drift in ppm."""
    figure = go.Figure(
        go.Scatter(
            x=np.array([offset for _, offset, _ in tracks]),
            y=np.array([drift for _, _, drift in tracks]),
            text=[label(name) for name, _, _ in tracks],
            mode="markers",
            marker={"color": BLUE, "size": 7},
            hovertemplate="%{text}: %{x:.3f} s, %{y:.1f} ppm<extra></extra>",
        )
    )
    figure.update_layout(
        xaxis={"title": "second 0 of the track, seconds of the session"}, yaxis={"title": "drift (ppm)"}
    )
    return Chart("clocks", "Offset and drift of each track", alt, figure)


_PATTERNS = ("", "/", "x", ".", "+")


def bars(key: str, title: str, alt: str, headings: tuple[str, str], counts: Mapping[str, int], colour: str) -> Chart:
    """One bar for each value."""
    names, numbers = [label(name) for name in counts], list(counts.values())
    horizontal = _is_horizontal(list(counts))
    figure = go.Figure(
        go.Bar(
            x=numbers if horizontal else names,
            y=names if horizontal else numbers,
            orientation="h" if horizontal else "v",
            marker={"color": colour},
            hovertemplate=f"%{{{'y' if horizontal else 'x'}}}: %{{{'x' if horizontal else 'y'}}}<extra></extra>",
        )
    )
    _set_axes(figure, list(counts), label(headings[0]), label(headings[1]))
    return Chart(key, title, alt, figure, headings, list(counts.items()), height=_height(list(counts)))


def _is_horizontal(names: Sequence[object]) -> bool:
    """Whether names are too many or too long to be side by side below their bars."""
    return len(names) > 12 or max((len(str(name)) for name in names), default=0) > 14


def _height(names: Sequence[object]) -> int:
    return 120 + 22 * len(names) if _is_horizontal(names) else 280


def _set_axes(figure: go.Figure, names: Sequence[object], title: str, numbers: str) -> None:
    """Label the axes. Long names are cut; hovering and the table show them in full."""
    ticks = [label(name) for name in names]
    shown = [label(name if len(str(name)) <= 24 else f"{str(name)[:23]}…") for name in names]
    categories = {"title": title, "type": "category", "tickvals": ticks, "ticktext": shown}
    if _is_horizontal(names):
        figure.update_layout(
            xaxis={"title": numbers}, yaxis=categories | {"automargin": True, "autorange": "reversed", "title": ""}
        )
    else:
        figure.update_layout(xaxis=categories, yaxis={"title": numbers})


def stacked(key: str, title: str, column: str, counts: pd.DataFrame, splits: Sequence[str]) -> Chart:
    """One bar for each row of ``counts``, with a part for each split."""
    names = list(counts.index)
    bars = [
        _split_bars(
            split, [label(name) for name in names], counts[split].tolist(), number, horizontal=_is_horizontal(names)
        )
        for number, split in enumerate(splits)
    ]
    figure = go.Figure(bars).update_layout(barmode="stack", showlegend=True)
    _set_axes(figure, names, "", "clips")
    rows = [(name, *(int(row[split]) for split in splits), int(row.sum())) for name, row in counts.iterrows()]
    named = rows if len(rows) <= 8 else [row for row in sorted(rows, key=lambda row: -row[-1])[:5] if row[-1]]
    parts = ", ".join(f"{name} {total}" for name, *_, total in named)
    others = f" and {len(rows) - len(named)} more" if len(named) < len(rows) else ""
    alt = f"{counted(int(counts.to_numpy().sum()), 'clip')}: {parts}{others}."
    return Chart(key, title, alt, figure, (column, *splits, "all"), rows, height=_height(names))


def _split_bars(
    split: str, x: Sequence[object], y: Sequence[int], number: int, *, horizontal: bool = False, **more: object
) -> go.Bar:
    return go.Bar(
        name=label(split),
        x=y if horizontal else x,
        y=x if horizontal else y,
        orientation="h" if horizontal else "v",
        marker={"color": COLOURS[number % len(COLOURS)], "pattern": {"shape": _PATTERNS[number % len(_PATTERNS)]}},
        hovertemplate=("%{y}, {}: %{x}" if horizontal else "%{x}, {}: %{y}").replace("{}", label(split))
        + " clips<extra></extra>",
        **more,
    )


def histogram(key: str, title: str, unit: str, values: Sequence[float], of: str, colour: str) -> Chart:
    """The number of ``values`` in each part of their range."""
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
    """A histogram with the numbers of each split stacked."""
    data = np.concatenate([np.asarray(values.get(split, ()), np.float64) for split in splits])
    _, edges, names = _parts(data)
    by_split = {split: np.histogram(values.get(split, ()), bins=edges)[0] for split in splits}
    middle, width = (edges[:-1] + edges[1:]) / 2, np.diff(edges) * 0.94
    figure = go.Figure(
        [
            _split_bars(split, middle, counts.tolist(), number, width=width)
            for number, (split, counts) in enumerate(by_split.items())
        ]
    )
    figure.update_layout(barmode="stack", showlegend=True, xaxis={"title": label(unit)}, yaxis={"title": "clips"})
    table = np.stack(list(by_split.values()), axis=1)
    rows = [(name, *map(int, row), int(row.sum())) for name, row in zip(names, table, strict=True)]
    return Chart(key, title, _range(data, "clips", unit), figure, (unit, *splits, "all"), rows)


def _parts(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Numbers, edges and names of equal parts; values that are all equal are one part, called after the value."""
    low, high = float(data.min()), float(data.max())
    if np.isclose(low, high, rtol=1e-9, atol=0):
        half = 0.05 * abs(low) or 0.5
        return np.array([len(data)]), np.array([low - half, high + half]), [f"{low:.4g}"]
    counts, edges = np.histogram(data, bins=min(24, max(5, round(len(data) ** 0.5))))
    digits = next(digits for digits in range(4, 18) if len({f"{edge:.{digits}g}" for edge in edges}) == len(edges))
    return counts, edges, [f"{low:.{digits}g} to {high:.{digits}g}" for low, high in pairwise(edges)]


def _range(data: np.ndarray, of: str, unit: str) -> str:
    return (
        f"{len(data)} {of}: from {data.min():.4g} to {data.max():.4g} {unit}, "
        f"median {np.median(data):.4g}, mean {data.mean():.4g}."
    )
