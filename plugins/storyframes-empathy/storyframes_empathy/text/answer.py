"""Reading the number out of a model's answer."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d*[.,]?\d+")
_THOUSANDS = re.compile(r"[1-9]\d{0,2},\d{3}")  # 1,000 may be one or a thousand; 0,700 is no thousands
_AROUND = " \t\r\n\"'`*"
_PREFIX = re.compile(r"score\s*:\s*", re.IGNORECASE)


def parse_answer(answer: str, low: float = 0.0, high: float = 1.0) -> float | None:
    """The one number that an answer is; None where it is anything else, or out of the scale.

    Quotes, asterisks, a leading ``Score:``, a trailing full stop and a decimal comma are forgiven; prose, a sign, a
    percentage, an exponent, two numbers and a comma that may part thousands are not.

    >>> parse_answer("**0,7**.")
    0.7
    >>> parse_answer("1,000") is None
    True
    >>> parse_answer("between 0.6 and 0.8") is None
    True
    """
    bare = _PREFIX.sub("", answer.strip(_AROUND), count=1).strip(_AROUND).removesuffix(".").strip(_AROUND)
    if not _NUMBER.fullmatch(bare) or _THOUSANDS.fullmatch(bare):
        return None
    value = float(bare.replace(",", "."))
    return value if low <= value <= high else None
