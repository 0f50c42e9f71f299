"""Which studies can be made up."""

from __future__ import annotations

from enum import StrEnum


class Shape(StrEnum):
    """What a study is like: whom it films with what, and what is known of it."""

    EMPATHIC_STORIES = "empathicstories"
    DYAD = "dyad"
    GROUP = "group"
