"""One session: its features, and of each track curves and what looks wrong with it; for people and for scripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import filesize
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flows.cli.status_tables import STYLE, entry_json
from flows.cli.terminal import finite_json
from storyframes.features import in_order
from storyframes.spec import MAIN
from storyframes.store.record_status import FeatureStatus
from tasks.inspect.formatting import counted
from tasks.inspect.quality import Quality, QualityFinding
from tasks.inspect.session_curves import CurveSummary, SessionCurves
from tasks.study.labels import listed

_SPANS = 6  # of a finding


Curves = Mapping[str, SessionCurves | None]  # by track; None where a track has features, but no frames to go by


def session_tables(entries: Sequence[FeatureStatus], curves: Curves) -> Iterator[FittingTable | str]:
    """One session: its features, then curves and findings of each track."""
    yield _features_table(entries)
    for track, of_track in curves.items():
        named = set(curves) != {MAIN}  # a session without other tracks has no need of the word
        if of_track is None:
            yield f"No curves: {f'the track {escape(track)}' if named else 'the session'} has no frames."
            continue
        yield _curves_table(of_track, named=named)
        whose = escape(f"{track}: ") if named else ""
        quality = Quality.of(of_track)
        if quality.findings:
            yield _findings_table(quality.findings, whose)
        yield from _without_findings(quality, whose)


def _features_table(entries: Sequence[FeatureStatus]) -> FittingTable:
    rows = []
    place = {name: number for number, name in enumerate(in_order(entry.feature for entry in entries))}
    for entry in sorted(entries, key=lambda entry: place[entry.feature]):
        current = entry.current
        notes = [entry.reason] if entry.reason else []
        notes += [f"{name} {value:.4g}" for name, value in current.quality.items()] if current else []
        row = (
            escape(entry.feature),
            f"[{STYLE[entry.status]}]{entry.status}[/]",
            current.measured_rows if current else "",
            filesize.decimal(current.nbytes) if current else "",
            escape("; ".join(current.caveats)) if current else "",
            escape("; ".join(notes)),
        )
        rows.append(row)
    headings = ("feature", "status", "rows", "size", "caveats", "notes")
    return FittingTable(headings, rows, right=frozenset(("rows", "size")), wrapped=frozenset(("caveats", "notes")))


def _curves_table(curves: SessionCurves, *, named: bool) -> FittingTable:
    where = ", in seconds of its own recording" if named and curves.track != MAIN else ""
    title = f"{escape(curves.track)}: {curves.extent}{where}" if named else curves.extent
    return columns_table(curves.summaries(), title)


def columns_table(curves: Sequence[CurveSummary], title: str = "") -> FittingTable:
    """The range of each curve, and a sparkline."""
    rows = []
    for one in curves:
        numbers = ["" if value is None else f"{value:.3g}" for value in (one.low, one.median, one.high)]
        rows.append((escape(f"{one.name} {one.unit}".strip()), *numbers, f"{one.present:.0%}", one.spark))
    headings = ("curve", "lowest", "median", "highest", "there", "from start to end")
    return FittingTable(headings, rows, title, right=frozenset(headings[1:-1]))


def columns_json(curves: Sequence[CurveSummary]) -> str:
    """The same for scripts."""
    return finite_json([dataclasses.asdict(curve) for curve in curves])


def _findings_table(findings: Sequence[QualityFinding], whose: str) -> FittingTable:
    headings = ("finding", "what", "rule", "times (s)")
    rows = []
    for finding in findings:
        spans = listed([f"{start:.2f}-{stop:.2f}" for start, stop in finding.spans], _SPANS)
        rows.append((f"[yellow]{finding.rule}[/]", escape(finding.message), escape(finding.rule_text), spans))
    return FittingTable(headings, rows, whose + counted(len(findings), "finding"), wrapped=frozenset(headings))


def _without_findings(quality: Quality, whose: str) -> Iterator[str]:
    """What was judged without a finding, and what was not judged: two different things."""
    count = len(quality.looked_at)
    if not quality.findings and not quality.not_looked_at:
        yield f"{whose}[green]no rule is broken[/]: nothing looks wrong with the recording"
    elif not quality.findings and count:
        yield f"{whose}[green]no finding[/] by {counted(count, 'rule')}: {', '.join(quality.looked_at)}"
    if quality.not_looked_at:
        yield f"{whose}[yellow]not looked at[/]: {escape(quality.unjudged)}"


def session_json(session_id: str, entries: Sequence[FeatureStatus], curves: Curves) -> str:
    """The same for scripts: what is of the session's own files at the top, of other tracks by name in ``tracks``."""
    content: dict[str, Any] = {"session_id": session_id, "features": [entry_json(entry) for entry in entries]}
    others = {track: _track_json(of_track) for track, of_track in curves.items() if track != MAIN}
    return finite_json(content | _track_json(curves.get(MAIN)) | ({"tracks": others} if others else {}))


