"""What a message names: tests assert the file, row, key and value in it, not its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


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


def unlike(texts: Iterable[object], *named: Sequence[object]) -> list[str]:
    """Of texts those that do not have all of what they have to name, in their order; all, where they are not as many.

    >>> unlike(["row 3: no video", "row 5: no sound"], ("row 3", "video"), ("row 4",))
    ['row 5: no sound']
    """
    found = [str(text) for text in texts]
    if len(found) != len(named):
        return found or ["nothing"]
    return [text for text, parts in zip(found, named, strict=True) if missing(text, *parts)]
