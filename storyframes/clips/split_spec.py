"""Other splits than the clip index's: drawn when a dataset is opened, by the same rule."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from storyframes.clips.splits import assign_splits
from storyframes.clips.window_spec import WindowSpec


@dataclass(frozen=True)
class SplitSpec:
    """How participants are drawn into train, val and test when a dataset is opened.

    The participants are those of the whole clip index, so datasets of one store and one ``SplitSpec`` share them out
    alike, whatever their filters and inputs. Those who met in a session stay together.

    Attributes:
        seed: seeds the assignment of participants to splits.
        shares: shares of the participants in train, val and test; they add up to 1.

    Raises:
        ValueError: the shares are not three, one is negative, or they do not add up to 1.

    Example:
        >>> from storyframes import ClipDataset, SplitSpec
        >>> splits = SplitSpec(seed=3, shares=(0.6, 0.2, 0.2))
        >>> train, val = (ClipDataset("FEATURES", ["label"], f'split == "{s}"', split=splits) for s in ("train", "val"))
        >>> set(train.clips["participant_id"]) & set(val.clips["participant_id"])
        set()
    """

    seed: int = 0
    shares: tuple[float, float, float] = WindowSpec.split_shares

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(self.shares))
        self._windows()

    def applied(self, index: pd.DataFrame) -> pd.DataFrame:
        """The clip index with these splits in its column ``split``."""
        participants = index["participant_id"]
        met = participants.groupby(index["split_group"]).unique() if "split_group" in index else ()
        splits = assign_splits(participants.unique().tolist(), self._windows(), met)
        return index.assign(split=index["participant_id"].map(splits).astype(index["split"].dtype))

    def _windows(self) -> WindowSpec:
        return WindowSpec(split_seed=self.seed, split_shares=self.shares)
