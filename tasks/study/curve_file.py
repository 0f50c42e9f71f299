"""Reading a curve: a scheme's value at many moments, as CSV or Parquet with the columns time_s and value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.study.labels import Scheme
from tasks.study.spreadsheet_habits import decimal_commas, with_decimal_point, without_empty_rows
from tasks.study.strict_tables import is_empty, read_table


class CurveError(Exception):
    """The file is no curve; the message names it, the row, and the rule."""


@dataclass(frozen=True)
class CurveSamples:
    """A curve as its file has it.

    Attributes:
        time_s: (n,) float64 seconds, increasing.
        value: (n,) float64; NaN where the file has nothing at this moment.
        remarks: what is unusual about the file, and how it was read all the same.
    """

    time_s: NDArray[np.float64]
    value: NDArray[np.float64]
    remarks: tuple[str, ...] = ()


def read_curve(path: Path, scheme: Scheme | None = None) -> CurveSamples:
    """The curve at ``path``.

    Args:
        path: .csv or .parquet.
        scheme: whose minimum and maximum hold.

    Raises:
        CurveError: it cannot be read, or a row of it is not right.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise CurveError(f"{path.name}: a curve is .csv or .parquet")
    table = read_table(path)
    if table.faults:
        fault = table.faults[0]
        where = f"row {fault.number} " if fault.number else ""
        raise CurveError(f"{path.name}: {where}{fault.rule.removeprefix(f'{path.name}: ')}")
    for column in ("time_s", "value"):
        if column not in table.columns:
            raise CurveError(f"{path.name}: the column {column!r} is missing")
    rows, empty = without_empty_rows(table)
    if not rows:
        raise CurveError(f"{path.name}: has no rows")
    remarks = [*table.remarks, *([f"{path.name}: has empty rows, left out"] if empty else [])]
    if has_commas := decimal_commas(table, ("time_s", "value")) is not None:
        remarks.append(f"{path.name}: its numbers have decimal commas: read as points")
    time_place, value_place = table.columns.index("time_s"), table.columns.index("value")
    time_s, value = np.empty(len(rows)), np.empty(len(rows))
    before = -math.inf
    for place, row in enumerate(rows):
        if has_commas:
            row = row._replace(values=tuple(map(with_decimal_point, row.values)))
        time_s[place] = _number(path, row.number, "time_s", row.values[time_place])
        if time_s[place] <= before:
            raise CurveError(f"{path.name}: row {row.number}, time_s: must be after the row before it, at {before:g} s")
        before = time_s[place]
        cell = row.values[value_place]
        value[place] = math.nan if is_empty(cell) else _number(path, row.number, "value", cell)
        if scheme and (low_or_high := _outside(float(value[place]), scheme)):
            raise CurveError(f"{path.name}: row {row.number}, value: {low_or_high} of the scheme {scheme.name!r}")
    return CurveSamples(time_s, value, tuple(remarks))


def _number(path: Path, row: int, column: str, cell: Any) -> float:
    try:
        if isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell):
            raise ValueError
        number = float(cell)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise CurveError(f"{path.name}: row {row}, {column}: must be a finite number, with a decimal point")
    return number


def _outside(value: float, scheme: Scheme) -> str:
    if scheme.minimum is not None and value < scheme.minimum:
        return f"is below the minimum {scheme.minimum:g}"
    if scheme.maximum is not None and value > scheme.maximum:
        return f"is above the maximum {scheme.maximum:g}"
    return ""
