"""Reading a configuration of any origin: its size, depth and numbers are limited before anything uses it."""

from __future__ import annotations

import math
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MOST_BYTES = 256_000
_MOST_DEPTH = 20
_MOST_VALUES = 100_000
_LONG_NUMBER = re.compile(r"""^[ \t]*([\w."'-]{1,80})[ \t]*=[ \t]*[+-]?([0-9_]{1000,})""", re.MULTILINE)
_LONG_KEY = re.compile(r"""(?<![\w"'.-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64}""")
_TABLE = re.compile(r"^[ \t]*\[+[ \t]*([^\]\n]{1,80}?)[ \t]*\]", re.MULTILINE)


class ConfigFileError(ValueError):
    """A configuration cannot be used; the message says what is wrong in one line, without the file's name.

    Example:
        >>> _ = Path("bad.toml").write_text("[glove")
        >>> read_toml(Path("bad.toml"))
        Traceback (most recent call last):
        storyframes.config_file.ConfigFileError: ...
    """


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        ConfigFileError: it is not TOML, too large or too deep, or has a number that is not finite or beyond 64 bits.
        OSError: it cannot be read.
    """
    text = read_text(path)
    if deep := _LONG_KEY.search(text):  # reading one of thousands of parts takes minutes
        line = text.count("\n", 0, deep.start()) + 1
        raise ConfigFileError(f"line {line}: is nested too deeply: a key of more than 64 parts")
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
        ConfigFileError: it is too large, no file (a pipe, a device), or not text.
        OSError: it cannot be read.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a folder says so
        raise ConfigFileError("is not a regular file (a pipe or a device): give the path of a file")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ConfigFileError(f"is larger than {_MOST_BYTES:,} bytes, and no configuration is")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigFileError(f"is not text in UTF-8: {error}") from None


def check_values(content: Any) -> None:
    """Refuse values that no setting can have, at any depth, before code that would fail on them.

    Args:
        content: a parsed file: mappings, lists and scalars. A value that is referred to twice counts twice.

    Raises:
        ConfigFileError: with the key.
    """
    remaining: list[tuple[Any, tuple[str, ...]]] = [(content, ())]
    count = 0
    while remaining:
        value, path = remaining.pop()
        count += 1
        if count > _MOST_VALUES:
            raise ConfigFileError(f"has more than {_MOST_VALUES:,} values")
        if len(path) > _MOST_DEPTH:
            raise ConfigFileError("is nested too deeply")
        if isinstance(value, Mapping):
            remaining += [(entry, (*path, str(key))) for key, entry in value.items()]
        elif isinstance(value, list):
            remaining += [(entry, (*path, str(number))) for number, entry in enumerate(value[: _MOST_VALUES + 1])]
        elif isinstance(value, float) and not math.isfinite(value):
            raise ConfigFileError(f"{_shown(path)} = {value}: a number has to be finite")
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ConfigFileError(f"{_shown(path)}: a whole number beyond 64 bits")


def _shown(path: tuple[str, ...]) -> str:
    key = ".".join(path)
    return key if key.isprintable() else ascii(key)
