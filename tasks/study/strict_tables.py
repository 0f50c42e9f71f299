"""Reading one table of a study exactly, or naming the row and line that cannot be read.

A table that is silently misread gives wrong numbers, so nothing is guessed: every row has as many fields as the header,
quotes are in pairs, and no two columns have the same name. No fault quotes a cell: it may be a story. The unusual forms
that spreadsheets write (semicolons, decimal commas, backslashes, empty rows) are read where they can mean one thing
only, and become a remark.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from tasks.study.csv_text import SEPARATORS, NotTextError, csv_bytes, decode, records_of, separator_of

_FIRST_ROW = 2  # below the header
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_COMMA = re.compile(r"\s*[+-]?(\d+),(\d+)\s*")
_POINT = re.compile(r"\s*[+-]?\d+\.\d+\s*")
_LIKE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
_DRIVE = re.compile(r"[A-Za-z]:")


class Row(NamedTuple):
    """One row of a table."""

    number: int  # as a spreadsheet shows it: the header is row 1, the first row below it 2; in Parquet as well
    line: int | None  # of the file, where it begins; None in Parquet, which has no lines
    values: tuple[Any, ...]  # one for each of the table's columns; in CSV all are text


class Fault(NamedTuple):
    """Why a row, or the table (``number`` is None), cannot be read."""

    number: int | None
    line: int | None
    rule: str
    kind: str  # the same for faults of one kind
    values: tuple[str, ...] = ()  # of the row, as far as its fields could be separated

    def text(self, name: str) -> str:
        """The file's name, the row, and the rule."""
        where = f"row {self.number} " if self.number else ""
        return f"{name}: {where}{self.rule.removeprefix(name).removeprefix(':').lstrip()}"


def is_empty(value: object) -> bool:
    """Whether a cell has no value."""
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, float) and math.isnan(value))


def number_in(cell: object) -> float:
    """The number in a cell; NaN where it is none, or is written as Python alone writes it (1_5, True)."""
    if isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell):
        return math.nan
    try:
        return float(cell)  # type: ignore[arg-type]  # what is not a number raises what is caught below
    except (TypeError, ValueError):
        return math.nan


