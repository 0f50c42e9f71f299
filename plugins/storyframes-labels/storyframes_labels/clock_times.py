"""Times as a clock shows them: hours:minutes:seconds, or minutes:seconds."""

from __future__ import annotations

import re

_CLOCK = re.compile(r"([+-]?)(?:(\d+):([0-5]?\d)|(\d+)):([0-5]?\d(?:[.,]\d+)?)", re.ASCII)


def is_clock_time(text: str) -> bool:
    """Whether the text is a time of a clock; with frames behind the seconds it is none."""
    return bool(_CLOCK.fullmatch(text.strip()))


def clock_seconds(text: str) -> float:
    """The seconds of a time of a clock; the sign is of all of it.

    Raises:
        ValueError: it is none.

    >>> clock_seconds("-00:00:05.000"), clock_seconds("1:02:03,5"), clock_seconds("75:00")
    (-5.0, 3723.5, 4500.0)
    """
    if not (match := _CLOCK.fullmatch(text.strip())):
        raise ValueError("is not hh:mm:ss")
    sign, hours, minutes, only_minutes, seconds = match.groups()
    total = int(hours or 0) * 3600 + int(minutes or only_minutes) * 60 + float(seconds.replace(",", "."))
    return round(-total if sign == "-" else total, 9)
