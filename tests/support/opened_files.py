"""Which files this process opens, and how often; Python itself reports them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_watching: list[Counter[str]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watching and isinstance(arguments[0], str | os.PathLike):
        _watching[-1][os.fspath(arguments[0])] += 1


@contextmanager
def files_opened() -> Iterator[Counter[str]]:
    """Every file that this process opens in the block, and how often."""
    if not _watching:
        sys.addaudithook(_note)
    _watching.append(Counter())
    try:
        yield _watching[-1]
    finally:
        _watching[-1] = Counter()  # an audit hook stays for ever


def below(opened: Counter[str], folder: Path) -> Counter[str]:
    """How often files of each name below ``folder`` were opened."""
    names: Counter[str] = Counter()
    for path, times in opened.items():
        if Path(path).is_relative_to(folder):
            names[Path(path).name] += times
    return names
