"""What a feature store has, what is missing, and why: for people and for scripts."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from rich import filesize
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from storyframes.features import STORIES, in_order
from storyframes.spec import MAIN, feature_and_track
from storyframes.store.record_status import WHOLE_SESSION, FeatureStatus
from storyframes.store.records import Status

STYLE = {Status.DONE: "green", Status.MISSING: "yellow", Status.FAILED: "bold red"}
_NAMED = 3  # sessions in a note
_MOST_LINES = 1_000  # of the table
_NOTHING = "no row is a measurement"
_Cells = dict[tuple[str, str], dict[str, str]]  # by session and track, and by feature


def status_tables(entries: Iterable[FeatureStatus]) -> list[RenderableType]:
    """What a store has, what is missing and why: a table, and below it what its cells cannot say.

    Of a store of many sessions the table has those that lack something, so that it neither fills memory nor hides them.

    Args:
        entries: those of a session one after the other; each is looked at once and not kept.
    """
    shown: _Cells = {}
    lacking: _Cells = {}
    notes, count = _Notes(), 0
    for session_id, group in groupby(entries, attrgetter("session_id")):
        own: _Cells = {}
        lacks = False
        for entry in group:
            feature, track = feature_and_track(entry.feature)
            own.setdefault((session_id, track), {})[sys.intern(feature)] = sys.intern(_cell(entry))
            lacks |= entry.status is not Status.DONE or bool(entry.outdated)
            notes.add(entry)
        count += len(own)
        if count <= _MOST_LINES:
            shown |= own
        if lacks and len(lacking) + len(own) <= _MOST_LINES:
            lacking |= own
    if count <= _MOST_LINES:
        return [_status_table(shown), *notes.lines()]
    left_out = (
        f"{len(lacking):,} of {count:,} lines: those of sessions of which a feature is missing, failed or out of date, "
        f"{_MOST_LINES:,} at the most ('storyframes status --session NAME' shows one session, 'status --json' all)"
    )
    return [*([_status_table(lacking)] if lacking else ()), left_out, *notes.lines()]


def _status_table(cells: _Cells) -> Table:
    """Sessions x features: rows where done, else how the last attempt ended; a * marks values with a caveat.

    Where fewer than half of the rows are measurements, the cell says how many are.

    The other tracks of a session are lines below its own, so that a feature is one column for all tracks.
    """
    shown = in_order({feature for line in cells.values() for feature in line} - {WHOLE_SESSION})
    has_tracks = any(track != MAIN for _, track in cells)
    table = Table(title=None)
    table.add_column("session", overflow="fold")
    if has_tracks:
        table.add_column("track", overflow="fold")
    for name in shown:
        table.add_column(escape(name), justify="right")
    before = None
    for session_id, track in sorted(cells, key=lambda line: (line[0] == STORIES, line[0], line[1] != MAIN, line[1])):
        whose = [escape(session_id) if session_id != before else ""]
        whose += ["" if track == MAIN else escape(f"@{track}")] if has_tracks else []
        table.add_row(*whose, *(cells[session_id, track].get(name, "[dim]-[/]") for name in shown))
        before = session_id
    return table


def _cell(entry: FeatureStatus) -> str:
    if entry.status is Status.DONE and entry.current:
        current = entry.current
        caveat = "[yellow]*[/]" if _caveats(entry) else ""
        rows = current.measured_rows
        return f"[{'green' if rows == str(current.rows) else 'yellow'}]{rows}[/]{caveat}"
    kept = " (old kept)" if entry.current else ""
    return f"[{STYLE[entry.status]}]{entry.status}{kept}[/]"


def _caveats(entry: FeatureStatus) -> list[str]:
    """What users of a feature's values have to know: what is stored with them, and what is seen now."""
    if not entry.current:
        return []
    nothing = [_NOTHING] if entry.current.measured_share == 0 else []
    outdated = [f"out of date: {entry.outdated}"] if entry.outdated else []
    return [*entry.current.caveats, *nothing, *outdated]


