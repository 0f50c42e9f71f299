"""Labels as a sheet: wide (a column for each kind of label), long (columns tier and value), or audformat's.

Times are in the columns start_s and end_s, or start_ms and end_ms, or in start and end with ``--unit``, or in columns
that the user names; of moments at a steady rate they are the rows' numbers. Other columns that may be times are listed
with the file, so that they are not silently left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from operator import le
from pathlib import Path
from typing import Any

from storyframes_labels.annotation_file import (
    NO_TIMES,
    Annotation,
    AnnotationFile,
    ImportFaultError,
    Tier,
    backwards,
    overlaps,
    without_empty,
)
from storyframes_labels.clock_times import clock_seconds, is_clock_time
from storyframes_labels.mapping import Role
from tasks.study import Table

_CLOCK = "hh:mm:ss"
UNITS = {"s": 1.0, "ms": 1e-3}
_OTHERS = ("session_id", "rater_id", "person_id", "confidence")
_FILE = "file"
_OF_LONG = ("tier", "value")
_RENAMED = {
    Role.FILE: _FILE,
    Role.SESSION: "session_id",
    Role.RATER: "rater_id",
    Role.PERSON: "person_id",
    Role.CONFIDENCE: "confidence",
    Role.TIER: "tier",
    Role.VALUE: "value",
}
_KNOWN_TIMES = tuple(f"{moment}{ending}" for ending in ("_s", "_ms", "") for moment in ("start", "end"))
_AUDFORMAT_TIME = re.compile(r"(?:(\d+) days?,? )?(\d\d):([0-5]\d):([0-5]\d(?:\.\d{1,9})?)")
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
_STEMS = (
    "start begin stop onset offset duration time second stamp minute "
    "anfang beginn dauer zeit début debut durée duree inicio inizio durata duración"
).split()
_WORDS = {
    *"end dur from to until in out s sec secs ms msec min frame frames tmin tmax xmin xmax t0 t1 t2 length ende".split()
}
_SAYS_UNIT = re.compile(r".*[_ \[(](?:(s|secs?|seconds?)|(ms|msecs?|milliseconds?))[\])]?", re.IGNORECASE)


@dataclass(frozen=True)
class TimeColumns:
    """The columns of the labels' times: a start, and an end or a duration; or moments. Empty where there are none."""

    start: str = ""
    end: str = ""
    duration: str = ""
    moment: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.start, self.end, self.duration, self.moment) if name)


@dataclass(frozen=True)
class SheetOptions:
    """What the user says of a sheet.

    Attributes:
        unit: of the times: s or ms; None where the columns' names have it.
        times: which columns are times; None where they have the usual names.
        roles: of columns that are neither times nor labels.
        rate: rows per second, of a sheet whose first row is at second 0; None where it has times, or none.
        sheet: of a workbook with several.
    """

    unit: str | None = None
    times: TimeColumns | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    rate: float | None = None
    sheet: str | None = None


