"""BORIS's exports: tabular events, a row an event (START, STOP, POINT), and aggregated events, a row a behaviour."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from storyframes_labels.annotation_file import (
    Annotation,
    AnnotationFile,
    ImportFaultError,
    PersonIds,
    Tier,
    backwards,
    overlaps,
    places,
    without_empty,
)
from storyframes_labels.clock_times import clock_seconds
from tasks.study import Table, UnusableFileError, decode

BEHAVIOR = "Behavior"
_NOBODY = "No focal subject"
_KIND = ("Behavior type", "Status")
_MEDIA = ("Media file name", "Media file path", "Source")
_START, _STOP, _TIME, _OBSERVATION, _OFFSET = "Start (s)", "Stop (s)", "Time", "Observation id", "Time offset (s)"
_FIRST_PLAYER = "Player #1"
_NO_MEDIA = ("", "NA", "Not found")  # of a live observation, and of an event beside its media
_LINES_ABOVE = 100  # of an old export, before its table


def is_boris(table: Table) -> bool:
    """Whether these are the columns of an export of BORIS."""
    columns = {*table.columns}
    return BEHAVIOR in columns and bool(columns & {*_KIND}) and ({_START, _STOP} <= columns or _TIME in columns)


def read_old_boris(path: Path) -> Table | None:
    """The table of a tabular export of BORIS 7 or older, which has lines about the observation above it; else None.

    Raises:
        ImportFaultError: a row has another number of cells than the header, or several media are one after the other.
        OSError: it cannot be read.
    """
    try:
        lines = decode(path.read_bytes())[0].split("\n")
    except UnusableFileError:
        return None
    if not lines[0].startswith(_OBSERVATION):
        return None
    separator = "\t" if "\t" in lines[0] else ","
    rows = list(csv.reader(lines, delimiter=separator))
    above = next((index for index, row in enumerate(rows[:_LINES_ABOVE]) if row[:1] == [_TIME] and BEHAVIOR in row), 0)
    if not above:
        return None
    players = {tuple(row[1:2]) for row in rows[:above] if row[:1] == [_FIRST_PLAYER]}
    if len(players) > 1:
        raise _several(path, above + 1)
    about = {row[0].strip(): row[1].strip() for row in rows[:above] if len(row) > 1}
    columns = (*map(str.strip, rows[above]), _OBSERVATION, _OFFSET)
    added = (about.get(_OBSERVATION, ""), about.get(_OFFSET, ""))
    numbered = [(number, row) for number, row in enumerate(rows[above + 1 :], start=above + 2) if any(row)]
    if wrong := [f"row {number}" for number, row in numbered if len(row) + len(added) != len(columns)]:
        raise ImportFaultError(f"{path.name}: {places(wrong)}: has another number of cells than the header: mend it")
    table = Table(columns)
    for number, row in numbered:
        table.add_row(number, (*row, *added), line=number)
    return table


def read_boris(table: Table, path: Path) -> AnnotationFile:
    """The behaviours of an export: their tier is their category, or ``Behavior``; a modifier has a tier of its own.

    Raises:
        ImportFaultError: a time is not a number, a subject gives no id, or a session has several media one after the
            other.
    """
    persons = PersonIds(path.name, "Subject")
    annotations: list[Annotation] = []
    begun: dict[tuple[str, ...], tuple[Mapping[str, Any], int]] = {}
    unpaired: list[str] = []
    offsets = set()
    for row in table.rows:
        cells = {name: str(cell or "").strip() for name, cell in zip(table.columns, row.values, strict=True)}
        if not cells[BEHAVIOR]:
            continue
        kind = next(cells[name] for name in _KIND if name in cells).upper()
        offsets.add(_seconds(path, row.number, cells.get(_OFFSET) or "0"))
        key = tuple(cells.get(name, "") for name in (_OBSERVATION, "Subject", BEHAVIOR))
        if _START in cells:
            start, end = cells[_START], cells[_STOP] if kind != "POINT" else cells[_START]
        elif kind == "START":
            if key in begun:
                unpaired.append(f"row {begun[key][1]}")
            begun[key] = (cells, row.number)
            continue
        elif kind == "STOP":
            if key not in begun:
                unpaired.append(f"row {row.number}")
                continue
            cells, start, end = dict(begun[key][0]), begun.pop(key)[0][_TIME], cells[_TIME]
        else:
            start = end = cells[_TIME]
        span = (_seconds(path, row.number, start), _seconds(path, row.number, end))
        subject = cells.get("Subject", "")
        person = persons.id("" if subject == _NOBODY else subject, f"row {row.number}")
        annotations += _of_behavior(path, row.number, cells, span, person)
    unpaired += [f"row {number}" for _, number in begun.values()]
    if unpaired:
        raise ImportFaultError(f"{path.name}: {places(unpaired)}: a START without its STOP, or a STOP alone: mend it")
    kept, empty = without_empty(annotations)
    tiers = tuple(map(Tier, dict.fromkeys(annotation.tier for annotation in kept)))
    remarks = (*table.remarks, *empty, *overlaps(kept))
    origins = tuple(sorted(offsets)) if any(offsets) else ()
    return AnnotationFile(path.name, "seconds", tiers, kept, remarks, backwards(kept), origins, names_persons=True)


def _of_behavior(
    path: Path, row: int, cells: Mapping[str, str], span: tuple[float, float], person: str | None
) -> list[Annotation]:
    media = next((cells[name] for name in _MEDIA if cells.get(name, "") not in _NO_MEDIA), "")
    first_player = cells.get("Source", "").partition("|")[0]  # the others play at the same time
    if media.count("player #") > 1 or ";" in media or ";" in first_player:
        raise _several(path, row)
    file = media.rpartition("player #1:")[2].strip() or cells.get(_OBSERVATION, "")
    behavior = cells[BEHAVIOR]
    modifiers = {name: cell for name, cell in cells.items() if name.startswith("Modifier") and cell not in ("", "None")}
    values = {cells.get("Behavioral category") or BEHAVIOR: behavior}
    values |= {f"{behavior}: {name}": cell for name, cell in modifiers.items()}
    file = PurePosixPath(file.replace("\\", "/")).name
    return [
        Annotation(tier, value, *span, f"row {row}, {tier}", file, person_id=person) for tier, value in values.items()
    ]


def _several(path: Path, row: int) -> ImportFaultError:
    why = "names several media one after the other, and its times go on through all of them: export each by itself"
    return ImportFaultError(f"{path.name}: row {row}: {why}")


def _seconds(path: Path, row: int, text: str) -> float:
    try:
        return clock_seconds(text) if ":" in text else round(float(str(Table.with_decimal_point(text))), 9)
    except ValueError:
        raise ImportFaultError(f"{path.name}: row {row}: a time is neither a number of seconds nor hh:mm:ss") from None
