"""Reading one table of a study: exactly what stands in it, or the row and line where that cannot be told.

A table that is misread in silence gives wrong numbers to everybody, so nothing is guessed: every row has as many fields
as the header, quotes are in pairs, and no two columns have the same name. No fault quotes a cell: it may be a story.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

# One field of a CSV file and what ends it. The quantifiers never give back what they took, so time is linear.
_FIELD = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|([^",\n]*+))(,|\n|\Z)')
_LINE = re.compile(r"[^\n]*+\n?")
# How a row begins: an id and a comma. In prose a comma is followed by a space.
_LIKE_A_ROW = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63},(?=\S)")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class Row(NamedTuple):
    """One row of a table.

    Attributes:
        number: counted from 1 below the header.
        line: of the file, where it begins; None in Parquet, which has no lines.
        values: one for each of the table's columns; in CSV all of them text.
    """

    number: int
    line: int | None
    values: tuple[Any, ...]


class Fault(NamedTuple):
    """Why a row, or the table (``number`` is None), cannot be read.

    Attributes:
        kind: the same for faults of one sort.
        values: of the row, as far as they could be told apart.
    """

    number: int | None
    line: int | None
    rule: str
    kind: str
    values: tuple[str, ...] = ()


@dataclass
class Table:
    """What could be read of a table.

    Attributes:
        columns: their names, stripped; a column without a name has the empty one.
        rows: those that are as they should be.
        faults: of the others.
    """

    columns: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def read_table(path: Path, *, has_text: bool = False) -> Table:
    """The table at ``path``, CSV or Parquet by its suffix.

    Args:
        path: the file.
        has_text: one of its columns holds prose, whose commas and line breaks are easily left unquoted.
    """
    try:
        return _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path, has_text)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return _unreadable(f"{path.name} cannot be read: {reason}")


def is_empty(value: object) -> bool:
    """Whether a cell says nothing."""
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _unreadable(rule: str, line: int | None = None) -> Table:
    return Table(faults=[Fault(None, line, rule, "unreadable")])


def _check_names(columns: Sequence[str], name: str) -> Table | None:
    """A table without rows where a name is there twice: luck would decide which column is read."""
    twice = [column for column, count in Counter(columns).items() if column and count > 1]
    if not twice:
        return None
    places = [str(place) for place, column in enumerate(columns, start=1) if column == twice[0]]
    return _unreadable(f"{name}: the columns {' and '.join(places)} have the same name: keep one of them", 1)


# --- Parquet ---------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> Table:
    try:
        # The file alone: pyarrow would take columns out of the names of the folders above it.
        table = pq.ParquetFile(path).read()
        columns = [name.strip() for name in table.column_names]
        if refused := _check_names(columns, path.name):
            return refused
        kept, cells, faults = [], [], []
        for name, column in zip(columns, table.columns, strict=True):
            if _PANDAS_INDEX.fullmatch(name):
                continue
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                kind = "bytes" if pa.types.is_binary(column.type) else "lists"
                place = table.column_names.index(name) + 1
                faults.append(
                    Fault(None, None, f"{path.name}: column {place} holds {kind}: a cell is one value", "nested")
                )
                continue
            kept.append(name)
            cells.append(column.to_pylist())
    except (pa.ArrowException, ValueError, OverflowError) as error:
        return _unreadable(f"{path.name} cannot be read: it is damaged, or no Parquet ({type(error).__name__})")
    rows = [Row(number, None, values) for number, values in enumerate(zip(*cells, strict=True), start=1)]
    return Table(tuple(kept), rows, faults)


# --- CSV -------------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, has_text: bool) -> Table:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return _unreadable(f"{path.name} cannot be read: line {line} is not UTF-8: save it as UTF-8", line)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return _unreadable(f"{path.name} cannot be read: line {line} has a zero byte: save it as UTF-8", line)
    records = _records(text, has_text)
    header = next(records, None)
    if header is None:
        return _unreadable(f"{path.name} cannot be read: it is empty; the first line has the columns' names")
    if header.rule:
        return _unreadable(f"{path.name} cannot be read: line {header.line} {header.rule}", header.line)
    columns = tuple(name.strip() for name in header.fields)
    if len(columns) == 1 and (separator := next((sign for sign in ";\t|" if sign in columns[0]), "")):
        return _unreadable(f"{path.name} cannot be read: its columns are separated by {separator!r}, not by commas", 1)
    if refused := _check_names(columns, path.name):
        return refused
    table = Table(columns)
    for number, record in enumerate(records, start=1):
        if record.rule:
            table.faults.append(Fault(number, record.line, record.rule, record.rule, record.fields))
        elif len(record.fields) != len(columns):
            rule = f"has {_fields(len(record.fields))}, the header has {len(columns)}: quote what has a comma in it"
            table.faults.append(Fault(number, record.line, rule, "fields", record.fields))
        else:
            table.rows.append(Row(number, record.line, record.fields))
    return table


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


class _Record(NamedTuple):
    """One line of a CSV file, or several where a quoted field goes over them; ``rule`` says what is wrong with it."""

    line: int
    fields: tuple[str, ...]
    rule: str = ""


def _records(text: str, has_text: bool) -> Iterator[_Record]:
    """The header and the rows. After a fault reading goes on in the next line."""
    position, line, width = 0, 1, 0
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        if text.find('"', position, end) < 0:  # most lines: nothing is quoted
            fields = tuple(text[position:end].split(","))
            rule = _SPACE if has_text and width and any(one[:1] == " " and one.strip() for one in fields) else ""
            record, after = _Record(line, fields, rule), end + 1
        else:
            record, after = _quoted_record(text, position, line, width, has_text)
        if len(record.fields) > 1 or record.rule or record.fields[0].strip():  # an empty line is no row
            width = width or len(record.fields)
            yield record
        line += text.count("\n", position, after)
        position = after


_SPACE = (
    "has a field that begins with a space: it looks like the rest of a text whose comma or line break is not quoted"
)


def _quoted_record(text: str, position: int, line: int, width: int, has_text: bool) -> tuple[_Record, int]:
    """The record that begins at ``position``, and where the next one does."""
    begin, rule = position, ""
    fields: list[str] = []
    spread: list[tuple[int, str]] = []  # fields over several lines: their place and content
    while True:
        found = _FIELD.match(text, position)
        if found is None:
            return _broken(text, begin, position, line, fields)
        quoted, plain, ended_by = found.groups()
        if quoted is None:
            fields.append(plain)
            if has_text and width and plain[:1] == " " and plain.strip():
                rule = _SPACE
        else:
            fields.append(quoted.replace('""', '"'))
            if "\n" in quoted:
                spread.append((len(fields), quoted))
        position = found.end()
        if ended_by != ",":
            break
    for place, content in spread:
        rule = rule or _swallowed(content, place, len(fields), width)
    return _Record(line, tuple(fields), rule), position


def _swallowed(content: str, place: int, count: int, width: int) -> str:
    """What is wrong with a quoted field over several lines, one of which looks like a row of its own."""
    *inner, last = content.split("\n")[1:]
    candidates = [(one, 0) for one in inner] + [(last, count - place)]
    if any(_LIKE_A_ROW.match(one) and one.count(",") + after >= width - 1 for one, after in candidates):
        return (
            "has a quoted field with a line that looks like a row of its own: is a quote missing, or one too many? If "
            "not, put a space behind that line's first comma"
        )
    return ""


def _broken(text: str, begin: int, position: int, line: int, fields: list[str]) -> tuple[_Record, int]:
    """The record with a stray quote in its field at ``position``."""
    opened = line + text.count("\n", begin, position)
    if text[position] != '"':
        rule = 'has a quote inside a field that does not begin with one: quote the field and double its quotes ("")'
    else:
        closed = re.compile(r'"[^"]*+(?:""[^"]*+)*+"').match(text, position)
        if closed is None:
            return _Record(line, tuple(fields), f"has a quote (line {opened}) that is never closed"), len(text)
        position = closed.end()
        rule = 'has something behind a closing quote: a quote inside a quoted field is doubled ("")'
    rest = _LINE.match(text, position)
    return _Record(line, tuple(fields), rule), rest.end() if rest else len(text)