def read_label_table(table: Table, path: Path, options: SheetOptions) -> AnnotationFile:
    """The labels of a sheet, or of a table that audformat wrote.

    Args:
        table: of the file, as ``read_sheet`` reads it.
        path: the file.
        options: what the user says of it.

    Raises:
        ImportFaultError: the first row is no header, a row does not match the header, a column is missing, or the times
            have no unit.
    """
    unit, time_columns = options.unit, options.times
    said = _RENAMED.keys() & options.roles.values()
    if absent := [column for column in options.roles if column not in table.columns]:
        raise ImportFaultError(
            f"{path.name}: has no column {', '.join(map(repr, absent))}; it has {', '.join(table.columns)}"
        )
    renamed = {column: _RENAMED[role] for column, role in options.roles.items() if role in _RENAMED}
    unrenamed = [f"{name} (other)" if name in renamed.values() else name for name in table.columns]
    header, table = table.columns, replace(table, columns=tuple(map(renamed.get, table.columns, unrenamed)))
    _check_header(path.name, table.columns, {*_OTHERS, *_OF_LONG, *_KNOWN_TIMES, _FILE})
    if _is_audformat(table) and time_columns is None and not options.roles:
        return _read_audformat(path.name, table)
    of_times, known_unit = _time_columns(path.name, table, unit, time_columns)
    times = of_times.names
    if options.rate and times:
        raise ImportFaultError(f"{path.name}: has times ({', '.join(times)}): leave --rate out, or name them otherwise")
    commas = table.number_form((*times, "confidence")).commas > 0
    rows, empty_rows = table.without_empty_rows()
    is_long = {*_OF_LONG} <= {*table.columns}
    columns = [name for name in table.columns if name and name not in (*_OTHERS, *times, *_OF_LONG)]
    names_files = bool(time_columns) or Role.FILE in said
    if names_files and _FILE in columns:
        columns.remove(_FILE)
    if not is_long:
        _check_own_values(path.name, table, columns)
    annotations: list[Annotation] = []
    first_rows: dict[tuple[str, ...], int] = {}
    owner: tuple[str, ...] = ()
    for row in rows:
        named = zip(table.columns, row.values, strict=True)
        cells = {name: cell for name, cell in named if not table.is_empty_cell(cell)}
        start_s, end_s, duration_s, moment_s = (
            _seconds(path.name, row.number, name, cells.get(name), known_unit, commas) if name else None
            for name in (of_times.start, of_times.end, of_times.duration, of_times.moment)
        )
        if options.rate:
            before = owner
            owner = tuple(str(cells.get(name, "")) for name in (_FILE, *_OTHERS[:3], *_OF_LONG[:is_long]))
            if owner != before and owner in first_rows:
                raise ImportFaultError(
                    f"{path.name}: row {row.number}: continues rows further up, with others between them: sort "
                    "them by session, rater and tier for --rate, or name a column of times with --time"
                )
            moment_s = round((row.number - first_rows.setdefault(owner, row.number)) / options.rate, 9)
        if moment_s is not None:
            start_s = end_s = moment_s
        if start_s is not None and duration_s is not None:
            end_s = round(start_s + duration_s, 9)
        if (start_s is None) != (end_s is None) or (start_s is None and duration_s is not None):
            raise ImportFaultError(f"{path.name}: row {row.number}: has a beginning or an end alone: give both or none")
        values = (
            {str(cells.get("tier", "")): cells.get("value", "")}
            if is_long
            else {name: cells.get(name, "") for name in columns}
        )
        others = {name: str(cells[name]).strip() for name in _OTHERS if name in cells}
        if commas and "confidence" in others:
            others["confidence"] = str(Table.with_decimal_point(others["confidence"]))
        for tier, value in values.items():
            place = f"row {row.number}, {tier or 'no tier'}"
            file = str(cells.get(_FILE, "")).strip() if names_files else ""
            annotations.append(Annotation(tier.strip(), str(value).strip(), start_s, end_s, place, file, **others))
    kept, empty = without_empty(annotations)
    names = dict.fromkeys(annotation.tier for annotation in kept) if is_long else dict.fromkeys(columns)
    if "" in names:
        raise ImportFaultError(
            f"{path.name}: {next(annotation.place for annotation in kept if not annotation.tier)}: name its tier"
        )
    remarks = [*table.remarks, *([f"{len(empty_rows)} empty rows, left out"] if empty_rows else [])]
    numbers = table.number_form((*times, "confidence", *(["value"] if is_long else columns)))
    remarks += ["numbers with a decimal comma: read as a point"] if commas or numbers.commas else []
    remarks += _minutes_remark(table, times)
    remarks += [numbers.doubt] if numbers.doubt else []
    shown = {"s": "seconds", "ms": "milliseconds", _CLOCK: "hours:minutes:seconds"}.get(known_unit, NO_TIMES)
    if options.rate:
        shown = f"rows, {options.rate:g} a second"
    tiers = tuple(map(Tier, names))
    remarks += [*empty, *overlaps(kept)]
    return AnnotationFile(
        path.name,
        shown,
        tiers,
        kept,
        tuple(remarks),
        backwards(kept),
        decimal_commas=numbers.commas > 0,
        columns=header,
        possible_times={} if times or options.rate else _possible_times(table, columns),
    )


