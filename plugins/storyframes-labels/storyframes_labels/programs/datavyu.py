"""Datavyu's .csv: for each column a line with its codes, and a line for each cell with its onset, offset and codes."""

from __future__ import annotations

import re
from pathlib import Path

from storyframes_labels.annotation_file import (
    Annotation,
    AnnotationFile,
    ImportFaultError,
    Tier,
    backwards,
    overlaps,
    without_empty,
)
from tasks.study import UnusableFileError, decode

_FIRST = re.compile(rb"(?:\xef\xbb\xbf)?#\d+\s*[\r\n]")
_COLUMN = re.compile(r"(.+?) \([A-Z]+,(?:true|false),.*?\)-(.*)")
_CELL = re.compile(r"(\d+):(\d\d):(\d\d):(\d{3}),(\d+):(\d\d):(\d\d):(\d{3}),\((.*)\)")
_CODE = re.compile(r"((?:\\.|[^\\,])*)(?:,|$)")
_ESCAPED = re.compile(r"\\(.)")


def is_datavyu(path: Path) -> bool:
    """Whether the file begins as Datavyu's do, with the number of its version."""
    with path.open("rb") as file:
        return bool(_FIRST.match(file.read(16)))


def read_datavyu(path: Path) -> AnnotationFile:
    """The codes of the file; each code of a column is a tier, ``column.code``.

    Raises:
        ImportFaultError: a line is neither a column nor a cell of the column above it.
        OSError: it cannot be read.
    """
    try:
        text, remarks = decode(path.read_bytes())
    except UnusableFileError as error:
        raise ImportFaultError(f"{path.name}: {error}") from None
    tiers: list[Tier] = []
    codes: list[str] = []
    annotations: list[Annotation] = []
    for number, line in enumerate(text.split("\n")[1:], start=2):
        if cell := _CELL.fullmatch(line):
            onset, offset = _seconds(*cell.groups()[:4]), _seconds(*cell.groups()[4:8])
            values = _values(cell[9])
            if not codes or len(values) != len(codes):
                raise ImportFaultError(f"{path.name}: line {number}: has {len(values)} codes, its column {len(codes)}")
            for code, value in zip(codes, values, strict=True):
                annotations.append(Annotation(code, value, onset, offset, f"line {number}, {code}"))
        elif column := _COLUMN.fullmatch(line):
            codes = [f"{column[1]}.{code.rpartition('|')[0] or code}" for code in column[2].split(",")]
            tiers += map(Tier, codes)
        elif line.strip():
            raise ImportFaultError(f"{path.name}: line {number}: is neither a column nor a cell of Datavyu")
    kept, empty = without_empty(annotations)
    remarks += [*empty, *overlaps(kept)]
    unit = "hours:minutes:seconds:milliseconds"
    return AnnotationFile(path.name, unit, tuple(tiers), kept, tuple(remarks), backwards(kept))


def _seconds(hours: str, minutes: str, seconds: str, milliseconds: str) -> float:
    return (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) + int(milliseconds) / 1000


def _values(text: str) -> list[str]:
    """The codes of a cell; a comma inside one has a backslash before it."""
    values, place = [], 0
    while match := _CODE.match(text, place):
        values.append(_ESCAPED.sub(r"\1", match[1]).strip())
        if match.end() == len(text) and not match[0].endswith(","):
            break
        place = match.end()
    return values
