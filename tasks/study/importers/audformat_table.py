"""A table of an audformat database as CSV: a file, perhaps a part of it, and a column for each kind of label."""

from __future__ import annotations

import re

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
from tasks.study.importers.possible_times import possible_times
from tasks.study.strict_tables import Table, is_empty

_TIME = re.compile(r"(?:(\d+) days?,? )?(\d\d):([0-5]\d):([0-5]\d(?:\.\d{1,9})?)")


def is_audformat(table: Table) -> bool:
    """Whether its first columns are the index of a table of files or of parts of files."""
    return table.columns[:1] == ("file",) and not {"session_id", "tier"} & {*table.columns}


def read_audformat(name: str, table: Table) -> AnnotationFile:
    """The labels of such a table; a part without an end must begin at 0, and is the whole file.

    Raises:
        ImportFaultError: a row's file or times are missing or are none.
    """
    is_parts = table.columns[1:3] == ("start", "end")
    columns = table.columns[3:] if is_parts else table.columns[1:]
    annotations: list[Annotation] = []
    for row in table.rows:
        file, *cells = row.values
        if is_empty(file):
            raise ImportFaultError(f"{name}: row {row.number}: names no file")
        span: tuple[float | None, float | None] = (None, None)
        if is_parts:
            span = _span(name, row.number, *cells[:2])
            cells = cells[2:]
        for column, cell in zip(columns, cells, strict=True):
            place = f"row {row.number}, {column}"
            annotations.append(Annotation(column, "" if is_empty(cell) else str(cell).strip(), *span, place, str(file)))
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
        possible_times={} if is_parts else possible_times(table, columns),
    )


def _span(name: str, row: int, start: object, end: object) -> tuple[float | None, float | None]:
    start_s = _seconds(name, row, "start", start) or 0.0
    end_s = _seconds(name, row, "end", end)
    if end_s is None and start_s:
        raise ImportFaultError(f"{name}: row {row}: begins at {start_s:g} s and has no end: give it one")
    return (None, None) if end_s is None else (start_s, end_s)


def _seconds(name: str, row: int, column: str, cell: object) -> float | None:
    if is_empty(cell) or str(cell).strip() == "NaT":
        return None
    if not (time := _TIME.fullmatch(str(cell).strip())):
        raise ImportFaultError(f"{name}: row {row}, {column}: is no time as audformat writes it (0 days 00:00:01.5)")
    days, hours, minutes, seconds = time.groups()
    return (int(days or 0) * 24 + int(hours)) * 3600 + int(minutes) * 60 + float(seconds)
