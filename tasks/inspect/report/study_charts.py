"""The study page's charts: the paper's Figure 3 (lengths, words, ratings) and Figure 4 (ages, traits, states)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, pairwise

import numpy as np
import plotly.graph_objects as go

from tasks.inspect.report.chart import BLUE, COLOURS, GREEN, ORANGE, PINK, Chart, label
from tasks.inspect.report.facts import StudyFacts

_TIMEPOINTS = ("pre", "mid", "post")


def study_charts(facts: StudyFacts) -> list[Chart]:
    """Every chart that the study has data for."""
    return [*_about_sessions(facts), *_about_participants(facts), *_about_clips(facts)]


def _about_sessions(facts: StudyFacts) -> Iterator[Chart]:
    if facts.lengths_s:
        unit, size = ("minutes", 60) if max(facts.lengths_s.values()) >= 180 else ("seconds", 1)
        lengths = [seconds / size for seconds in facts.lengths_s.values()]
        yield _histogram("session-lengths", "Session lengths", unit, lengths, "sessions", BLUE)
    if facts.words:
        yield _histogram("words", "Words per session", "words", list(facts.words.values()), "sessions", GREEN)
    if facts.ratings:
        counts = {score: facts.ratings.get(score, 0) for score in range(1, 6)}
        mean = sum(score * count for score, count in counts.items()) / sum(counts.values())
        alt = f"{sum(counts.values())} empathy ratings from 1 to 5, mean {mean:.2f}."
        yield _bars("ratings", "Empathy ratings", alt, ("rating", "how often"), counts, ORANGE)


def _about_participants(facts: StudyFacts) -> Iterator[Chart]:
    if facts.ages:
        yield _histogram("ages", "Ages", "years", facts.ages, "participants", BLUE)
    if facts.traits:
        alt = f"Scores of {len(facts.traits)} scales that were taken once: {_medians(facts.traits)}."
        yield _boxes("traits", "Traits", alt, {"score": facts.traits})
    if facts.states:
        points = dict.fromkeys(point for taken in facts.states.values() for point in taken)
        by_time = {
            point: {scale: taken[point] for scale, taken in facts.states.items() if point in taken}
            for point in sorted(points, key=lambda point: _TIMEPOINTS.index(point) if point in _TIMEPOINTS else 3)
        }
        medians = "; ".join(f"{point}: {_medians(scales)}" for point, scales in by_time.items())
        alt = f"Scores of {len(facts.states)} scales before, during and after the study. Medians, {medians}."
        yield _boxes("states", "States over the study", alt, by_time)


def _about_clips(facts: StudyFacts) -> Iterator[Chart]:
    for key, column, title in (
        ("clips-by-phase", "phase", "Clips by phase and split"),
        ("clips-by-rating", "empathy", "Clips by rating and split"),
    ):
        if len(facts.clips):
            yield _stacked(facts, key, column, title)


def _stacked(facts: StudyFacts, key: str, column: str, title: str) -> Chart:
    counts = facts.clips.groupby([column, "split"])["clips"].sum().unstack(fill_value=0)
    splits = [row.split for row in facts.splits]
    figure = go.Figure(
        [
            go.Bar(
                name=label(split),
                x=[label(name) for name in counts.index],
                y=counts[split].tolist(),
                marker={"color": colour, "pattern": {"shape": pattern}},
                hovertemplate=f"%{{x}}, {label(split)}: %{{y}} clips<extra></extra>",
            )
            for split, colour, pattern in zip(splits, COLOURS, ("", "/", "x", ".", "+"), strict=False)
        ]
    )
    figure.update_layout(barmode="stack", showlegend=True, xaxis={"type": "category"}, yaxis={"title": "clips"})
    rows = [(name, *(int(row[split]) for split in splits), int(row.sum())) for name, row in counts.iterrows()]
    alt = f"{int(counts.to_numpy().sum())} clips: " + ", ".join(f"{name} {total}" for name, *_, total in rows) + "."
    return Chart(key, title, alt, figure, (column, *splits, "all"), rows)


def _histogram(key: str, title: str, unit: str, values: Sequence[float], of: str, colour: str) -> Chart:
    data = np.asarray(values, np.float64)
    counts, edges = np.histogram(data, bins=min(24, max(5, round(len(data) ** 0.5))))
    names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
    figure = go.Figure(
        go.Bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts,
            width=np.diff(edges) * 0.94,
            customdata=names,
            marker={"color": colour},
            hovertemplate=f"%{{customdata}} {unit}: %{{y}} {of}<extra></extra>",
        )
    )
    figure.update_layout(xaxis={"title": unit}, yaxis={"title": of})
    alt = (
        f"{len(data)} {of}: from {data.min():.4g} to {data.max():.4g} {unit}, "
        f"median {np.median(data):.4g}, mean {data.mean():.4g}."
    )
    rows = [(name, int(count)) for name, count in zip(names, counts, strict=True)]
    return Chart(key, title, alt, figure, (unit, of), rows)


def _bars(key: str, title: str, alt: str, headings: tuple[str, str], counts: Mapping[int, int], colour: str) -> Chart:
    names, values = [str(name) for name in counts], list(counts.values())
    figure = go.Figure(
        go.Bar(
            x=names,
            y=values,
            marker={"color": colour},
            hovertemplate=f"{headings[0]} %{{x}}: %{{y}}<extra></extra>",
        )
    )
    figure.update_layout(xaxis={"title": headings[0], "type": "category"}, yaxis={"title": headings[1]})
    return Chart(key, title, alt, figure, headings, list(counts.items()))


def _boxes(key: str, title: str, alt: str, groups: Mapping[str, Mapping[str, Sequence[float]]]) -> Chart:
    """A box for each scale; one colour for each group."""
    figure, rows = go.Figure(), []
    for (group, scales), colour in zip(groups.items(), cycle((BLUE, ORANGE, PINK)), strict=False):
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
