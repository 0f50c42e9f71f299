"""NOVA's (and SSI's) .annotation: a header in XML, and the values in a second file whose name ends in ``~``.

The values are text with semicolons, or binary: of a discrete scheme from, to, the class's id and the confidence; of a
free one a text in the place of the id; of a continuous one the value and the confidence, at the scheme's rate.
"""

from __future__ import annotations

import csv
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from storyframes_labels.annotation_file import (
    Annotation,
    AnnotationFile,
    ImportFaultError,
    Tier,
    backwards,
    overlaps,
    read_xml,
    without_empty,
)
from tasks.study import SchemeType, UnusableFileError, decode

_BINARY = {
    "DISCRETE": np.dtype([("from", "<f8"), ("to", "<f8"), ("id", "<i4"), ("confidence", "<f4")]),
    "CONTINUOUS": np.dtype([("score", "<f4"), ("confidence", "<f4")]),
}
_FIELDS = {"DISCRETE": 4, "FREE": 4, "CONTINUOUS": 2}


def read_nova(path: Path) -> AnnotationFile:
    """The annotations of an .annotation file and the file of its values beside it.

    Raises:
        ImportFaultError: it is no such file, it is cut, or the values are not as the header says.
        OSError: it cannot be read.
    """
    root = read_xml(path, "no .annotation: can NOVA open it?")
    scheme, info, meta = (root.find(name) for name in ("scheme", "info", "meta"))
    if root.tag != "annotation" or scheme is None or info is None or scheme.get("type") not in _FIELDS:
        raise ImportFaultError(f"{path.name}: is no .annotation of a discrete, free or continuous scheme")
    values = path.with_name(f"{path.name}~")
    if not values.is_file():
        raise ImportFaultError(f"{values.name}: is missing: the values of {path.name} are in it")
    try:
        rows = list(_rows(values, scheme.attrib["type"], info.get("ftype") == "BINARY"))
        if info.get("size") and int(info.attrib["size"]) != len(rows):
            raise ImportFaultError(f"{values.name}: has {len(rows)} rows, and {path.name} says {info.attrib['size']}")
        tier, annotations, remarks = _annotations(
            scheme, rows, (meta.get("annotator") if meta is not None else "") or None
        )
    except (ValueError, ArithmeticError, KeyError, IndexError, struct.error, csv.Error, UnusableFileError) as error:
        raise ImportFaultError(f"{values.name}: is not as {path.name} says ({type(error).__name__})") from None
    if tier.type is SchemeType.CURVE:  # a moment without a value is a gap; left out, it would be drawn across
        return AnnotationFile(path.name, "seconds", (tier,), tuple(annotations), tuple(remarks))
    kept, empty = without_empty(annotations)
    remarks += [*empty, *overlaps(kept)]
    return AnnotationFile(path.name, "seconds", (tier,), kept, tuple(remarks), backwards(kept))


def _rows(path: Path, kind: str, is_binary: bool) -> Iterator[tuple[str, ...]]:
    content = path.read_bytes()
    if not is_binary:
        lines = csv.reader(decode(content)[0].split("\n"), delimiter=";")
        for fields in lines:
            if fields:
                if len(fields) != _FIELDS[kind]:
                    raise ValueError
                yield tuple(fields)
    elif kind == "FREE":
        place = 0
        while place < len(content):
            start_s, end_s, length = struct.unpack_from("<ddi", content, place)
            if length < 0:
                raise ValueError
            text = content[place + 20 : place + 20 + length]
            (confidence,) = struct.unpack_from("<f", content, place + 20 + length)
            yield repr(start_s), repr(end_s), text.decode("latin-1"), f"{confidence:g}"
            place += 24 + length
    else:
        for row in np.frombuffer(content, _BINARY[kind]):
            yield tuple(map(str, row))  # the shortest text of a float32


def _annotations(
    scheme: ElementTree.Element, rows: list[tuple[str, ...]], rater: str | None
) -> tuple[Tier, list[Annotation], list[str]]:
    name, kind = scheme.attrib["name"], scheme.attrib["type"]
    places = [f"row {number}" for number in range(1, len(rows) + 1)]
    if kind == "CONTINUOUS":
        rate = float(scheme.attrib["sr"])
        low, high = float(scheme.attrib["min"]), float(scheme.attrib["max"])
        annotations = []
        for number, (value, _) in enumerate(rows):
            text = "" if math.isnan(float(value)) else value.strip()
            time_s = round(number / rate, 9)
            annotations.append(Annotation(name, text, time_s, time_s, places[number], rater_id=rater))
        return Tier(name, (), SchemeType.CURVE, low, high), annotations, []
    classes = {item.attrib["id"]: item.attrib["name"] for item in scheme.iterfind("item")}
    annotations, left_out = [], 0
    for place, (start, end, value, confidence) in zip(places, rows, strict=True):
        if kind == "DISCRETE" and value.strip() not in classes:
            left_out += 1  # NOVA's garbage class, which no item names
            continue
        text = classes[value.strip()] if kind == "DISCRETE" else value
        sure = f"{float(confidence):g}"
        annotations.append(Annotation(name, text, float(start), float(end), place, rater_id=rater, confidence=sure))
    remarks = [f"{left_out} of a class that the scheme does not name, left out"] if left_out else []
    vocabulary = tuple(dict.fromkeys(classes.values()))
    return Tier(name, vocabulary, SchemeType.TEXT if kind == "FREE" else SchemeType.NOMINAL), annotations, remarks
