"""Ratings: what several raters said of the same units, out of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storyframes_empathy.statistics.choices import RATER, UNIT, VALUE
from storyframes_empathy.statistics.rating_table import RatingTable, TableFaultError


class Level(StrEnum):
    """What can be done with values."""

    NAMES = "names"  # the same or not
    STEPS = "steps"  # names in an order
    NUMBERS = "numbers"


@dataclass(frozen=True)
class Ratings:
    """What raters said of units.

    Attributes:
        raters: their names.
        values: (units, raters), NaN where a rater did not rate; of names and steps their places in a list.
        level: what the values are.
        remarks: how the table was read where that is unusual.
    """

    raters: tuple[str, ...]
    values: NDArray[np.float64] = field(repr=False)
    level: Level = Level.NUMBERS
    remarks: tuple[str, ...] = ()


def read_ratings(
    path: Path,
    *,
    unit: str = UNIT,
    rater: str = RATER,
    value: str = VALUE,
    raters: Sequence[str] = (),
    are_names: bool = False,
) -> Ratings:
    """The ratings of a table: long (a row a rating: unit, rater, value) or wide (a row a unit, a column a rater).

    Args:
        path: CSV or Parquet.
        unit, rater, value: the columns of a long table; ``unit`` of a wide one as well.
        raters: of a wide table the columns, of a long one the raters that are meant; empty: all.
        are_names: the values are names without an order, not numbers.

    Raises:
        TableFaultError: with everything that is wrong: cells that are no numbers, a unit that one rater rated twice,
            fewer than two raters, no unit that two have rated.
        OSError: it cannot be read.
    """
    table = RatingTable(path)
    if rater in table.columns and value in table.columns:
        ratings = _long(table, (unit, rater, value), raters, are_names)
    elif value in table.columns or rater in table.columns:
        has, lacks = (rater, value) if rater in table.columns else (value, rater)
        rule = f"has a column {has!r} and none {lacks!r}: a long table has {unit}, {rater} and {value}"
        raise TableFaultError(table.name, [f"{rule}; of a wide one, say --only for each rater's column"])
    else:
        ratings = _wide(table, unit, raters, are_names)
    if len(ratings.raters) < 2:
        only = f" ({ratings.raters[0]!r})" if ratings.raters else ""
        raise TableFaultError(table.name, [f"has {len(ratings.raters)} rater{only}: agreement needs two"])
    if not (np.isfinite(ratings.values).sum(axis=1) > 1).any():
        rule = f"none of its {len(ratings.values)} units was rated by two raters: there is nothing to compare"
        raise TableFaultError(table.name, [rule])
    return ratings


def _long(table: RatingTable, columns: tuple[str, str, str], wanted: Sequence[str], are_names: bool) -> Ratings:
    unit, rater, value = columns
    table.need(columns, "A long table has unit, rater and value")
    units, raters = table.texts(unit), table.texts(rater)
    values = _values(table, [value], are_names)[:, 0]
    given = np.isfinite(values)
    for name, texts in ((unit, units), (rater, raters)):
        for place in np.flatnonzero(given):
            if not texts[place]:
                table.refuse_row(int(place), f"has a {value} and no {name}")
    table.check_unique(list(zip(units, raters, strict=True)), f"{unit} and {rater}")
    table.check()
    named = np.array([bool(of and by) for of, by in zip(units, raters, strict=True)])  # of others no value is there
    unit_names, unit_places = _places([name for name, is_named in zip(units, named, strict=True) if is_named])
    rater_names, rater_places = _places([name for name, is_named in zip(raters, named, strict=True) if is_named])
    matrix = np.full((len(unit_names), len(rater_names)), np.nan)
    matrix[unit_places, rater_places] = values[named]
    if missing := [name for name in wanted if name not in rater_names]:
        raise TableFaultError(table.name, [f"no rater is called {missing[0]!r}; there are {', '.join(rater_names)}"])
    if wanted:
        matrix = matrix[:, [rater_names.index(name) for name in wanted]]
        rater_names = tuple(wanted)
    remarks = [*table.remarks, *_unread(table, columns)]
    return Ratings(rater_names, matrix, Level.NAMES if are_names else Level.NUMBERS, tuple(remarks))


def _wide(table: RatingTable, unit: str, wanted: Sequence[str], are_names: bool) -> Ratings:
    if unit not in table.columns and not wanted:
        table.need([unit], "Say --unit NAME, or --only for each rater's column: else ids would be taken for ratings")
    raters = tuple(wanted) or tuple(name for name in table.columns if name != unit)
    table.need(raters)
    if unit in table.columns:
        units = table.texts(unit)
        for place, name in enumerate(units):
            if not name:
                table.refuse_row(place, f"has no {unit}")
        table.check_unique(units, unit)
    values = _values(table, raters, are_names)
    table.check()
    remarks = [*table.remarks, *_unread(table, (unit, *raters))]
    return Ratings(raters, values, Level.NAMES if are_names else Level.NUMBERS, tuple(remarks))


def _values(table: RatingTable, columns: Sequence[str], are_names: bool) -> NDArray[np.float64]:
    if not are_names:
        return table.numbers(columns)
    names = table.names(columns)
    place = {name: at for at, name in enumerate(sorted(set(names.ravel()) - {""}))} | {"": np.nan}
    return np.array([[place[name] for name in row] for row in names], dtype=np.float64).reshape(names.shape)


def _places(names: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Each name once, in order, and for each row the place of its name."""
    found = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return tuple(found), np.array([found[name] for name in names], dtype=np.intp)


def _unread(table: RatingTable, read: Sequence[str]) -> list[str]:
    unread = [name for name in table.columns if name not in read]
    return [f"columns that were not read: {', '.join(unread)}"] if unread else []
