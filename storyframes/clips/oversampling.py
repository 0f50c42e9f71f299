"""Oversampling: the clips of rarer ratings several times an epoch, so that all ratings come equally often.

Instead of the rating it can be any nominal or ordinal scheme of labels. Only training clips are oversampled: repeating
others changes what is measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.named_inputs import RATING
from storyframes.clips.samplers import ClipSampler


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
        self.check_splits(set(dataset.clips["split"]))
        self.by = by
        self._ratings = _values_to_balance(dataset, by)

    def check_splits(self, splits: set[str]) -> None:
        """Raise ValueError unless the sampler may repeat clips of these splits."""
        if others := sorted(splits - {"train"}):
            raise ValueError(
                f"the dataset has clips of {' and '.join(others)}: only training clips are oversampled, because "
                "repeating others changes what is measured; filter with where='split == \"train\"'"
            )

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings if self.by == RATING else {**super().settings, "by": self.by}

    @property
    def total(self) -> int:
        _, counts = np.unique(self._ratings, return_counts=True)
        return int(len(counts) * counts.max())

    def order(self, generator: np.random.Generator) -> np.ndarray:
        return generator.permutation(self.balanced(generator))

    def balanced(self, generator: np.random.Generator) -> np.ndarray:
        """Places of clips: all of every rating, each rating as often as the most frequent one."""
        values, counts = np.unique(self._ratings, return_counts=True)
        copies = []
        for value, count in zip(values, counts, strict=True):
            places = np.flatnonzero(self._ratings == value)
            copies += [places] * (counts.max() // count)
            copies.append(generator.choice(places, counts.max() % count, replace=False))
        return np.concatenate(copies)


def _values_to_balance(dataset: ClipDataset, by: str) -> np.ndarray:
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