def _time_columns(name: str, table: Table, unit: str | None, said: TimeColumns | None) -> tuple[TimeColumns, str]:
    """The columns of the times and their unit, which is empty where the table has no times."""
    columns = table.columns
    if said is None:
        endings = [ending for ending in ("_s", "_ms", "") if {f"start{ending}", f"end{ending}"} & {*columns}]
        if not endings:
            return TimeColumns(), ""
        if len(endings) > 1:
            raise ImportFaultError(
                f"{name}: has several columns of times: keep start_s and end_s, or start_ms and end_ms"
            )
        said = TimeColumns(f"start{endings[0]}", f"end{endings[0]}")
        if not {*said.names} <= {*columns}:
            raise ImportFaultError(f"{name}: has one of the columns {' and '.join(said.names)} alone")
    if said.moment and len(said.names) > 1:
        raise ImportFaultError("--time is of moments: leave --start, --end and --duration out")
    if not said.moment and (not said.start or bool(said.end) == bool(said.duration)):
        raise ImportFaultError("--start needs --end or --duration, and they need --start")
    if absent := [column for column in said.names if column not in columns]:
        raise ImportFaultError(f"{name}: has no column {', '.join(map(repr, absent))}; it has {', '.join(columns)}")
    shown = " and ".join(said.names)
    units = [match and ("s" if match[1] else "ms") for match in map(_SAYS_UNIT.fullmatch, said.names)]
    times = [str(row.values[columns.index(column)]) for column in said.names for row in table.rows]
    if unit is None and all(map(is_clock_time, filter(str.strip, times))):
        return said, _CLOCK
    if unit is None and (None in units or len({*units}) > 1):
        raise ImportFaultError(f"{name}: in which unit are the columns {shown}? Say --unit s or --unit ms")
    if unit is not None and {*units} - {unit, None}:
        raise ImportFaultError(f"{name}: the columns {shown} say another unit than --unit {unit}")
    return said, unit or str(units[0])


def _seconds(name: str, row: int, column: str, cell: Any, unit: str, commas: bool) -> float | None:
    if cell is None:
        return None
    text = str(Table.with_decimal_point(cell) if commas else cell).strip()
    if is_clock_time(text) and unit != "ms":
        return clock_seconds(text)
    if text.count(":") == 3:
        rule = "has frames or milliseconds behind a third colon: write hh:mm:ss.mmm, or seconds"
        raise ImportFaultError(f"{name}: row {row}, {column}: {rule}")
    try:
        if "_" in text or not math.isfinite(float(text)):
            raise ValueError
    except ValueError:
        raise ImportFaultError(f"{name}: row {row}, {column}: must be a number with a decimal point") from None
    if unit == _CLOCK:
        raise ImportFaultError(f"{name}: row {row}, {column}: must be hh:mm:ss, as the other times are")
    return round(float(text) * UNITS[unit], 9)


def _minutes_remark(table: Table, names: Collection[str]) -> list[str]:
    """A remark where times have two parts: they are minutes and seconds, never hours and minutes."""
    for row in table.rows:
        for column, cell in zip(table.columns, row.values, strict=True):
            if column in names and str(cell).count(":") == 1:
                return [f"row {row.number}, {column}: times of two parts are read as minutes:seconds"]
    return []


# --- audformat ----------------------------------------------------------------------------------------------------


def _is_audformat(table: Table) -> bool:
    """Whether its first columns are audformat's index of files, or of parts of files."""
    return table.columns[:1] == ("file",) and not {"session_id", "tier"} & {*table.columns}


def _read_audformat(name: str, table: Table) -> AnnotationFile:
    """The labels of an audformat table: a file, perhaps a part of it, and a column for each kind of label.

    A part without an end must begin at 0, and is the whole file.

    Raises:
        ImportFaultError: a row has no file, or times in another form.
    """
    is_parts = table.columns[1:3] == ("start", "end")
    columns = table.columns[3:] if is_parts else table.columns[1:]
    annotations: list[Annotation] = []
    for row in table.rows:
        file, *cells = row.values
        if table.is_empty_cell(file):
            raise ImportFaultError(f"{name}: row {row.number}: names no file")
        span: tuple[float | None, float | None] = (None, None)
        if is_parts:
            span = _span(name, row.number, *cells[:2])
            cells = cells[2:]
        for column, cell in zip(columns, cells, strict=True):
            place = f"row {row.number}, {column}"
            annotations.append(
                Annotation(column, "" if table.is_empty_cell(cell) else str(cell).strip(), *span, place, str(file))
            )
    kept, empty = without_empty(annotations)
    tiers = tuple(Tier(column) for column in columns if column)
    unit = "days and hours:minutes:seconds" if is_parts else NO_TIMES
    return AnnotationFile(
        name,
        unit,
        tiers,
        kept,
        (*table.remarks, *empty, *overlaps(kept)),
        backwards(kept),
        columns=table.columns,
        possible_times={} if is_parts else _possible_times(table, columns),
    )


