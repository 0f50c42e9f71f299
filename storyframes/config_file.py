"""Reading a configuration that anybody may have written: bounded in size, depth and numbers before anything uses it."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MOST_BYTES = 1 << 20
_MOST_DEPTH = 20
_MOST_VALUES = 100_000
_LONG_NUMBER = re.compile(r"""^[ \t]*([\w."'-]{1,80})[ \t]*=[ \t]*[+-]?([0-9_]{1000,})""", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[+[ \t]*([^\]\n]{1,80}?)[ \t]*\]", re.MULTILINE)


class ConfigFileError(ValueError):
    """A configuration cannot be used; the message says in a line what is wrong with it, without the file's name."""


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        ConfigFileError: it is no TOML, or larger or deeper than any configuration is, or has a number that is none.
        OSError: it cannot be read.
    """
    text = read_text(path)
    if long := _LONG_NUMBER.search(text):
        tables = [table[1] for table in _TABLE.finditer(text, 0, long.start())]
        key = ".".join([*tables[-1:], long[1]])
        raise ConfigFileError(f"{key}: a number of {len(long[2]):,} digits")
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise ConfigFileError("is nested too deeply") from None
    except ValueError as error:  # not TOML, or what Python says of a number with thousands of digits
        raise ConfigFileError(f"is not TOML: {str(error).splitlines()[0]}") from None
    check_values(content)
    return content


def read_text(path: Path) -> str:
    """The text of a small file.

    Raises:
        ConfigFileError: it is larger than any configuration, or no text.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ConfigFileError(f"is larger than {_MOST_BYTES:,} bytes, and no configuration is")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigFileError(f"is not text in UTF-8: {error}") from None


def check_values(content: Any) -> None:
    """Refuse values that no setting has, wherever they are, before a program that would stumble over them.

    Args:
        content: what a parser made of a file: mappings, lists and scalars. What is referred to twice counts twice.

    Raises:
        ConfigFileError: with the key.
    """
    left: list[tuple[Any, tuple[str, ...]]] = [(content, ())]
    seen = 0
    while left:
        value, place = left.pop()
        seen += 1
        if seen > _MOST_VALUES:
            raise ConfigFileError(f"has more than {_MOST_VALUES:,} values")
        if len(place) > _MOST_DEPTH:
            raise ConfigFileError("is nested too deeply")
        if isinstance(value, Mapping):
            left += [(each, (*place, str(key))) for key, each in value.items()]
        elif isinstance(value, list):
            left += [(each, (*place, str(number))) for number, each in enumerate(value[: _MOST_VALUES + 1])]
        elif isinstance(value, float) and not math.isfinite(value):
            raise ConfigFileError(f"{_named(place)} = {value}: a number has to be finite")
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ConfigFileError(f"{_named(place)}: a whole number beyond 64 bits")


def _named(place: tuple[str, ...]) -> str:
    key = ".".join(place)
    return key if key.isprintable() else ascii(key)