def _track_json(curves: SessionCurves | None) -> dict[str, Any]:
    if curves is None:
        return {}
    quality = Quality.of(curves)
    return {
        "frames": len(curves.time),
        "end_s": curves.length_s,
        "curves": [dataclasses.asdict(curve) for curve in curves.summaries()],
        "findings": [dataclasses.asdict(finding) for finding in quality.findings],
        "not_looked_at": {str(rule): reason for rule, reason in quality.not_looked_at.items()},
    }


_SHORT = 16  # columns of a cell that shares a line of the list
_BORDER, _FRAME = 3, 1  # columns of the terminal: of each column of a table, and at its end


@dataclass(frozen=True)
class FittingTable:
    """Rows under headings; every cell is rich's markup and its texts are escaped.

    A row of the list is its first cell, below that its short cells in one line, and each other cell in its own.

    Attributes:
        right: the headings of numbers.
        wrapped: the headings of texts, which may be broken between their words.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    right: frozenset[str] = frozenset()
    wrapped: frozenset[str] = frozenset()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._list()
            return
        table = Table(title=self.title or None, title_justify="left")
        for heading, width in zip(self.headings, widths, strict=True):
            table.add_column(heading, justify="right" if heading in self.right else "left", width=width)
        for row in self.rows:
            table.add_row(*row)
        yield table

    def _widths(self, room: int) -> list[int] | None:
        """Of the columns, where they fit without breaking a word or a number."""
        columns = [[heading, *cells] for heading, *cells in zip(self.headings, *self.rows, strict=True)]
        longest = [max(_width(cell) for cell in column) for column in columns]
        least = [
            max((_width(word) for cell in column for word in _plain(cell).split()), default=0)
            if column[0] in self.wrapped
            else width
            for column, width in zip(columns, longest, strict=True)
        ]
        spare = room - sum(least) - _BORDER * len(columns) - _FRAME
        if spare < 0:
            return None
        for place, width in enumerate(longest):
            more = min(width - least[place], spare)
            least[place] += more
            spare -= more
        return least

    def _list(self) -> Iterator[RenderableType]:
        if self.title:
            yield Text.from_markup(self.title, style="italic")
        for first, *others in self.rows:
            yield Text.from_markup(first, style="bold")
            cells = [(name, cell) for name, cell in zip(self.headings[1:], others, strict=True) if cell]
            short = "; ".join(f"{name} {cell}" for name, cell in cells if self._is_short(name, cell))
            long = [f"{name}: {cell}" for name, cell in cells if not self._is_short(name, cell)]
            for line in (short, *long) if short else long:
                yield Padding(Text.from_markup(line), (0, 0, 0, 2))

    def _is_short(self, heading: str, cell: str) -> bool:
        return heading not in self.wrapped and _width(cell) <= _SHORT


def _plain(markup: str) -> str:
    return Text.from_markup(markup).plain


def _width(markup: str) -> int:
    return Text.from_markup(markup).cell_len
