"""Labels as a CSV table: wide (a column for each kind of label) or long (columns tier and value).

Times are in the columns start_s and end_s, or start_ms and end_ms, or in start and end with a unit that is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.study.importers.annotation_file import (
    Annotation,
    AnnotationFile,
    ImportFaultError,
    Tier,
    backwards,
    overlaps,
    without_empty,
)
from tasks.study.importers.audformat_table import is_audformat, read_audformat
from tasks.study.spreadsheet_habits import decimal_commas, with_decimal_point, without_empty_rows
from tasks.study.strict_tables import is_empty, read_table

UNITS = {"s": 1.0, "ms": 1e-3}
_OTHERS = ("session_id", "rater_id", "person_id", "confidence")


def read_label_table(path: Path, unit: str | None = None) -> AnnotationFile:
    """The labels of a CSV table, or of one that audformat wrote.

    Args:
        path: the table.
        unit: of the columns start and end: s or ms; None where the columns' names say it.

    Raises:
        ImportFaultError: a row is not as the header says, or the times have no unit.
        OSError: it cannot be read.
    """
    table = read_table(path, has_text=False)
    if table.faults:
        fault = table.faults[0]
        where = f"row {fault.number} " if fault.number else ""
        raise ImportFaultError(f"{path.name}: {where}{fault.rule.removeprefix(f'{path.name} ')}")
    if is_audformat(table):
        return read_audformat(path.name, table)
    start, end, known_unit = _time_columns(path.name, table.columns, unit)
    times = [name for name in (start, end) if name]
    commas = decimal_commas(table, (*times, "confidence")) is not None
    rows, empty_rows = without_empty_rows(table)
    is_long = "tier" in table.columns and "value" in table.columns
    columns = [name for name in table.columns if name and name not in (*_OTHERS, *times, "tier", "value")]
    annotations: list[Annotation] = []
    for row in rows:
        cells = {name: cell for name, cell in zip(table.columns, row.values, strict=True) if not is_empty(cell)}
        span = [
            _seconds(path.name, row.number, name, cells.get(name), known_unit, commas) if name else None
            for name in (start, end)
        ]
        if (span[0] is None) != (span[1] is None):
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
            annotations.append(Annotation(tier.strip(), str(value).strip(), span[0], span[1], place, **others))
    kept, empty = without_empty(annotations)
    names = dict.fromkeys(one.tier for one in kept) if is_long else dict.fromkeys(columns)
    if "" in names:
        raise ImportFaultError(f"{path.name}: {next(one.place for one in kept if not one.tier)}: name its tier")
    remarks = [*table.remarks, *([f"{len(empty_rows)} empty rows, left out"] if empty_rows else [])]
    values_have_commas = decimal_commas(table, (*times, "confidence", *(["value"] if is_long else columns))) is not None
    remarks += ["numbers with a decimal comma: read as a point"] if commas or values_have_commas else []
    shown = {"s": "seconds", "ms": "milliseconds"}.get(known_unit, "no times")
    tiers = tuple(map(Tier, names))
    remarks += [*empty, *overlaps(kept)]
    return AnnotationFile(
        path.name, shown, tiers, kept, tuple(remarks), backwards(kept), decimal_commas=values_have_commas
    )


def _time_columns(name: str, columns: Sequence[str], unit: str | None) -> tuple[str, str, str]:
    """The columns of the times and their unit; empty where there are none."""
    found = [end for end in ("_s", "_ms", "") if f"start{end}" in columns or f"end{end}" in columns]
    if not found:
        return "", "", ""
    if len(found) > 1:
        raise ImportFaultError(f"{name}: has several columns of times: keep start_s and end_s, or start_ms and end_ms")
    start, end = f"start{found[0]}", f"end{found[0]}"
    if not (start in columns and end in columns):
        raise ImportFaultError(f"{name}: has one of the columns {start} and {end} alone")
    named = found[0].removeprefix("_")
    if not named and unit is None:
        raise ImportFaultError(f"{name}: in which unit are the columns start and end? Say --unit s or --unit ms")
    if named and unit not in (None, named):
        raise ImportFaultError(f"{name}: the columns {start} and {end} say another unit than --unit {unit}")
    return start, end, named or str(unit)


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
