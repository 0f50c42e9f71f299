"""Oversampling: the clips of rarer ratings several times an epoch, so that all ratings come equally often.

Instead of the rating it can be any nominal or ordinal scheme of labels. EmpathicStories++ oversamples because few
sessions are rated low. The order of oversampling and splitting decides what a test measures:

- :class:`OversamplingSampler` splits first and oversamples the training split alone.
- :class:`PaperOrderOversamplingSampler` is the paper's order: it oversamples all clips, then separates participants. No
  copy is in two splits, but validation and test hold clips several times, by how rare their rating is in the whole
  study, so that a number measured on them is not one of each clip once.
- :class:`LeakingOversamplingSampler` oversamples all clips and shares the copies out at random. Copies of one clip are
  in training and in test, and the test measures memory; it exists to compare with numbers found this way.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.named_inputs import RATING
from storyframes.clips.samplers import ClipSampler
from storyframes.clips.splits import SPLITS
from storyframes.clips.window_spec import WindowSpec


class OversamplingSampler(ClipSampler):
    """Every rating equally often: each of its clips as many times as fits, the rest drawn among them, in random order.

    Which clips are drawn once more differs from epoch to epoch.

    Args:
        dataset: training clips.
        by: the nominal or ordinal scheme whose values come equally often; the rating where nothing else is asked for.
        seed, rank, world_size: see :class:`ClipSampler`.

    Raises:
        ValueError: the dataset has clips of another split than train, or some without a value of ``by``, or ``by`` is
            no nominal or ordinal scheme.

    Example:
        >>> from storyframes import ClipDataset, OversamplingSampler
        >>> dataset = ClipDataset("STORE", ["label"], 'split == "train"')
        >>> order = list(OversamplingSampler(dataset, seed=1))
        >>> dataset.clips["empathy"].iloc[order].value_counts().nunique()  # every rating as often as every other
        1
    """

    def __init__(
        self, dataset: ClipDataset, *, by: str = RATING, seed: int = 0, rank: int = 0, world_size: int = 1
    ) -> None:
        super().__init__(dataset, seed=seed, rank=rank, world_size=world_size)
        others = sorted(set(dataset.clips["split"]) - {"train"})
        if others:
            raise ValueError(
                f"the dataset has clips of {' and '.join(others)}: only training clips are oversampled, because "
                "repeating others changes what is measured; filter with where='split == \"train\"'"
            )
        self.by = by
        self._ratings = _values(dataset, by)

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings if self.by == RATING else {**super().settings, "by": self.by}

    @property
    def total(self) -> int:
        _, counts = np.unique(self._ratings, return_counts=True)
        return int(len(counts) * counts.max())

    def order(self, generator: np.random.Generator) -> np.ndarray:
        return generator.permutation(balanced(self._ratings, generator))


class _CopiesOfSplit(ClipSampler):
    """All clips of a dataset oversampled, and then the copies of one split, in random order.

    Arguments and errors are those of the two classes that share the copies out.
    """

    def __init__(
        self, dataset: ClipDataset, split: str, *, by: str = RATING, seed: int = 0, rank: int = 0, world_size: int = 1
    ) -> None:
        super().__init__(dataset, seed=seed, rank=rank, world_size=world_size)
        if split not in SPLITS:
            raise ValueError(f"there is no split {split!r}; there are {', '.join(SPLITS)}")
        if absent := sorted(set(SPLITS) - set(dataset.clips["split"])):
            raise ValueError(f"the dataset has no clips of {' and '.join(absent)}: do not filter it by split")
        self.split = split
        self.by = by
        self._copies = self._share(_values(dataset, by), np.random.default_rng(seed))

    @abstractmethod
    def _share(self, values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The places in the dataset of the split's copies."""

    @property
    def total(self) -> int:
        return len(self._copies)

    @property
    def settings(self) -> dict[str, Any]:
        by = {} if self.by == RATING else {"by": self.by}
        return {**super().settings, "split": self.split, **by}

    def order(self, generator: np.random.Generator) -> np.ndarray:
        return generator.permutation(self._copies)


