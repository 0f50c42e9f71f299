"""Numbers as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from storyframes.store.records import MEASURED


def human_bytes(count: float) -> str:
    """``count`` bytes for a person."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def without_folders(text: str) -> str:
    """``text`` with files by their names alone: a page that is handed on does not tell where things lie."""
    return re.sub(r"(?<![\w:/.])/(?:[^\s'\"/]+/)+(?=[^\s'\"/])", "", text)


def counted(count: int, noun: str) -> str:
    """``2`` and ``"clip"`` are ``2 clips``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def human_time(seconds: float) -> str:
    """``75`` is ``1 min 15 s``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def measured_share(quality: Mapping[str, float]) -> float | None:
    """The share of a version's rows that are measurements; None where nothing says so.

    Versions of before it was noted of every feature have the same number of faces and of words.
    """
    return next((quality[name] for name in (MEASURED, "face_tracked", "words_known") if name in quality), None)


def measured_rows(rows: int, quality: Mapping[str, float]) -> str:
    """How many rows a version has; where fewer than half of them are measurements, how many are: ``0 of 60``."""
    share = measured_share(quality)
    return str(rows) if share is None or share >= 0.5 else f"{round(share * rows)} of {rows}"