@dataclass
class _Some:
    """Sessions, of which the first few are named and the others counted."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, session_id: str) -> None:
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(session_id)

    def __str__(self) -> str:
        if self.count <= _NAMED:
            return ", ".join(self.first)
        return f"{', '.join(self.first[:2])} and {self.count - 2} more"


@dataclass
class _Unknown:
    """Sessions with words of a feature, of which those with the most words without a vector are named."""

    most: list[tuple[float, str]] = field(default_factory=list)
    count: int = 0

    def add(self, session_id: str, share: float) -> None:
        self.count += 1
        self.most = sorted([*self.most, (-share, session_id)])[:_NAMED]


@dataclass
class _Notes:
    """Lines below the table: caveats, reasons and totals, each once."""

    having: dict[tuple[str, str], _Some] = field(default_factory=lambda: defaultdict(_Some))
    reasons: dict[tuple[Status, str, str], _Some] = field(default_factory=lambda: defaultdict(_Some))
    unknown: dict[str, _Unknown] = field(default_factory=lambda: defaultdict(_Unknown))
    counts: Counter[Status] = field(default_factory=Counter)
    size: int = 0

    def add(self, entry: FeatureStatus) -> None:
        self.counts[entry.status] += 1
        if entry.status is not Status.DONE:
            self.reasons[entry.status, entry.feature, entry.reason].add(entry.session_id)
        if current := entry.current:
            self.size += current.nbytes
            for caveat in _caveats(entry):
                self.having[entry.feature, caveat].add(entry.session_id)
            if "words_known" in current.quality:
                self.unknown[entry.feature].add(entry.session_id, 1 - current.quality["words_known"])

    def lines(self) -> list[str]:
        notes = []
        for (feature, caveat), sessions in sorted(self.having.items(), key=lambda item: item[0]):
            notes.append(f"[yellow]* caveat[/] of {escape(feature)}: {escape(caveat)} ({sessions})")
        for (status, feature, reason), sessions in self.reasons.items():
            notes.append(f"[{STYLE[status]}]{status}[/] {escape(str(sessions))} {escape(feature)}: {escape(reason)}")
        notes += self._unknown_words()
        total = ", ".join(f"{self.counts[status]} {status}" for status in Status if self.counts[status])
        notes.append(f"{total or 'nothing extracted yet'}; {filesize.decimal(self.size)}")
        return notes

    def _unknown_words(self) -> list[str]:
        """For each feature of words, the sessions with the largest shares of words without a vector."""
        notes = []
        for feature in in_order(self.unknown):
            words = self.unknown[feature]
            if not any(share for share, _ in words.most):
                continue
            shown = ", ".join(f"{-share:.1%} of {escape(session_id)}" for share, session_id in words.most)
            more = f", less of {words.count - _NAMED} more" if words.count > _NAMED else ""
            notes.append(f"{escape(feature)}: words without a vector: {shown}{more} (--json has all)")
        return notes


def status_json(
    entries: Iterable[FeatureStatus],
    arrays: Iterable[Mapping[str, Any]] = (),
    not_in_study: Iterable[Mapping[str, Any]] = (),
) -> Iterator[str]:
    """The same for scripts, piece by piece, so that a long list never has to fit in memory.

    Args:
        arrays: how far the parts of each array are.
        not_in_study: sessions of the store that the study does not have; read after the features.
    """
    lists = {"features": map(entry_json, entries), "arrays": arrays, "not_in_study": not_in_study}
    for number, (name, items) in enumerate(lists.items()):
        yield f'{"," if number else "{"}\n "{name}": '
        opening = "["
        for item in items:
            text = json.dumps(item, indent=1).replace("\n", "\n  ")
            yield f"{opening}\n  {text}"
            opening = ","
        yield "[]" if opening == "[" else "\n ]"
    yield "\n}\n"


def entry_json(entry: FeatureStatus) -> dict[str, Any]:
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
        "outdated": entry.outdated or None,
        "quality": current.quality if current else {},
        "fingerprint": current.fingerprint if current else None,
    }
