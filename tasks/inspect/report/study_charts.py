"""The study page's charts: lengths and words of sessions; ages, traits and states; clips by phase.

The first are those of the paper's Figures 3 and 4, for any study.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

import numpy as np
import plotly.graph_objects as go

from tasks.inspect.report.bars import histogram, stacked
from tasks.inspect.report.chart import BLUE, GREEN, ORANGE, PINK, Chart, label
from tasks.inspect.report.facts import StudyFacts
from tasks.inspect.report.label_charts import given_labels, labels_of_clips

_TIMEPOINTS = ("pre", "mid", "post")


def study_charts(facts: StudyFacts) -> list[Chart]:
    """Every chart that the study has data for."""
    return [*_about_sessions(facts), *given_labels(facts), *_about_participants(facts), *_about_clips(facts)]


def _about_sessions(facts: StudyFacts) -> Iterator[Chart]:
    if facts.lengths_s:
        unit, size = ("minutes", 60) if max(facts.lengths_s.values()) >= 180 else ("seconds", 1)
        lengths = [seconds / size for seconds in facts.lengths_s.values()]
        yield histogram("session-lengths", "Session lengths", unit, lengths, "sessions", BLUE)
    if facts.words:
        yield histogram("words", "Words per session", "words", list(facts.words.values()), "sessions", GREEN)


def _about_participants(facts: StudyFacts) -> Iterator[Chart]:
    if facts.ages:
        yield histogram("ages", "Ages", "years", facts.ages, "participants", BLUE)
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
    splits = [row.split for row in facts.splits]
    if facts.clips:
        yield stacked("clips-by-phase", "Clips by phase and split", "phase", facts.phases, splits)
    yield from labels_of_clips(facts, splits)


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
