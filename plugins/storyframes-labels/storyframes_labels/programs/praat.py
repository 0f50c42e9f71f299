"""Praat's TextGrid: tiers of intervals and points in seconds, as long or short text.

Praat reads only the quoted texts, and the numbers and flags that are separate words; everything else (``xmin =``,
``intervals [1]:``) is for people. So the long and the short form are one.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator
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

_TOKEN = re.compile(r'"((?:[^"]++|"")*+)"|(<\w+>)|(?<!\S)([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?%?)(?!\S)|![^\n]*|\S+')


def read_textgrid(path: Path) -> AnnotationFile:
    """The annotations of a TextGrid; a point begins and ends at its time.

    Raises:
        ImportFaultError: it is no TextGrid, or an incomplete one.
        OSError: it cannot be read.
    """
    text, remarks = _text(path)
    tokens = _tokens(text)
    try:
        if (next(tokens), next(tokens)) != ("ooTextFile", "TextGrid"):
            raise ImportFaultError(f"{path.name}: is no TextGrid in text form: its first lines do not say so")
        tiers, annotations = _read(tokens)
    except StopIteration:
        raise ImportFaultError(f"{path.name}: ends in the middle: it is cut") from None
    except (TypeError, ValueError):
        rule = "is no whole TextGrid: a number or a text is not where it belongs"
        raise ImportFaultError(f"{path.name}: {rule}") from None
    kept, empty = without_empty(annotations)
    return AnnotationFile(
        path.name, "seconds", tuple(tiers), kept, (*remarks, *empty, *overlaps(kept)), backwards(kept)
    )


def _text(path: Path) -> tuple[str, list[str]]:
    """Praat writes UTF-8, or UTF-16 with its byte order mark; old versions wrote Latin-1."""
    content = path.read_bytes()
    try:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return content.decode("utf-16"), []
        return decode(content)
    except UnusableFileError as error:
        raise ImportFaultError(f"{path.name}: {error}") from None
    except UnicodeDecodeError:
        raise ImportFaultError(f"{path.name}: is not the UTF-16 that it begins as: save it as UTF-8") from None


def _tokens(text: str) -> Iterator[str | float]:
    """The texts, numbers and flags in their order; a flag is a text with its brackets."""
    for match in _TOKEN.finditer(text):
        quoted, flag, number = match.groups()
        if quoted is not None:
            yield quoted.replace('""', '"')
        elif flag:
            yield flag
        elif number:
            yield float(number.rstrip("%"))


def _read(tokens: Iterator[str | float]) -> tuple[list[Tier], list[Annotation]]:
    _number(tokens)
    _number(tokens)
    if next(tokens) != "<exists>":
        return [], []
    tiers, annotations = [], []
    for _ in range(_count(tokens)):
        kind, name = next(tokens), next(tokens)
        if kind not in ("IntervalTier", "TextTier") or not isinstance(name, str):
            raise ValueError
        tiers.append(Tier(name))
        _number(tokens)
        _number(tokens)
        for number in range(1, _count(tokens) + 1):
            start_s = _number(tokens)
            end_s = _number(tokens) if kind == "IntervalTier" else start_s
            value = next(tokens)
            if not isinstance(value, str):
                raise TypeError
            annotations.append(Annotation(name, value, start_s, end_s, f"tier {name!r}, annotation {number}"))
    return tiers, annotations


def _number(tokens: Iterator[str | float]) -> float:
    token = next(tokens)
    if not isinstance(token, float) or not math.isfinite(token):
        raise TypeError
    return token


def _count(tokens: Iterator[str | float]) -> int:
    count = _number(tokens)
    if count != int(count) or count < 0:
        raise ValueError
    return int(count)
