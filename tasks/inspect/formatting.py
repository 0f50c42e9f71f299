"""Numbers for people, and texts in Markdown that show every character as it is."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """``2`` and ``"clip"`` are ``2 clips``."""
    return f"{count} {noun if count == 1 else f'{noun}s'}"


def human_time(seconds: float) -> str:
    """``75`` is ``1 min 15 s``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def plain_markdown(value: object) -> str:
    """``value`` on one line, with every character escaped that Markdown or HTML would interpret."""
    text = " ".join(str(value).split())
    for character in "\\`*_[]|#!~":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown_table(headings: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A table whose cells are escaped."""
    cells = [[plain_markdown(cell) for cell in line] for line in (headings, *rows)]
    cells.insert(1, ["---"] * len(headings))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
