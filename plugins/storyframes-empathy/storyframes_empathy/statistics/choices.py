"""What may be chosen of ratings: how kappa is taken of numbers, and what a table's columns are called unasked."""

from __future__ import annotations

from enum import StrEnum

UNIT, RATER, VALUE = "unit", "rater", "value"


class Categories(StrEnum):
    """What numbers become before kappa is taken of them, which knows categories alone."""

    FLOOR = "floor"  # 3.5 is 3
    ROUND = "round"  # 3.5 is 4, and so is 4.4
    ABOVE = "above"  # whether they are above a threshold
    NONE = "none"  # no kappa of numbers
