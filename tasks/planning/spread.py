"""Several processors for one session, where there are fewer sessions than processors."""

from __future__ import annotations

from dataclasses import replace

from tasks.extract import Work
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.settings import ExtractorSettings

_MOST_CPUS = 8  # beyond them decoding and resizing, which take one processor, are what the network waits for


def spread_over_processors(work: list[Work], cpus: int) -> list[Work]:
    """The work with more than one processor for a feature that can use them, where there are fewer sessions than those.

    What shares a pass over the frames with others gets none: its processors would wait for the others.
    """
    sessions = 0
    for unit in work:
        sessions += any(_widened(unit.settings, feature, 2) for feature in unit.features)
        if 2 * sessions > cpus:
            return work
    share = min(cpus // sessions, _MOST_CPUS) if sessions else 1
    if share < 2:
        return work

    def widened(unit: Work) -> Work:
        section = _widened(unit.settings, unit.features[0], share) if len(unit.features) == 1 else None
        return replace(unit, settings=unit.settings.with_section(unit.features[0], section)) if section else unit

    return [widened(unit) for unit in work]


def _widened(settings: ExtractorsSettings, feature: str, cpus: int) -> ExtractorSettings | None:
    """The feature's section for so many processors; None where that changes nothing."""
    section = settings.section(feature)
    widened = section.with_cpus(cpus)
    return widened if widened != section else None
