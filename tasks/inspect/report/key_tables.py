"""The report's most important tables as Markdown, for the artifacts of a Prefect run.

Needs neither plotly nor Jinja2, so that extraction does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator

from storyframes.spec import feature_and_track
from tasks.inspect.formatting import human_bytes, markdown_table, plain_markdown
from tasks.inspect.report.facts import StudyFacts
from tasks.inspect.report.matrix import CellState

_SHOWN = 50


def key_tables(facts: StudyFacts) -> str:
    """Totals, features by state, what is not done and why, labels, tracks and splits; all texts are escaped."""
    parts = (_alarm(facts), _totals(facts), _states(facts), _not_done(facts), *_labels(facts), _tracks(facts))
    return "\n\n".join(part for part in (*parts, _splits(facts)) if part)


def _alarm(facts: StudyFacts) -> str:
    lines = [
        f"**✗ {plain_markdown(person)} is in {plain_markdown(' and in '.join(of))}: leaked**"
        for person, of in facts.leaked.items()
    ]
    return "\n\n".join(lines)


def _totals(facts: StudyFacts) -> str:
    row = (facts.sessions, facts.participants, f"{facts.hours:.2f}", facts.clips, human_bytes(facts.bytes))
    return markdown_table(("sessions", "participants", "hours", "clips", "on disk"), [row])


def _states(facts: StudyFacts) -> str:
    shown = [state for state in CellState if state is not CellState.NOT_ASKED]
    rows = []
    several = len(facts.matrix.tracks) > 1
    for stored in facts.matrix.features:
        states = [facts.matrix.cells[session, stored].state for session in facts.matrix.sessions]
        feature, track = feature_and_track(stored)
        rows.append((feature, *([track] if several else []), *(states.count(state) for state in shown)))
    return markdown_table(("feature", *(["track"] if several else []), *shown), rows)


def _tracks(facts: StudyFacts) -> str:
    rows = [(track.name, track.sessions, track.roles, track.pictures, track.sound) for track in facts.tracks]
    return markdown_table(("track", "sessions", "of", "hours of pictures", "hours of sound"), rows) if rows else ""


def _not_done(facts: StudyFacts) -> str:
    wrong = (CellState.FAILED, CellState.STALE, CellState.ABSENT)
    rows = [
        (session, feature, str(cell.state), cell.reason)
        for (session, feature), cell in facts.matrix.cells.items()
        if cell.state in wrong
    ]
    more = f"\n\nand {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return markdown_table(("session", "feature", "state", "reason"), rows[:_SHOWN]) + more if rows else ""


def _labels(facts: StudyFacts) -> Iterator[str]:
    if not facts.schemes:
        yield "The study has no labels."
        return
    headings = ("scheme", "type", "labels", "sessions with one", "raters")
    yield markdown_table(
        headings,
        [(scheme.name, scheme.type, scheme.labels, scheme.sessions, scheme.raters or "") for scheme in facts.schemes],
    )
    if facts.labels:
        rows = [(column.name, column.labelled, column.unlabelled) for column in facts.labels]
        yield markdown_table(("labels of clips", "clips with one", "clips without"), rows)


def _splits(facts: StudyFacts) -> str:
    rows = [(row.split, row.participants, row.sessions, row.clips) for row in facts.splits]
    return markdown_table(("split", "participants", "sessions", "clips"), rows) if rows else ""
