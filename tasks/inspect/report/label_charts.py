"""The study page's charts of labels: how often each value was given, and which clips have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.inspect.formatting import counted
from tasks.inspect.report.bars import bars, histogram, stacked, stacked_histogram
from tasks.inspect.report.chart import ORANGE, Chart
from tasks.inspect.report.facts import StudyFacts
from tasks.inspect.report.label_facts import SchemeFacts


def given_labels(facts: StudyFacts) -> Iterator[Chart]:
    """A chart for each scheme whose values may be shown, as the tables give them."""
    for number, one in enumerate(facts.schemes, start=1):
        key, title = f"labels-{number}", f"Labels of {one.name}"
        if one.counts:
            yield bars(key, title, _about(one), (one.name, "how often"), one.counts, ORANGE)
        elif one.values:
            yield histogram(key, title, one.name, one.values, "labels", ORANGE)


def _about(one: SchemeFacts) -> str:
    """The numbers in words, with the mean where values are numbers."""
    most = max(one.counts, key=lambda value: one.counts[value])
    said = f"{counted(one.labels, 'label')} of {counted(one.sessions, 'session')}, most often {most}"
    if not one.is_numeric:
        return f"{said} ({one.counts[most]})."
    total = sum(float(value) * count for value, count in one.counts.items())
    return f"{said}, mean {total / sum(one.counts.values()):.2f}."


def labels_of_clips(facts: StudyFacts, splits: Sequence[str]) -> Iterator[Chart]:
    """A chart for each column of labels of the clip index."""
    for number, one in enumerate(facts.labels, start=1):
        key, title = f"clips-by-label-{number}", f"Clips by {one.name} and split"
        if one.counts is not None:
            yield stacked(key, title, one.name, one.counts, splits)
        elif one.labelled:
            without = f" Without a label: {one.unlabelled}." if one.unlabelled else ""
            chart = stacked_histogram(key, title, one.name, one.values, splits)
            yield Chart(key, title, chart.alt + without, chart.figure, chart.headings, chart.rows)
