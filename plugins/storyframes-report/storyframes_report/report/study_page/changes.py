"""What changed since the last report, from the columns of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from storyframes_report.report.matrix import CellState
from storyframes_report.report.study_page.answers import Answer, Link
from storyframes_report.report.study_page.columns import STATES
from storyframes_report.report.study_page.summary import moment
from tasks.inspect import counted

_QUESTION = "What changed since the last report?"
_NAMES = {character: str(state) for state, character in STATES.items()}
_LESS = 50  # thousandths of the rows by which a share has to change to be told


def what_changed(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Answer:
    """The answer; ``before`` is None where there is no report before this one, or an older program's."""
    if before is None:
        return Answer(
            "changes", _QUESTION, "This is the first report in this folder that the next can be compared with."
        )
    rows = [(what, links) for what, links in _changes(before, after) if links]
    parts = "; ".join(f"{what} ({_count(links)})" for what, links in rows[:4])
    more = f"; and {counted(len(rows) - 4, 'other change')}" if len(rows) > 4 else ""
    said = f"Since the report of {before['made']}: {parts}{more}." if rows else f"Nothing, since {before['made']}."
    return Answer("changes", _QUESTION, said, headings=("what", "sessions"), rows=rows)


def _count(links: list[Link]) -> str:
    return links[0].text if len(links) == 1 else counted(len(links), "session")


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, list[Link]]]:
    """Each kind of change with its sessions."""
    places = {session: place for place, session in enumerate(before["sessions"])}
    now = {session: place for place, session in enumerate(after["sessions"])}
    pages = {session for session, has in zip(after["sessions"], after["pages"], strict=True) if has}

    def links(sessions: Iterable[str]) -> list[Link]:
        return [Link(session, moment(session) if session in pages else "") for session in sessions]

    yield "new sessions", links(session for session in now if session not in places)
    yield "sessions that are gone", links(session for session in places if session not in now)
    both = [session for session in now if session in places]
    older = {(feature["name"], feature["track"]): feature for feature in before["features"]}
    for feature in after["features"]:
        old = older.get((feature["name"], feature["track"]))
        name = f"{feature['name']}@{feature['track']}" if feature["track"] != "main" else feature["name"]
        changed: dict[str, list[str]] = {}
        for session in both:
            here, there = now[session], places[session]
            was, is_ = old["states"][there] if old else STATES[CellState.NOT_ASKED], feature["states"][here]
            if was != is_:
                changed.setdefault(f"{name}: {_NAMES[is_]}, was {_NAMES[was]}", []).append(session)
            elif old and old["versions"][there] != feature["versions"][here]:
                changed.setdefault(f"{name}: made again", []).append(session)
            if old and (share := feature["measured"][here]) is not None and old["measured"][there] is not None:
                difference = share - old["measured"][there]
                if abs(difference) >= _LESS:
                    less = "less" if difference < 0 else "more"
                    changed.setdefault(f"{name}: {less} is measured", []).append(session)
        for what, sessions in changed.items():
            yield what, links(sessions)
    left = {(feature["name"], feature["track"]) for feature in after["features"]}
    for key, old in older.items():
        gone = [session for session in both if old["states"][places[session]] != STATES[CellState.NOT_ASKED]]
        if key not in left:
            yield f"{old['name'] if old['track'] == 'main' else '@'.join(key)}: no longer there", links(gone)
    clips = (session for session in both if before["clips"][places[session]] != after["clips"][now[session]])
    yield "another number of clips", links(clips)
    for sign, what in ((1, "new finding"), (-1, "finding gone")):
        by_rule: dict[str, list[str]] = {}
        for session in both:
            new, old_findings = after["findings"][now[session]], before["findings"][places[session]]
            for rule in {**new, **old_findings}:
                if sign * (new.get(rule, 0) - old_findings.get(rule, 0)) > 0:
                    by_rule.setdefault(rule, []).append(session)
        for rule, sessions in by_rule.items():
            yield f"{what}: {rule}", links(sessions)
