"""Labels as a CSV table: wide (a column for each kind of label) or long (columns tier and value).

Times are in the columns start_s and end_s, or start_ms and end_ms, or in start and end with a unit that is said, or in
columns that the user names. Whatever else may be times is listed with the file, so that it is not left out in silence.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.study.importers.annotation_file import (
    NO_TIMES,
    Annotation,
    AnnotationFile,
    ImportFaultError,
    Tier,
    backwards,
    overlaps,
    without_empty,
)
from tasks.study.importers.audformat_table import is_audformat, read_audformat
from tasks.study.importers.possible_times import check_header, check_own_values, possible_times
from tasks.study.spreadsheet_habits import decimal_commas, with_decimal_point, without_empty_rows
from tasks.study.strict_tables import is_empty, read_table

UNITS = {"s": 1.0, "ms": 1e-3}
_OTHERS = ("session_id", "rater_id", "person_id", "confidence")
_FILE = "file"
_OF_LONG = ("tier", "value")
_KNOWN_TIMES = tuple(f"{moment}{ending}" for ending in ("_s", "_ms", "") for moment in ("start", "end"))
_SAYS_UNIT = re.compile(r".*[_ \[(](?:(s|secs?|seconds?)|(ms|msecs?|milliseconds?))[\])]?", re.IGNORECASE)


@dataclass(frozen=True)
class TimeColumns:
    """The columns that hold the labels' times: a start, and an end or a duration. Empty where there is none."""

    start: str = ""
    end: str = ""
    duration: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.start, self.end, self.duration) if name)


def read_label_table(path: Path, unit: str | None = None, time_columns: TimeColumns | None = None) -> AnnotationFile:
    """The labels of a CSV table, or of one that audformat wrote.

    Args:
        path: the table.
        unit: of the times: s or ms; None where the columns' names say it.
        time_columns: which columns are times; None where they have the names that are known.

    Raises:
        ImportFaultError: the first row is no header, a row is not as the header says, a column is not there, or the
            times have no unit.
        OSError: it cannot be read.
    """
    table = read_table(path, has_text=False)
    if table.faults:
        fault = table.faults[0]
        where = f"row {fault.number} " if fault.number else ""
        raise ImportFaultError(f"{path.name}: {where}{fault.rule.removeprefix(f'{path.name} ')}")
    check_header(path.name, table.columns, {*_OTHERS, *_OF_LONG, *_KNOWN_TIMES, _FILE})
    if is_audformat(table) and time_columns is None:
        return read_audformat(path.name, table)
    of_times, known_unit = _time_columns(path.name, table.columns, unit, time_columns)
    times = of_times.names
    commas = decimal_commas(table, (*times, "confidence")) is not None
    rows, empty_rows = without_empty_rows(table)
    is_long = {*_OF_LONG} <= {*table.columns}
    columns = [name for name in table.columns if name and name not in (*_OTHERS, *times, *_OF_LONG)]
    if time_columns and _FILE in columns:
        columns.remove(_FILE)
    if not is_long:
        check_own_values(path.name, table, columns)
    annotations: list[Annotation] = []
    for row in rows:
        cells = {name: cell for name, cell in zip(table.columns, row.values, strict=True) if not is_empty(cell)}
        start_s, end_s, duration_s = (
            _seconds(path.name, row.number, name, cells.get(name), known_unit, commas) if name else None
            for name in (of_times.start, of_times.end, of_times.duration)
        )
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
            others["confidence"] = str(with_decimal_point(others["confidence"]))
        for tier, value in values.items():
            place = f"row {row.number}, {tier or 'no tier'}"
            file = str(cells.get(_FILE, "")).strip() if time_columns else ""
            annotations.append(Annotation(tier.strip(), str(value).strip(), start_s, end_s, place, file, **others))
    kept, empty = without_empty(annotations)
    names = dict.fromkeys(one.tier for one in kept) if is_long else dict.fromkeys(columns)
    if "" in names:
        raise ImportFaultError(f"{path.name}: {next(one.place for one in kept if not one.tier)}: name its tier")
    remarks = [*table.remarks, *([f"{len(empty_rows)} empty rows, left out"] if empty_rows else [])]
    values_have_commas = decimal_commas(table, (*times, "confidence", *(["value"] if is_long else columns))) is not None
    remarks += ["numbers with a decimal comma: read as a point"] if commas or values_have_commas else []
    shown = {"s": "seconds", "ms": "milliseconds"}.get(known_unit, NO_TIMES)
    tiers = tuple(map(Tier, names))
    remarks += [*empty, *overlaps(kept)]
    return AnnotationFile(
        path.name,
        shown,
        tiers,
        kept,
        tuple(remarks),
        backwards(kept),
        decimal_commas=values_have_commas,
        columns=table.columns,
        possible_times={} if times else possible_times(table, columns),
    )


def _time_columns(
    name: str, columns: tuple[str, ...], unit: str | None, said: TimeColumns | None
) -> tuple[TimeColumns, str]:
    """The columns of the times and their unit, which is empty where there are none."""
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
    if not said.start or bool(said.end) == bool(said.duration):
        raise ImportFaultError("--start needs --end or --duration, and they need --start")
    if absent := [column for column in said.names if column not in columns]:
        raise ImportFaultError(f"{name}: has no column {', '.join(map(repr, absent))}; it has {', '.join(columns)}")
    shown = " and ".join(said.names)
    units = [match and ("s" if match[1] else "ms") for match in map(_SAYS_UNIT.fullmatch, said.names)]
    if unit is None and (None in units or len({*units}) > 1):
        raise ImportFaultError(f"{name}: in which unit are the columns {shown}? Say --unit s or --unit ms")
    if unit is not None and {*units} - {unit, None}:
        raise ImportFaultError(f"{name}: the columns {shown} say another unit than --unit {unit}")
    return said, unit or str(units[0])


def _seconds(name: str, row: int, column: str, cell: Any, unit: str, commas: bool) -> float | None:
    if cell is None:
        return None
    text = str(with_decimal_point(cell) if commas else cell).strip()
    try:
        if "_" in text or not math.isfinite(float(text)):
            raise ValueError
    except ValueError:
        raise ImportFaultError(f"{name}: row {row}, {column}: must be a number with a decimal point") from None
    return round(float(text) * UNITS[unit], 9)