def _span(name: str, row: int, start: object, end: object) -> tuple[float | None, float | None]:
    start_s = _audformat_seconds(name, row, "start", start) or 0.0
    end_s = _audformat_seconds(name, row, "end", end)
    if end_s is None and start_s:
        raise ImportFaultError(f"{name}: row {row}: begins at {start_s:g} s and has no end: give it one")
    return (None, None) if end_s is None else (start_s, end_s)


def _audformat_seconds(name: str, row: int, column: str, cell: object) -> float | None:
    if Table.is_empty_cell(cell) or str(cell).strip() == "NaT":
        return None
    if not (time := _AUDFORMAT_TIME.fullmatch(str(cell).strip())):
        raise ImportFaultError(f"{name}: row {row}, {column}: is no time as audformat writes it (0 days 00:00:01.5)")
    days, hours, minutes, seconds = time.groups()
    return (int(days or 0) * 24 + int(hours)) * 3600 + int(minutes) * 60 + float(seconds)


# --- columns that may be times, and first rows that are no header -----------------------------------------------------


def _possible_times(table: Table, columns: Collection[str]) -> dict[str, set[str]]:
    """Which of these columns may be times, in their order, and why, as :class:`AnnotationFile` describes it.

    A column may be times by its name (reason: the empty name), by its cells, which are times of a clock (its own name),
    or by its numbers, which are never greater, or never smaller, than another column's (the other's name).
    """
    cells = {
        name: [str(row.values[index]).strip() for row in table.rows if not table.is_empty_cell(row.values[index])]
        for index, name in enumerate(table.columns)
        if name in columns
    }
    numbers = {
        name: [float(cell.replace(",", ".")) for cell in of_name]
        for name, of_name in cells.items()
        if of_name and all(map(_NUMBER.fullmatch, of_name))
    }
    reasons: dict[str, set[str]] = {name: set() for name in cells}
    for name, of_name in cells.items():
        reasons[name] |= {""} if _is_name_of_times(name) else set()
        reasons[name] |= {name} if of_name and all(map(is_clock_time, of_name)) else set()
    for (start, starts), (end, ends) in permutations(numbers.items(), 2):
        if len(starts) == len(ends) and starts != ends and all(map(le, starts, ends)):
            reasons[start].add(end)
            reasons[end].add(start)
    return {name: why for name, why in reasons.items() if why}


def _is_name_of_times(name: str) -> bool:
    words = re.findall(r"[^\W\d_]+\d*", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold())
    return any(word in _WORDS or any(stem in word for stem in _STEMS) for word in words)


def _check_header(name: str, columns: Collection[str], known: Collection[str]) -> None:
    """Refuse a first row that is data: it has numbers, and no known column.

    Raises:
        ImportFaultError: it is data.
    """
    if {*columns} & {*known}:
        return
    for number, column in enumerate(columns, start=1):
        if _NUMBER.fullmatch(column) or is_clock_time(column):
            raise no_header(name, number, "is a number")


def _check_own_values(name: str, table: Table, columns: Collection[str]) -> None:
    """Refuse a column whose name is one of its values: the first row is data.

    Raises:
        ImportFaultError: a column has.
    """
    for index, column in enumerate(table.columns):
        same = [row.number for row in table.rows if column in columns and str(row.values[index]).strip() == column]
        if same:
            raise no_header(name, index + 1, f"is a value of row {same[0]} as well")


def no_header(name: str, field: int, why: str) -> ImportFaultError:
    """The error that the first row of a table is data; ``field`` counts from 1."""
    return ImportFaultError(
        f"{name}: row 1 is no header: its field {field} {why}. Write the columns' names into a first row"
    )