def as_words(value: object) -> object:
    """A label as text, whatever type its column has in Parquet."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(int(value)) if float(value).is_integer() else repr(value)
    return value


def with_decimal_point(cell: object) -> object:
    """A number with a decimal comma, with a point instead; any other cell unchanged."""
    return cell.replace(",", ".") if isinstance(cell, str) and _COMMA.fullmatch(cell) else cell


@dataclass(frozen=True)
class NumberForm:
    """How the numbers in some columns are written."""

    commas: int = 0  # how many have a decimal comma; 0 where commas are anything else
    first_comma: int = 0  # the row of the first of them
    doubt: str = ""  # a remark where every number with a point looks like thousands (1.500)

    def read(self, cell: object) -> object:
        """A number with a decimal comma, with a point instead; any other cell unchanged."""
        return with_decimal_point(cell) if self.commas else cell


@dataclass
class Table:
    """A table as it was read."""

    columns: tuple[str, ...] = ()  # their names, stripped; empty for a column without a name
    rows: list[Row] = field(default_factory=list)  # those that could be read
    faults: list[Fault] = field(default_factory=list)  # of the other rows, or of the whole table
    remarks: list[str] = field(default_factory=list)  # what is unusual about the file, and how it was read all the same
    separator: str = ","  # between a row's fields; a comma for Parquet, which has no decimal commas
    sha256: str = ""  # of the file's bytes; empty where it cannot be read

    csv_bytes = staticmethod(csv_bytes)
    # of a cell
    is_empty_cell = staticmethod(is_empty)
    number_in = staticmethod(number_in)
    as_words = staticmethod(as_words)
    with_decimal_point = staticmethod(with_decimal_point)

    @staticmethod
    def read(path: Path, *, separators: str = SEPARATORS) -> Table:
        """See :func:`read_table`."""
        return read_table(path, separators=separators)

    def add_row(self, number: int, values: Sequence[Any], line: int | None = None) -> None:
        """Append a row, see :class:`Row`."""
        self.rows.append(Row(number, line, tuple(values)))

    def number_form(self, columns: Collection[str]) -> NumberForm:
        """How the numbers in these columns are written, if they have decimal commas or points.

        A comma is a decimal comma where commas do not separate the fields, no number has a point, and not every number
        looks like thousands (1,500). Between semicolons, as spreadsheets of countries with decimal commas write them,
        1.500 may have been 1500: where every number with a point looks so, that is a doubt.
        """
        if self.separator == ",":
            return NumberForm()
        indices = [index for index, name in enumerate(self.columns) if name in columns]
        commas, first_comma, is_comma, doubt = 0, 0, False, ""
        for row in self.rows:
            for index in indices:
                cell = row.values[index]
                if not isinstance(cell, str):
                    continue
                if _POINT.fullmatch(cell):
                    if self.separator != ";" or not _LIKE_THOUSANDS.fullmatch(cell.strip()):
                        return NumberForm()
                    place = f"{self.columns[index]}, from row {row.number} on"
                    doubt = doubt or f"{place}: numbers like 1.500 are read as 1.5, not as thousands"
                elif comma := _COMMA.fullmatch(cell):
                    commas, first_comma = commas + 1, first_comma or row.number
                    whole, decimals = comma.groups()
                    is_comma = is_comma or len(decimals) != 3 or len(whole) > 3 or whole.startswith("0")
        if doubt:
            return NumberForm(doubt=doubt)
        return NumberForm(commas, first_comma) if is_comma else NumberForm()

    def without_empty_rows(self) -> tuple[list[Row], list[int]]:
        """The rows that have a value, and the numbers of the others."""
        kept, empty = [], []
        for row in self.rows:
            if all(is_empty(cell) for cell in row.values):
                empty.append(row.number)
            else:
                kept.append(row)
        return kept, empty


def read_table(path: Path, *, has_text: bool = False, separators: str = SEPARATORS) -> Table:
    """The table at ``path``, CSV or Parquet by its suffix.

    Args:
        has_text: one of its columns has prose, whose commas and line breaks are easily left unquoted.
        separators: the signs that may separate the columns of a CSV.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return _unreadable(f"{path.name} cannot be read: {reason}")
    if path.suffix == ".parquet":
        table = _read_parquet(content, path.name)
    else:
        table = _read_csv(content, path.name, has_text, separators)
    table.sha256 = hashlib.sha256(content).hexdigest()
    return table


def is_pandas_index(column: str) -> bool:
    """Whether a column of a Parquet file is the row index that pandas wrote."""
    return bool(_PANDAS_INDEX.fullmatch(column))


def _unreadable(rule: str, line: int | None = None) -> Table:
    return Table(faults=[Fault(None, line, rule, "unreadable")])


def _check_names(columns: Sequence[str], name: str) -> Table | None:
    """A table without rows where two columns have one name: it is unknown which of them is meant."""
    twice = [column for column, count in Counter(columns).items() if column and count > 1]
    if not twice:
        return None
    numbers = [str(number) for number, column in enumerate(columns, start=1) if column == twice[0]]
    return _unreadable(f"{name}: the columns {' and '.join(numbers)} have the same name: keep one of them", 1)


# --- Parquet ---------------------------------------------------------------------------------------------------------


def _read_parquet(content: bytes, name_of_file: str) -> Table:
    import pyarrow as pa  # which studies without Parquet do without
    import pyarrow.parquet as pq

    try:
        # Of the file alone: pyarrow would add columns from the names of its folders.
        table = pq.ParquetFile(pa.BufferReader(content)).read()
        columns = [name.strip() for name in table.column_names]
        if refused := _check_names(columns, name_of_file):
            return refused
        kept, cells, faults = [], [], []
        for name, column in zip(columns, table.columns, strict=True):
            if is_pandas_index(name):
                continue
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                kind = "bytes" if pa.types.is_binary(column.type) else "lists"
                number = table.column_names.index(name) + 1
                faults.append(
                    Fault(None, None, f"{name_of_file}: column {number} holds {kind}: a cell is one value", "nested")
                )
                continue
            kept.append(name)
            cells.append(column.to_pylist())
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        return _unreadable(f"{name_of_file} cannot be read: it is damaged, or no Parquet ({type(error).__name__})")
    rows = [Row(number, None, values) for number, values in enumerate(zip(*cells, strict=True), start=_FIRST_ROW)]
    return Table(tuple(kept), rows, faults)


