"""Cells that may say that there is no value: NA, #N/A, -, ?, -99. What they say is asked, never guessed.

A scheme's ``missing`` has those that say so, its ``not_missing`` those that look like it and are values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable

from tasks.study.strict_tables import number_in

_WORDS = frozenset("na n/a n.a. #n/a nan <na> null #null! #div/0! #value! #ref! #name? #num!".split())
_SIGNS = re.compile(r"[-–—.?]+")
_ALWAYS = frozenset({-99.0, -999.0, -9999.0, 999.0, 9999.0})
_AWAY = frozenset({-9.0, -77.0, -88.0, 77.0, 88.0, 99.0})  # only where they are far from all other numbers


def is_one_of(text: str, codes: Collection[str]) -> bool:
    """Whether a cell is one of these codes, whatever the case of its letters; -99.0 is -99.

    >>> is_one_of("n/a", ["N/A"]), is_one_of("-99.0", ["-99"]), is_one_of("Nadia", ["NA"])
    (True, True, False)
    """
    if not codes:
        return False
    text, number = text.strip(), number_in(text)
    return any(text.casefold() == code.casefold() or number == number_in(code) for code in codes)


def possibly_missing(
    values: Iterable[str], minimum: float | None = None, maximum: float | None = None
) -> tuple[str, ...]:
    """The different values that may say that there is none, in their order.

    Words, signs and the numbers -99, 999 and the like always may. The numbers 77, 88, 99, -9, -77 and -88 may where
    their distance to all others is more than these are apart. Between a scheme's minimum and maximum these never do,
    and for -99, 999 and the like the same distance decides.

    Args:
        minimum, maximum: of the values' scheme.

    >>> possibly_missing(["1", "7", "99", "NA", "n/a?"]), possibly_missing(["98", "99", "12"])
    (('99', 'NA'), ())
    """
    different = tuple(dict.fromkeys(values))
    numbers = {text: number for text in different if math.isfinite(number := number_in(text))}
    usual = [number for number in numbers.values() if number not in _ALWAYS | _AWAY]
    is_bounded = minimum is not None and maximum is not None

    def may_be(text: str) -> bool:
        if text not in numbers:
            return text.casefold() in _WORDS or bool(_SIGNS.fullmatch(text))
        number = numbers[text]
        is_allowed = is_bounded and (minimum or 0.0) <= number <= (maximum or 0.0)
        if number not in (_ALWAYS if is_allowed else _ALWAYS | _AWAY):
            return False
        is_far = bool(usual) and min(abs(number - other) for other in usual) > max(usual) - min(usual)
        return is_far or (number in _ALWAYS and not is_allowed)

    return tuple(text for text in different if may_be(text))
