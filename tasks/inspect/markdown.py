"""Texts of a study or of a reason in Markdown, so that they show as they are."""

from __future__ import annotations

from collections.abc import Sequence

_SPECIAL = "\\`*_[]|#!~"


def plain(value: object) -> str:
    """``value`` on one line, with everything escaped that Markdown or HTML would read as more than a character."""
    text = " ".join(str(value).split())
    for character in _SPECIAL:
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table(headings: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A table with a line for each row, every cell as it is."""
    cells = [[plain(cell) for cell in line] for line in (headings, *rows)]
    cells.insert(1, ["---"] * len(headings))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
