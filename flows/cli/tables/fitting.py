"""A table that is written as a list where the terminal is too narrow for it, so that no number is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

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
