"""Columns of numbers and names of a table (CSV or Parquet); all its faults are reported at once.

The file is read as strictly as a study's tables are. Rows are named as a spreadsheet shows them: the header is row 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.study import Table, did_you_mean, shown_value

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_MISSING = {"NA", "NaN", "nan", "N/A"}  # what R and pandas write where there is not a number
_SHOWN = 20


class TableFaultError(Exception):
    """The table cannot be used; the message names the file, and the row and column of everything that is wrong."""

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        super().__init__("\n".join(f"{name}: {fault}" for fault in [*faults[:_SHOWN], *more]))
        self.faults = tuple(faults)


class RatingTable:
    """A table, and what is wrong with it so far.

    Attributes:
        name: the file's.
        columns: their names; those without a name are not there.
        row_numbers: of the rows that say something, as a spreadsheet shows them.
        remarks: how it was read where that is unusual.
    """

    def __init__(self, path: Path) -> None:
        """Read the table at ``path``.

        Raises:
            TableFaultError: it is no table, or has no rows.
        """
        self.name = path.name
        self._table = Table.read(path)
        self._faults: list[str] = []
        for fault in self._table.faults:
            place = f"row {fault.number}: " if fault.number else ""
            self._faults.append(f"{place}{fault.rule.removeprefix(f'{self.name} ').removeprefix(': ')}")
        self.check()
        self._rows, empty = self._table.without_empty_rows()
        self.row_numbers = [row.number for row in self._rows]
        self.columns = tuple(name for name in self._table.columns if name)
        self.remarks = [remark.removeprefix(f"{self.name}: ") for remark in self._table.remarks]
        if empty:
            self.remarks.append(f"{len(empty)} empty rows: left out")
        if not self._rows:
            self._faults.append("it has no rows below the header")
        self.check()

    def __repr__(self) -> str:
        return f"RatingTable({self.name!r}, {len(self)} rows, columns {', '.join(self.columns)})"

    def __len__(self) -> int:
        return len(self._rows)

    def check(self) -> None:
        """Stop where something is wrong.

        Raises:
            TableFaultError: with everything that was found.
        """
        if self._faults:
            raise TableFaultError(self.name, self._faults)

    def refuse(self, rule: str) -> None:
        """Note what is wrong with the table as a whole."""
        self._faults.append(rule)

    def refuse_row(self, place: int, rule: str) -> None:
        """Note what is wrong with the row at this place (from 0)."""
        self._faults.append(f"row {self.row_numbers[place]}: {rule}")

    def need(self, columns: Sequence[str], why: str = "") -> None:
        """Make sure that these columns are there.

        Raises:
            TableFaultError: one is not.
        """
        for column in columns:
            if column not in self.columns:
                has = f"; it has {', '.join(map(repr, self.columns))}"
                meant = did_you_mean(column, self.columns)
                self.refuse(f"there is no column {column!r}{meant or has}{f'. {why}' if why else ''}")
        self.check()

    def texts(self, column: str) -> list[str]:
        """A column's cells as texts; empty cells are empty texts."""
        return ["" if self._table.is_empty_cell(cell) else str(cell).strip() for cell in self._cells(column)]

    def numbers(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """These columns' cells as numbers, (rows, columns); NaN for empty cells. Other text is a fault."""
        form = self._table.number_form(columns)
        if form.commas:
            self.remarks.append(f"{form.commas} numbers with a decimal comma: read as a point")
        values = np.full((len(self), len(columns)), np.nan)
        missing = 0
        for at, column in enumerate(columns):
            for place, cell in enumerate(self._cells(column)):
                if self._table.is_empty_cell(cell):
                    continue
                number = _number(form.read(cell))
                if number is None and isinstance(cell, str) and cell.strip() in _MISSING:
                    missing += 1
                elif number is None:
                    self._refuse_cell(place, column, cell, _no_number(cell))
                else:
                    values[place, at] = number
        if missing:
            self.remarks.append(f"{missing} cells that say NA or NaN: taken as missing")
        return values

    def names(self, columns: Sequence[str]) -> NDArray[np.object_]:
        """These columns' cells as names, (rows, columns); empty cells are empty texts."""
        values = np.full((len(self), len(columns)), "", dtype=object)
        for at, column in enumerate(columns):
            for place, cell in enumerate(self.texts(column)):
                if cell in _MISSING:
                    rule = "may be a name, or say that nothing was given: leave such cells empty, or name it otherwise"
                    self._refuse_cell(place, column, cell, rule)
                values[place, at] = cell
        return values

    def check_unique(self, keys: Sequence[Hashable], what: str) -> None:
        """Note each row whose key an earlier row has; ``what`` says what they have in common."""
        first: dict[Hashable, int] = {}
        for place, key in enumerate(keys):
            if key in first:
                self.refuse_row(place, f"has the same {what} as row {self.row_numbers[first[key]]}: keep one of them")
            else:
                first[key] = place

    def _cells(self, column: str) -> list[Any]:
        at = self._table.columns.index(column)
        return [row.values[at] for row in self._rows]

    def _refuse_cell(self, place: int, column: str, cell: Any, rule: str) -> None:
        shown = shown_value("ratings", column, cell)
        self._faults.append(f"row {self.row_numbers[place]}, column {column!r}: {shown} {rule}")


def _number(cell: Any) -> float | None:
    if isinstance(cell, str):
        text = cell.strip()
        number = float(text) if _NUMBER.fullmatch(text) else math.nan
    elif isinstance(cell, int | float | Decimal) and not isinstance(cell, bool):
        number = float(cell)
    else:
        return None
    return number if math.isfinite(number) else None


def _no_number(cell: Any) -> str:
    if isinstance(cell, str) and _COMMA.fullmatch(cell.strip()):
        return "is not a number: write it with a decimal point"
    return "is not a number; where nothing was given leave the cell empty"