# --- CSV -------------------------------------------------------------------------------------------------------------


def _read_csv(content: bytes, name_of_file: str, has_text: bool, separators: str) -> Table:
    try:
        text, remarks = decode(content)
        begin, separator = separator_of(text, separators)
    except NotTextError as error:
        return _unreadable(f"{name_of_file} cannot be read: {error}", error.line)
    if separator != ",":
        remarks.append(f"its columns are separated by {_NAMES[separator]}s, not by commas: read so")
    records = records_of(text, begin, separator, has_text)
    header = next(records, None)
    if header is None:
        return _unreadable(f"{name_of_file} cannot be read: it is empty; the first line has the columns' names")
    if header.rule:
        return _unreadable(f"{name_of_file} cannot be read: line {header.line} {header.rule}", header.line)
    columns = tuple(name.strip() for name in header.fields)
    if refused := _check_names(columns, name_of_file):
        return refused
    table = Table(columns, remarks=[f"{name_of_file}: {remark}" for remark in remarks], separator=separator)
    named = max((number for number, name in enumerate(columns, start=1) if name), default=0)
    for record in records:
        fields = record.fields
        if named <= len(fields) < len(columns):  # some spreadsheets leave empty cells at the end out of some rows
            fields += ("",) * (len(columns) - len(fields))
        if record.rule:
            table.faults.append(Fault(record.row, record.line, record.rule, record.rule, fields))
        elif len(fields) != len(columns):
            rule = (
                f"has {_fields(len(fields))}, the header has {len(columns)}: quote what has a {_NAMES[separator]} in it"
            )
            table.faults.append(Fault(record.row, record.line, rule, "fields", fields))
        else:
            table.rows.append(Row(record.row, record.line, fields))
    return table


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


class MeasurementsError(Exception):
    """The file is no table of these numbers; the message names the file, the row, the column and the rule."""


def read_measurements(
    path: Path, needed: Sequence[str], kind: str, optional: Sequence[str] = ()
) -> tuple[list[tuple[int, dict[str, Any]]], list[str]]:
    """The rows of a file of numbers, and what is unusual about it: of each row its number, and its cells by column.

    Args:
        needed: columns of numbers.
        kind: what the file is, for the message.
        optional: further columns; others are not read.

    Raises:
        MeasurementsError: it cannot be read, has no rows, or lacks a column.
    """
    table = read_table(path)
    if table.faults:
        raise MeasurementsError(table.faults[0].text(path.name))
    if absent := [column for column in needed if column not in table.columns]:
        raise MeasurementsError(f"{path.name}: the column {absent[0]!r} is missing: {kind} has {', '.join(needed)}")
    rows, empty = table.without_empty_rows()
    if not rows:
        raise MeasurementsError(f"{path.name}: has no rows")
    remarks = [*table.remarks, *([f"{path.name}: has empty rows, left out"] if empty else [])]
    form = table.number_form(needed)
    if form.commas:
        remarks.append(f"{path.name}: its numbers have decimal commas: read as points")
    if form.doubt:
        remarks.append(f"{path.name}: {form.doubt}")
    places = {column: table.columns.index(column) for column in (*needed, *optional) if column in table.columns}
    return [(row.number, {name: form.read(row.values[at]) for name, at in places.items()}) for row in rows], remarks


def with_slashes(root: Path, cell: object) -> object:
    r"""A path with ``\`` between its folders, with ``/`` instead, where that file exists; any other cell unchanged."""
    if not isinstance(cell, str) or "\\" not in cell or _DRIVE.match(cell) or cell.startswith("\\"):
        return cell
    path = PurePosixPath(cell.strip().replace("\\", "/"))
    if ".." in path.parts:
        return cell
    try:
        exists_so = (root / path).is_file() and not (root / cell.strip()).exists()
    except (OSError, ValueError):
        return cell
    return str(path) if exists_so else cell