class PaperOrderOversamplingSampler(_CopiesOfSplit):
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
        by: see :class:`OversamplingSampler`.
        seed, rank, world_size: see :class:`ClipSampler`.

    Raises:
        ValueError: the dataset has been filtered by split, or there is no such split.

    Example:
        >>> from storyframes import ClipDataset, PaperOrderOversamplingSampler
        >>> dataset = ClipDataset("STORE", ["label"])
        >>> samplers = [PaperOrderOversamplingSampler(dataset, split, seed=1) for split in ("train", "val", "test")]
        >>> ratings = [dataset.clips["empathy"].iloc[place] for sampler in samplers for place in sampler]
        >>> len({ratings.count(rating) for rating in set(ratings)})  # every rating as often, in all splits together
        1
    """

    def _share(self, values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        copies = balanced(values, generator)
        return copies[self.dataset.clips["split"].to_numpy()[copies] == self.split]

    @cached_property
    def _digest(self) -> str:
        """Of the copies: they follow from the clip index's splits, which no other setting names."""
        return hashlib.sha256(self._copies.astype("<i8").tobytes()).hexdigest()[:16]

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "copies": self._digest}


class LeakingOversamplingSampler(_CopiesOfSplit):
    """Oversampled first, then split clip by clip, so that COPIES OF A CLIP ARE IN SEVERAL SPLITS.

    Numbers measured this way are too good. It is not the paper's way either (:class:`PaperOrderOversamplingSampler`).

    All clips of the dataset are oversampled, the copies are split at random (0.7, 0.2, 0.1), and the sampler gives one
    of the splits, in random order. Which copies a split has follows from the seed alone, so three samplers with one
    seed and one dataset share the copies out. The clip index's own splits, by participant, are ignored.

    Arguments and errors are those of :class:`PaperOrderOversamplingSampler`.

    Example:
        >>> from storyframes import ClipDataset, LeakingOversamplingSampler
        >>> dataset = ClipDataset("STORE", ["label"], "empathy > 1 or position == 1")  # few are rated 1
        >>> train, val = (set(LeakingOversamplingSampler(dataset, split)) for split in ("train", "val"))
        >>> len(train & val) > 0  # the same clips are in both
        True
    """

    def _share(self, values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        copies = generator.permutation(balanced(values, generator))
        ends = np.round(np.cumsum(WindowSpec.split_shares) * len(copies)).astype(int)
        return np.split(copies, ends[:-1])[SPLITS.index(self.split)]


def _values(dataset: ClipDataset, by: str) -> np.ndarray:
    """(n,) the values that are to come equally often: those of a scheme, classes as numbers."""
    kinds = dataset.schemes
    possible = [name for name, kind in kinds.items() if kind in ("nominal", "ordinal")]
    if by not in possible:
        what = f"is {kinds[by]}" if by in kinds else "is no scheme of the clip index"
        raise ValueError(
            f"by={by!r} {what}: only nominal and ordinal schemes are balanced ({', '.join(possible) or 'none'})"
        )
    column = dataset.clips[by]
    if lacking := int(column.isna().sum()):
        raise ValueError(
            f"{lacking} of {len(column)} clips have no value of {by!r}: filter with where='{by} is not null'"
        )
    return column.cat.codes.to_numpy() if isinstance(column.dtype, pd.CategoricalDtype) else column.to_numpy()


def balanced(ratings: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Places in ``ratings``: all of every rating, each rating as often as the most frequent one."""
    values, counts = np.unique(ratings, return_counts=True)
    copies = []
    for value, count in zip(values, counts, strict=True):
        places = np.flatnonzero(ratings == value)
        copies += [places] * (counts.max() // count)
        copies.append(generator.choice(places, counts.max() % count, replace=False))
    return np.concatenate(copies)
