"""Nothing leaks: who is in one split cannot be known again in another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from storyframes.clips.clip_index import SplitSpec
from storyframes.clips.oversampling import OversamplingSampler


@dataclass
class People:
    """As much of a ClipDataset as a sampler looks at: clips whose columns tell who it is, rated by person."""

    clips: pd.DataFrame
    columns: np.ndarray
    schemes: dict[str, str] = field(default_factory=lambda: {"empathy": "ordinal"})

    def __len__(self) -> int:
        return len(self.clips)


def people(count: int = 400, each: int = 5) -> People:
    generator = np.random.default_rng(0)
    person = np.repeat(np.arange(count), each)
    ratings = generator.integers(1, 6, count)[person]
    clips = pd.DataFrame({"participant_id": [f"p{one}" for one in person], "empathy": ratings, "split": "train"})
    clips = SplitSpec(0, (0.5, 0.25, 0.25)).applied(clips)
    columns = generator.normal(size=(count, 5))[person] + 0.01 * generator.normal(size=(len(person), 5))
    return People(clips, columns)


def nearest(study: People, train: list[int], test: list[int]) -> float:
    """The correlation of ratings with those of the nearest clip of training."""
    train, test = np.unique(train), np.array(test)
    apart = ((study.columns[test][:, None] - study.columns[train][None]) ** 2).sum(axis=2)
    ratings = study.clips["empathy"].to_numpy()
    return float(np.corrcoef(ratings[train[apart.argmin(axis=1)]], ratings[test])[0, 1])


def test_participants_in_one_split_each_leave_nothing_to_remember() -> None:
    study = people()
    split = study.clips["split"].to_numpy()
    only = People(study.clips[split == "train"].reset_index(drop=True), study.columns[split == "train"])
    train = np.flatnonzero(split == "train")[list(OversamplingSampler(only))]
    assert abs(nearest(study, train, np.flatnonzero(split == "test"))) < 0.3
    shuffled = np.random.default_rng(1).permutation(len(study))  # clips of one participant in both
    half = len(study) // 2
    assert nearest(study, shuffled[:half], shuffled[half:]) > 0.9
