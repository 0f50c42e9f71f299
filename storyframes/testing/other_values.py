"""Another value of a setting than the one it has, by what is known of its type."""

from __future__ import annotations

import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

_NUMBERS = (1, 2, 3, 0, 7, 50, -1)


def other_values(annotation: Any, value: Any, file: Path) -> Iterator[Any]:
    """Values that may be valid where ``value`` is, and are others.

    Args:
        annotation: the setting's type.
        value: what it is.
        file: a file, for settings that name one.
    """
    for candidate in _candidates(annotation, value, file):
        if type(candidate) is not type(value) or candidate != value:
            yield candidate


def _candidates(annotation: Any, value: Any, file: Path) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _candidates(part, value, file)
    elif origin is Literal:
        yield from get_args(annotation)
    elif origin in (tuple, list, set, frozenset):
        yield from _collections(annotation, value, file)
    elif isinstance(annotation, type):
        yield from _of_class(annotation, value, file)


def _of_class(annotation: type, value: Any, file: Path) -> Iterator[Any]:
    if annotation is bool:
        yield not value
    elif issubclass(annotation, Enum):
        yield from annotation
    elif annotation in (int, float):
        number = value if isinstance(value, int | float) else 0
        yield from (annotation(number + step) for step in _NUMBERS)
        yield from (annotation(number * factor) for factor in (2, 0.5))
        if annotation is float:
            yield from (0.25, 0.5, number * 0.9, number + 0.01)
    elif annotation is str:
        yield f"{value or ''}x"
    elif issubclass(annotation, Path):
        yield file
    elif annotation is type(None):
        yield None


def _collections(annotation: Any, value: Any, file: Path) -> Iterator[Any]:
    of = next((part for part in get_args(annotation) if part is not Ellipsis), str)
    entries = list(value or ())
    for number, entry in enumerate(entries):
        for other in _candidates(of, entry, file):
            yield [*entries[:number], other, *entries[number + 1 :]]
    yield entries[:-1]
    for other in _candidates(of, None, file):
        yield [*entries, other]
