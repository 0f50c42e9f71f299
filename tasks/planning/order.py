"""The order in which work begins: the clocks, which others wait for, then what costs most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from storyframes.features import CLOCK, STORIES
from tasks.extract import Work
from tasks.extractors.base import Cost
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.cost import cost_together, recording_s


def most_expensive_first(work: Iterable[Work]) -> list[Work]:
    """The work in the order in which it should begin, with its expected cost: 0 where no header says how long it is.

    The clocks come first, as others wait for them. Then the most expensive features, so those of the longest sessions;
    the cheap ones fill what is left at the end.
    """
    lengths: dict[tuple[str, str], float] = {}
    costs: dict[tuple[int, tuple[str, ...], bool], tuple[ExtractorsSettings, Cost]] = {}

    def priced(unit: Work) -> Work:
        recording = unit.session_id, unit.track
        if recording not in lengths:
            lengths[recording] = recording_s(unit.source)
        # A hundred thousand sessions have a few kinds of work; the settings are kept, so that no others get their id.
        kind = id(unit.settings), unit.features, unit.session_id == STORIES
        if kind not in costs:
            costs[kind] = unit.settings, cost_together(unit.features, unit.settings, unit.session_id)
        _, cost = costs[kind]
        length_s = lengths[recording]
        return replace(unit, cost=cost.start_s + length_s * cost.cpu_s_per_s if length_s else 0.0)

    clocks: list[Work] = []
    others: list[Work] = []
    waiting: dict[tuple[str, str], float] = defaultdict(float)
    for unit in map(priced, work):
        (clocks if unit.features == (CLOCK,) else others).append(unit)
        waiting[unit.session_id, unit.track] += unit.cost
    clocks.sort(key=lambda unit: -waiting[unit.session_id, unit.track])
    others.sort(key=lambda unit: -unit.cost)
    return clocks + others
