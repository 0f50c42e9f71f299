"""What a message names: tests assert the file, row, key and value in it, not its sentence."""

from __future__ import annotations

import re


def naming(*parts: object) -> str:
    """A pattern for ``pytest.raises(match=…)``: the message has all of these, in whatever order.

    >>> bool(re.search(naming("sessions.csv", "row 3"), "row 3 of sessions.csv: no video"))
    True
    """
    return "(?s)" + "".join(f"(?=.*{re.escape(str(part))})" for part in parts)


def missing(text: object, *parts: object) -> list[str]:
    """Which of these are not in a message or in what was printed: ``assert missing(error, "p1", 3) == []``.

    >>> missing("row 3 of sessions.csv", "sessions.csv", "row 4")
    ['row 4']
    """
    return [str(part) for part in parts if str(part) not in str(text)]
