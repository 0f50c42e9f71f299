"""What spreadsheets make of numbers, paths and the end of a table, read where it can mean one thing only."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from tasks.study.strict_tables import Row, Table, is_empty

_COMMA = re.compile(r"\s*[+-]?(\d+),(\d+)\s*")
_POINT = re.compile(r"\s*[+-]?\d+\.\d+\s*")
_DRIVE = re.compile(r"[A-Za-z]:")


def decimal_commas(table: Table, columns: Collection[str]) -> tuple[int, int] | None:
    """How many cells of these columns have a decimal comma, and the first of their rows; None where none has, or where
    the comma may be something else.

    It is a decimal comma where commas do not separate the fields, no number of the table has a point, and not every
    number looks like thousands (1,500).
    """
    if table.separator == ",":
        return None
    places = [place for place, name in enumerate(table.columns) if name in columns]
    count, first, is_plain = 0, 0, False
    for row in table.rows:
        for place in places:
            cell = row.values[place]
            if not isinstance(cell, str) or not cell:
                continue
            if _POINT.fullmatch(cell):
                return None
            if comma := _COMMA.fullmatch(cell):
                count, first = count + 1, first or row.number
                whole, decimals = comma.groups()
                is_plain = is_plain or len(decimals) != 3 or len(whole) > 3 or whole.startswith("0")
    return (count, first) if is_plain else None


def with_decimal_point(cell: object) -> object:
    """A number that a cell writes with a decimal comma, with a point; everything else as it is."""
    return cell.replace(",", ".") if isinstance(cell, str) and _COMMA.fullmatch(cell) else cell


def without_empty_rows(table: Table) -> tuple[list[Row], list[int]]:
    """The rows that say something, and the numbers of those that do not."""
    kept, empty = [], []
    for row in table.rows:
        if all(is_empty(cell) for cell in row.values):
            empty.append(row.number)
        else:
            kept.append(row)
    return kept, empty


def with_slashes(root: Path, cell: object) -> object:
    r"""A path that is written with ``\`` between its folders, with ``/``, where the file is there under that name."""
    if not isinstance(cell, str) or "\\" not in cell or _DRIVE.match(cell) or cell.startswith("\\"):
        return cell
    path = PurePosixPath(cell.strip().replace("\\", "/"))
    if ".." in path.parts:
        return cell
    try:
        is_there = (root / path).is_file() and not (root / cell.strip()).exists()
    except (OSError, ValueError):
        return cell
    return str(path) if is_there else cell
