"""A spreadsheet of labels as a table: the cells that a person sees, or the cell that cannot be read."""

from __future__ import annotations

import datetime
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storyframes_labels.annotation_file import ImportFaultError, listed
from storyframes_labels.mapping import range_in_name
from tasks.study import Table

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

SHEETS = (".xlsx", ".xlsm")
SEPARATORS = ",;\t|"
_BAD_FILE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
_BAD_XML = (SyntaxError, LookupError, ValueError, TypeError, AttributeError)  # as its parser and openpyxl raise them
_MOST_BYTES = 500_000_000  # of a workbook's XML


def read_sheet(path: Path, sheet: str | None = None) -> Table:
    """The table of a workbook, or of a text file with any usual separator.

    Args:
        path: .xlsx, or a text file.
        sheet: of a workbook with several.

    Raises:
        ImportFaultError: it is none, it has several sheets, or cells that have no value of their own.
        OSError: it cannot be read.
    """
    path.stat()  # a missing file is an error of the system, not a fault of the table
    if path.suffix.lower() not in SHEETS:
        if sheet is not None:
            raise ImportFaultError(f"{path.name}: has no sheets: leave --sheet out")
        table = Table.read(path, separators=SEPARATORS)
        if table.faults:
            raise ImportFaultError(table.faults[0].text(path.name))
        return table
    values, formulas = (_worksheet(path, sheet, with_values=with_values) for with_values in (True, False))
    if values.merged_cells.ranges:
        where = ", ".join(sorted(map(str, values.merged_cells.ranges))[:3])
        raise ImportFaultError(f"{path.name}: the cells {where} are merged: split them, and fill each")
    rows: list[tuple[int, tuple[Any, ...]]] = []
    percent = set()
    for cells, raw in zip(values.iter_rows(), formulas.iter_rows(), strict=True):
        for cell, formula in zip(cells, raw, strict=True):
            is_unknown = (
                formula.data_type == "f" and cell.value is None and cell.data_type != "str"
            )  # "str": an empty one
            if cell.data_type == "e" or is_unknown:
                what = (
                    "is an error" if cell.data_type == "e" else "is a formula whose value is not stored: save it again"
                )
                raise ImportFaultError(f"{path.name}: the cell {cell.coordinate} {what}")
            if isinstance(cell.value, (int, float)) and "%" in str(cell.number_format):
                percent.add(cell.column_letter)
        rows.append((cells[0].row, tuple(_text(cell.value, str(cell.number_format)) for cell in cells)))
    number, header = next(((number, row) for number, row in rows if any(row)), (0, ()))
    width = max((index + 1 for _, row in rows for index, cell in enumerate(row) if cell), default=0)
    names = tuple(name.strip() for name in header[:width])
    if unnamed := [index + 1 for index, name in enumerate(names) if not name]:
        raise ImportFaultError(f"{path.name}: row {number} has no name for column {unnamed[0]}: is it the header?")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ImportFaultError(f"{path.name}: two columns have the name {twice[0]!r}")
    for index, name in enumerate(names):
        limits = range_in_name(name)
        if limits and limits[1] > 1 and values.cell(number, index + 1).column_letter in percent:
            raise ImportFaultError(
                f"{path.name}: the column {name!r} is shown in percent, so 40 % would be 0.4: save it as plain numbers"
            )
    hidden = [f"row {place}" for place, row in rows if any(row) and values.row_dimensions[place].hidden]
    hidden += [
        f"column {letter}"
        for letter, column in values.column_dimensions.items()
        if column.hidden and values[f"{letter}1"].column <= width
    ]
    remarks = [f"column {letter} is shown in percent: 40 % is read as 0.4" for letter in sorted(percent)]
    remarks += [f"{listed(hidden)}: hidden, and read like the others"] if hidden else []
    table = Table(names, remarks=remarks, separator=";")  # of numbers in texts commas are decimal commas
    for place, row in rows:
        if place > number:
            table.add_row(place, row[:width])
    return table


def _worksheet(path: Path, sheet: str | None, *, with_values: bool) -> Worksheet:
    import defusedxml  # openpyxl alone would expand entities of XML
    import openpyxl

    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _MOST_BYTES:
            raise ImportFaultError(f"{path.name}: is {size / 1e6:.0f} MB unpacked: export it as CSV")
        book = openpyxl.load_workbook(path, data_only=with_values)
    except (*_BAD_FILE, *_BAD_XML, defusedxml.DefusedXmlException) as error:
        why = "is no .xlsx, or protected by a password, or damaged: save it as .xlsx without one, or as CSV"
        raise ImportFaultError(f"{path.name}: {why} ({type(error).__name__})") from None
    tables = {table.title: table for table in book.worksheets}  # without sheets of charts
    filled = [name for name, table in tables.items() if table.max_row > 1 or table["A1"].value is not None]
    if sheet is None and len(filled) > 1:
        raise ImportFaultError(f"{path.name}: has the sheets {', '.join(map(repr, filled))}: say --sheet NAME")
    if not tables:
        raise ImportFaultError(f"{path.name}: has no sheet of cells")
    if sheet is not None and sheet not in tables:
        raise ImportFaultError(f"{path.name}: has no sheet {sheet!r}, but {', '.join(map(repr, tables))}")
    worksheet: Worksheet = tables[sheet or (filled or [*tables])[0]]
    return worksheet


def _text(value: Any, number_format: str) -> str:
    """The text of a cell; a time as it is shown, of which ``h:mm`` has two parts, whatever Excel took it for."""
    if isinstance(value, datetime.timedelta):
        micros = abs(value) // datetime.timedelta(microseconds=1)
        minutes, micros = divmod(micros, 60_000_000)
        sign = "-" if value < datetime.timedelta(0) else ""
        return f"{sign}{minutes // 60}:{minutes % 60:02}:{micros / 1e6:09.6f}"
    is_time, shown = isinstance(value, datetime.time), number_format.lower()
    if is_time and not (value.second or value.microsecond) and "s" not in shown and "am" not in shown:
        return value.strftime("%H:%M")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return "" if value is None else str(Table.as_words(value))
