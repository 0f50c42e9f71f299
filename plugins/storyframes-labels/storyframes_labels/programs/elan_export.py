"""ELAN's export as tab-delimited text (or CSV): a row an annotation, or a row a stretch with a column for each tier.

A row an annotation has no header: tier, perhaps participant, then begin, end and duration, each in up to four formats,
the value, and of an export of several files their names. With a column for each tier the header names the columns of
times as ``Begin Time - hh:mm:ss.ms``, in ELAN's language; the order is the same. Lines above with ``#`` name the media.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile, zip_longest
from pathlib import Path

from storyframes_labels.annotation_file import (
    Annotation,
    AnnotationFile,
    ImportFaultError,
    PersonIds,
    Tier,
    backwards,
    overlaps,
    without_empty,
)
from storyframes_labels.clock_times import clock_seconds
from tasks.study import UnusableFileError, decode

_CLOCK = re.compile(r"\d\d:\d\d:\d\d\.\d{3}")
_FRAMES = re.compile(r"\d\d:\d\d:\d\d[:;]\d\d")
_MEDIA = re.compile(r"#(.*) -- offset: (-?\d+)")


def _from_milliseconds(cell: str) -> float:
    return int(cell) / 1000


_FORMATS: Mapping[str, Callable[[str], float]] = {
    "hh:mm:ss.ms": clock_seconds,
    "ss.msec": float,
    "msec": _from_milliseconds,
}
_FILE = ".eaf"
_Rows = Sequence[tuple[int, list[str]]]  # the number of each row, and its cells


def read_elan_export(path: Path) -> AnnotationFile | None:
    """The annotations of such an export; None of another file.

    Raises:
        ImportFaultError: it has no tiers, or a row has other cells than the first.
        OSError: it cannot be read.
    """
    try:
        text, remarks = decode(path.read_bytes())
    except UnusableFileError:
        return None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    about = list(takewhile(bool, (_MEDIA.fullmatch(line.strip('"')) for _, line in lines)))
    lines = lines[len(about) :]
    if not lines:
        return None
    first = _cells(lines[0][1])
    has_header = _format(first[0]) in _FORMATS
    if not has_header and sum(bool(_CLOCK.fullmatch(cell)) for cell in first) < 2:
        return None
    rows = [(number, _cells(line)) for number, line in lines]
    read = _by_column(path.name, rows) if has_header else (_by_row(path.name, rows), ())
    if read is None:
        return None
    found, tiers = read
    kept, empty = without_empty(found)
    origins = [int(match[2]) / 1000 for match in about if match]
    return AnnotationFile(
        path.name,
        "hours:minutes:seconds, as ELAN exports them",
        tiers or tuple(map(Tier, dict.fromkeys(annotation.tier for annotation in found))),
        kept,
        (*remarks, *empty, *overlaps(kept)),
        backwards(kept),
        tuple(dict.fromkeys(origins)) if any(origins) else (),
        media=tuple(match[1] for match in about if match),
        names_persons=True,
    )


def _cells(line: str) -> list[str]:
    """The cells of a line; between tabs nothing is quoted."""
    try:
        return line.split("\t") if "\t" in line else next(csv.reader([line]), [""])
    except csv.Error:
        return [line]


def _format(column: str) -> str:
    """The format that the name of a column of times ends with; empty where it has none."""
    return column.rpartition(" - ")[2]


def _by_row(name: str, rows: _Rows) -> list[Annotation]:
    first = rows[0][1]
    clocks = [index for index, cell in enumerate(first) if _CLOCK.fullmatch(cell)][:3]
    begin, end = clocks[:2]
    value = clocks[-1] + end - begin  # the times of each kind have the same formats
    if begin == 0 or begin > 2:
        raise ImportFaultError(f"{name}: row {rows[0][0]}: names no tier: export it from ELAN with tier names")
    file = next((index for index in range(value + 1, len(first)) if first[index].endswith(_FILE)), None)
    persons, found = PersonIds(name, "participant"), []
    for number, cells in rows:
        if len(cells) < value + 1 or not all(_CLOCK.fullmatch(cells[index]) for index in clocks):
            raise ImportFaultError(f"{name}: row {number}: has other cells than the row above it: export it again")
        start_s, end_s, *more = (clock_seconds(cells[index]) for index in clocks)
        if more and abs(end_s - start_s - more[0]) > 0.0015:
            raise ImportFaultError(f"{name}: row {number}: its duration is not end minus begin: export it again")
        person = persons.id(cells[1], f"row {number}") if begin == 2 else None
        place = f"row {number}, {cells[0]}"
        of_file = cells[file].strip() if file is not None and file < len(cells) else ""
        found.append(Annotation(cells[0], cells[value], start_s, end_s, place, of_file, person_id=person))
    return found


def _by_column(name: str, rows: _Rows) -> tuple[list[Annotation], tuple[Tier, ...]] | None:
    """The annotations and tiers; None without a beginning and an end in a known format."""
    header = rows[0][1]
    second = rows[1][1] if len(rows) > 1 else []
    is_time = [
        " - " in column and (_format(column) in _FORMATS or bool(_FRAMES.fullmatch(cell)))
        for column, cell in zip_longest(header, second[: len(header)], fillvalue="")
    ]
    times = header[: len(list(takewhile(bool, is_time)))]
    formats = list(dict.fromkeys(map(_format, times)))
    width = len(formats)
    known = next((index for index, kind in enumerate(formats) if kind in _FORMATS), None)
    if known is None or len(times) not in (2 * width, 3 * width):
        return None
    read, tiers = _FORMATS[formats[known]], header[len(times) :]
    found = []
    for number, cells in rows[1:]:
        if len(cells) < len(header):
            counts = f"has {len(cells)} cells, the header {len(header)}"
            raise ImportFaultError(f"{name}: row {number}: {counts}: export it again")
        try:
            start_s, end_s = (read(cells[index]) for index in (known, known + width))
        except ValueError:
            rule = "its times are not as its header says: export it again"
            raise ImportFaultError(f"{name}: row {number}: {rule}") from None
        file = next((cell.strip() for cell in cells[len(header) :] if cell.strip().endswith(_FILE)), "")
        for tier, value in zip(tiers, cells[len(times) : len(header)], strict=True):
            if value.strip():
                found.append(Annotation(tier, value, start_s, end_s, f"row {number}, {tier}", file))
    return found, tuple(map(Tier, tiers))
