"""What a feature store has, what is missing, and why: for people and for scripts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from storyframes.features import STORIES, in_order
from storyframes.store.catalogue import WHOLE_SESSION, Entry
from storyframes.store.records import Status
from storyframes.tracks import MAIN, feature_and_track
from tasks.inspect.human import human_bytes

STYLE = {Status.DONE: "green", Status.MISSING: "yellow", Status.FAILED: "bold red"}


def status_tables(entries: Sequence[Entry]) -> list[RenderableType]:
    """What a store has, what is missing and why: a table, and below it what its cells cannot say."""
    return [_status_table(entries), *_status_notes(entries)]


def _status_table(entries: Sequence[Entry]) -> Table:
    """Sessions x features: rows where done, else how the last attempt ended; a * marks values with a caveat.

    The other tracks of a session are lines below its own, so that a feature is one column whatever it is of.
    """
    by_key = {(entry.session_id, *feature_and_track(entry.feature)): entry for entry in entries}
    shown = in_order({feature for _, feature, _ in by_key} - {WHOLE_SESSION})
    lines = {(session_id, track) for session_id, _, track in by_key}
    has_tracks = any(track != MAIN for _, track in lines)
    table = Table(title=None)
    table.add_column("session", overflow="fold")
    if has_tracks:
        table.add_column("track", overflow="fold")
    for name in shown:
        table.add_column(escape(name), justify="right")
    before = None
    for session_id, track in sorted(lines, key=lambda line: (line[0] == STORIES, line[0], line[1] != MAIN, line[1])):
        whose = [escape(session_id) if session_id != before else ""]
        whose += ["" if track == MAIN else escape(f"@{track}")] if has_tracks else []
        table.add_row(*whose, *(_cell(by_key.get((session_id, name, track))) for name in shown))
        before = session_id
    return table


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "[dim]-[/]"
    if entry.status is Status.DONE and entry.current:
        caveat = "[yellow]*[/]" if entry.current.caveats else ""
        return f"[green]{entry.current.rows}[/]{caveat}"
    kept = " (old kept)" if entry.current else ""
    return f"[{STYLE[entry.status]}]{entry.status}{kept}[/]"


def _status_notes(entries: Sequence[Entry]) -> list[str]:
    """Below the table: what the cells cannot say, each thing once."""
    notes = []
    having: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for caveat in entry.current.caveats if entry.current else ():
            having.setdefault((entry.feature, caveat), []).append(entry.session_id)
    for (feature, caveat), sessions in sorted(having.items()):
        notes.append(f"[yellow]* caveat[/] of {escape(feature)}: {escape(caveat)} ({_named(sessions)})")
    reasons: dict[tuple[Status, str, str], list[str]] = {}
    for entry in entries:
        if entry.status is not Status.DONE:
            reasons.setdefault((entry.status, entry.feature, entry.reason), []).append(entry.session_id)
    for (status, feature, reason), sessions in reasons.items():
        notes.append(f"[{STYLE[status]}]{status}[/] {escape(_named(sessions))} {escape(feature)}: {escape(reason)}")
    notes += _unknown_words(entries)
    size = sum(entry.current.nbytes for entry in entries if entry.current)
    counts = Counter(entry.status for entry in entries)
    total = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
    notes.append(f"{total or 'nothing extracted yet'}; {human_bytes(size)}")
    return notes


def _unknown_words(entries: Sequence[Entry]) -> list[str]:
    """Of each feature of words, which sessions have the most of them without a vector."""
    by_feature: dict[str, dict[str, float]] = {}
    for entry in entries:
        if entry.current and "words_known" in entry.current.quality:
            by_feature.setdefault(entry.feature, {})[entry.session_id] = 1 - entry.current.quality["words_known"]
    notes = []
    for feature in in_order(by_feature):
        unknown = by_feature[feature]
        if not any(unknown.values()):
            continue
        most = sorted(unknown, key=lambda session_id: (-unknown[session_id], session_id))
        shown = ", ".join(f"{unknown[session_id]:.1%} of {escape(session_id)}" for session_id in most[:3])
        more = f", less of {len(most) - 3} more" if len(most) > 3 else ""
        notes.append(f"{escape(feature)}: words without a vector: {shown}{more} (--json has all)")
    return notes


def _named(sessions: Sequence[str]) -> str:
    """A few sessions by name, many by the first and a number."""
    if len(sessions) <= 3:
        return ", ".join(sessions)
    return f"{', '.join(sessions[:2])} and {len(sessions) - 2} more"


def status_json(entries: Sequence[Entry]) -> str:
    """The same truth for scripts."""
    return json.dumps([entry_json(entry) for entry in entries], indent=1)


def entry_json(entry: Entry) -> dict[str, Any]:
    """One feature of one session for scripts."""
    current = entry.current
    return {
        "session_id": entry.session_id,
        "feature": entry.feature,
        "status": str(entry.status),
        "reason": entry.reason or None,
        "version": current.version if current else None,
        "created_at": current.created_at if current else None,
        "rows": current.rows if current else None,
        "bytes": current.nbytes if current else None,
        "caveats": current.caveats if current else [],
        "quality": current.quality if current else {},
        "fingerprint": current.fingerprint if current else None,
    }
