"""The order in which work begins: the clocks, which others wait for, then what costs most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from storyframes.features import CLOCK
from tasks.extract import Work
from tasks.planning.cost import expected_cost, recording_s


def most_expensive_first(work: Iterable[Work]) -> list[Work]:
    """The work in the order in which it should begin, with its expected cost.

    The clocks come first, as others wait for them. Then the most expensive features, so those of the longest sessions;
    the cheap ones fill what is left at the end.
    """
    lengths: dict[tuple[str, str], float] = {}
    priced = []
    for unit in work:
        key = unit.session_id, unit.track
        if key not in lengths:
            lengths[key] = recording_s(unit.source)
        cost = expected_cost(unit.features, unit.settings, lengths[key], unit.session_id)
        priced.append(replace(unit, cost=cost))
    waiting: dict[tuple[str, str], float] = {}
    for unit in priced:
        key = unit.session_id, unit.track
        waiting[key] = waiting.get(key, 0.0) + unit.cost
    clocks = [unit for unit in priced if unit.features == (CLOCK,)]
    others = [unit for unit in priced if unit.features != (CLOCK,)]
    return [
        *sorted(clocks, key=lambda unit: -waiting[unit.session_id, unit.track]),
        *sorted(others, key=lambda unit: -unit.cost),
    ]
