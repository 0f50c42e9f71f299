"""Columns of a table that may be times, although nobody said so; and rows that are no header."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import permutations

from tasks.study.importers.annotation_file import ImportFaultError
from tasks.study.strict_tables import Table, is_empty

_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
_CLOCK = re.compile(r"\d+(?::[0-5]?\d){1,2}(?:[.,]\d+)?")  # 1:02, 00:01:02.5
_STEMS = (
    "start begin stop onset offset duration time second stamp minute "
    "anfang beginn dauer zeit début debut durée duree inicio inizio durata duración"
).split()
_WORDS = {
    *"end dur from to until in out s sec secs ms msec min frame frames tmin tmax xmin xmax t0 t1 t2 length ende".split()
}


def possible_times(table: Table, columns: Collection[str]) -> dict[str, bool]:
    """Which of these columns may be times, in their order, and whether it is their name that says so.

    Otherwise it is their cells: times of a clock, or the numbers of two columns of which one is never greater than
    the other.
    """
    cells = {
        name: [str(row.values[place]).strip() for row in table.rows if not is_empty(row.values[place])]
        for place, name in enumerate(table.columns)
        if name in columns
    }
    by_name = {name for name in cells if _is_name_of_times(name)}
    clocks = {name for name, of_name in cells.items() if of_name and all(map(_CLOCK.fullmatch, of_name))}
    numbers = {
        name: [float(cell.replace(",", ".")) for cell in of_name]
        for name, of_name in cells.items()
        if of_name and all(map(_NUMBER.fullmatch, of_name))
    }
    spans = [
        pair
        for pair in permutations(numbers, 2)
        if len(numbers[pair[0]]) == len(numbers[pair[1]])
        and all(start <= end for start, end in zip(*map(numbers.get, pair), strict=True))
        and numbers[pair[0]] != numbers[pair[1]]
    ]
    found = by_name.union(clocks, *spans)
    return {name: name in by_name for name in cells if name in found}


def _is_name_of_times(name: str) -> bool:
    words = re.findall(r"[^\W\d_]+\d*", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold())
    return any(word in _WORDS or any(stem in word for stem in _STEMS) for word in words)


def check_header(name: str, columns: Collection[str], known: Collection[str]) -> None:
    """Refuse a first row that is data: numbers, and no column whose name is known.

    Raises:
        ImportFaultError: so it is.
    """
    if {*columns} & {*known}:
        return
    for number, column in enumerate(columns, start=1):
        if _NUMBER.fullmatch(column) or _CLOCK.fullmatch(column):
            raise no_header(name, number, "is a number")


def check_own_values(name: str, table: Table, columns: Collection[str]) -> None:
    """Refuse a column whose name is one of its values: the first row is data.

    Raises:
        ImportFaultError: so it is.
    """
    for place, column in enumerate(table.columns):
        same = [row.number for row in table.rows if column in columns and str(row.values[place]).strip() == column]
        if same:
            raise no_header(name, place + 1, f"is a value of row {same[0]} as well")


def no_header(name: str, field: int, why: str) -> ImportFaultError:
    """What says that the first row of a table is data; ``field`` counts from 1."""
    return ImportFaultError(
        f"{name}: row 1 is no header: its field {field} {why}. Write the columns' names into a first row"
    )
