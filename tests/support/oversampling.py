"""Clips as a sampler looks at them, and a study whose oversampling was counted from the definitions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

ORACLE = json.loads((Path(__file__).parents[1] / "data/oversampling.json").read_text())


@dataclass
class Clips:
    """As much of a ClipDataset as a sampler looks at."""

    clips: pd.DataFrame
    schemes: dict[str, str] = field(default_factory=lambda: {"empathy": "ordinal"})

    def __len__(self) -> int:
        return len(self.clips)


def oracles_clips() -> Clips:
    """A study of five participants; the oracle's numbers were computed from the definitions, not with this package."""
    rows = [
        (participant, int(rating), ORACLE["split"][participant])
        for participant, counts in ORACLE["clips"].items()
        for rating, count in counts.items()
        for _ in range(count)
    ]
    return Clips(pd.DataFrame(rows, columns=["participant_id", "empathy", "split"]))
