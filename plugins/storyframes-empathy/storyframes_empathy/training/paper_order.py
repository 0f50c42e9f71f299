"""The paper's order of oversampling: the whole study first, then split by participant."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np

from storyframes import ClipDataset, OversamplingSampler
from storyframes.clips import SPLITS


class PaperOrderOversamplingSampler(OversamplingSampler):
    """Oversampled first, then split by participant, as EmpathicStories++ was: the clips of one split, in random order.

    All clips of the dataset are oversampled, so that all ratings come equally often in the whole study; the sampler
    gives the copies of a split's participants. No copy of a clip is in two splits. But how often a clip of validation
    or test counts follows from how rare its rating is in the whole study: a number measured so is not one of clips
    counted once each.

    Which clips are drawn once more follows from the seed alone, so three samplers with one seed and one dataset share
    the copies out.

    Args:
        dataset: clips of all splits.
        split: train, val or test.
        by: see :class:`storyframes.OversamplingSampler`.
        seed, rank, world_size: see :class:`storyframes.ClipSampler`.

    Raises:
        ValueError: the dataset has been filtered by split, or there is no such split.

    Example:
        >>> from storyframes import ClipDataset
        >>> from storyframes_empathy.training.paper_order import PaperOrderOversamplingSampler
        >>> dataset = ClipDataset("STORE", ["label"])
        >>> samplers = [PaperOrderOversamplingSampler(dataset, split, seed=1) for split in ("train", "val", "test")]
        >>> ratings = [dataset.clips["empathy"].iloc[place] for sampler in samplers for place in sampler]
        >>> len({ratings.count(rating) for rating in set(ratings)})  # every rating as often, in all splits together
        1
    """

    def __init__(
        self,
        dataset: ClipDataset,
        split: str,
        *,
        by: str = "empathy",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f"there is no split {split!r}; there are {', '.join(SPLITS)}")
        super().__init__(dataset, by=by, seed=seed, rank=rank, world_size=world_size)
        self.split = split
        copies = self.balanced(np.random.default_rng(seed))
        self._copies = copies[dataset.clips["split"].to_numpy()[copies] == split]

    def check_splits(self, splits: set[str]) -> None:
        if absent := sorted(set(SPLITS) - splits):
            raise ValueError(f"the dataset has no clips of {' and '.join(absent)}: do not filter it by split")

    @cached_property
    def _digest(self) -> str:
        """Of the copies: they follow from the clip index's splits, which no other setting names."""
        return hashlib.sha256(self._copies.astype("<i8").tobytes()).hexdigest()[:16]

    @property
    def total(self) -> int:
        return len(self._copies)

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "split": self.split, "copies": self._digest}

    def order(self, generator: np.random.Generator) -> np.ndarray:
        return generator.permutation(self._copies)
