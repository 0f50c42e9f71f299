"""Columns of a table that may be times, although nobody said so; and rows that are no header."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import permutations
from operator import le

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


def possible_times(table: Table, columns: Collection[str]) -> dict[str, set[str]]:
    """Which of these columns may be times, in their order, and why, as the file of annotations has it.

    By its name (the empty name), by its cells, which are times of a clock (its own name), or by its numbers, which are
    never greater than another column's, or never smaller (the other's name).
    """
    cells = {
        name: [str(row.values[place]).strip() for row in table.rows if not is_empty(row.values[place])]
        for place, name in enumerate(table.columns)
        if name in columns
    }
    numbers = {
        name: [float(cell.replace(",", ".")) for cell in of_name]
        for name, of_name in cells.items()
        if of_name and all(map(_NUMBER.fullmatch, of_name))
    }
    found: dict[str, set[str]] = {name: set() for name in cells}
    for name, of_name in cells.items():
        found[name] |= {""} if _is_name_of_times(name) else set()
        found[name] |= {name} if of_name and all(map(_CLOCK.fullmatch, of_name)) else set()
    for (start, starts), (end, ends) in permutations(numbers.items(), 2):
        if len(starts) == len(ends) and starts != ends and all(map(le, starts, ends)):
            found[start].add(end)
            found[end].add(start)
    return {name: why for name, why in found.items() if why}


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
