"""Options of agreement: how numbers become categories for kappa, and the default names of a table's columns."""

from __future__ import annotations

from enum import StrEnum

UNIT, RATER, VALUE = "unit", "rater", "value"


class Categories(StrEnum):
    """How numbers become categories, since kappa is defined for categories only."""

    FLOOR = "floor"  # 3.5 is 3
    ROUND = "round"  # 3.5 is 4, and so is 4.4
    ABOVE = "above"  # whether they are above a threshold
    NONE = "none"  # no kappa of numbers
