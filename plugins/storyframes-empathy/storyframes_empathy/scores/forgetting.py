"""What runs have of sessions that are forgotten: rows of their predictions.

Weights that were trained with these sessions stay: nothing takes a session out of them but training again.
"""

from __future__ import annotations

from collections.abc import Iterator

from storyframes_empathy.scores.predictions import FILE
from tasks.forgetting import Asked, Trace


def find(asked: Asked) -> Iterator[Trace]:
    """The predictions for the forgotten, in every run below the folders that are looked through."""
    yield from asked.table_traces({FILE}, "a run's predictions")
