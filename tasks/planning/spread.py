"""Several processors for one session, where there are fewer sessions than processors."""

from __future__ import annotations

from dataclasses import replace

from tasks.extract import Work
from tasks.extractors.resnet50.settings import EngineName

_MOST_CPUS = 8  # beyond them decoding and resizing, which take one processor, are what the network waits for


def spread_over_processors(work: list[Work], cpus: int) -> list[Work]:
    """The work with more than one processor for the network where there are fewer sessions than processors."""
    sessions = sum("resnet50" in unit.features for unit in work)
    share = min(cpus // sessions, _MOST_CPUS) if sessions else 1

    def widened(unit: Work) -> Work:
        resnet50 = unit.settings.resnet50
        if share < 2 or unit.features != ("resnet50",) or resnet50.cpus or resnet50.engine is not EngineName.OPENVINO:
            return unit
        settings = unit.settings.model_copy(update={"resnet50": resnet50.model_copy(update={"cpus": share})})
        return replace(unit, settings=settings)

    return [widened(unit) for unit in work]
