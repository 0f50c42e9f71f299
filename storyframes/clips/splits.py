"""Splits: participants are drawn into train, val and test, together with everybody they met in a session."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from storyframes.clips.window_spec import WindowSpec

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "val", "test")


def assign_splits(
    participants: Sequence[str], spec: WindowSpec, together: Iterable[Iterable[str]] = ()
) -> dict[str, str]:
    """Each participant's split, the same for the same seed and names; shares are exact to one participant.

    Args:
        participants: of the study, in any order; repetitions do not count.
        spec: the shares and the seed.
        together: participants who met in a session. Those who met, directly or through others, are in one split; the
            shares are then as close as such groups allow.
    """

    def draw(group: Sequence[str]) -> bytes:
        return hashlib.sha256(f"{spec.split_seed}:{group[0]}".encode()).digest()

    groups = sorted(components(participants, together), key=draw)
    sizes = np.array([len(group) for group in groups], int)
    exact = np.array(spec.split_shares) / sum(spec.split_shares) * sizes.sum()
    counts = np.floor(exact + 1e-9).astype(int)
    owed = np.round(exact - counts, 9)
    for split in np.lexsort((counts, -owed))[: sizes.sum() - counts.sum()]:  # among equals the emptier split first
        counts[split] += 1
    middle = np.cumsum(sizes) - sizes / 2
    names = np.array(SPLITS)[np.searchsorted(np.cumsum(counts), middle, side="left")]
    return {person: str(name) for group, name in zip(groups, names, strict=True) for person in group}


def components(participants: Iterable[str], together: Iterable[Iterable[str]]) -> list[list[str]]:
    """Groups of participants who met, directly or through others; each group sorted."""
    leader: dict[str, str] = {}

    def find(person: str) -> str:
        leader.setdefault(person, person)
        while leader[person] != person:
            leader[person] = leader[leader[person]]
            person = leader[person]
        return person

    for person in participants:
        find(person)
    for meeting in together:
        first, *others = meeting
        find(first)
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[str, list[str]] = {}
    for person in sorted(leader):
        groups.setdefault(find(person), []).append(person)
    return list(groups.values())


@dataclass(frozen=True)
class SplitSpec:
    """How participants are drawn into train, val and test when a dataset is opened.

    The participants are those of the whole clip index, so all datasets of one store and one ``SplitSpec`` have the same
    splits, whatever their filters and inputs. Participants who met in a session are in one split.

    Attributes:
        seed: seeds the assignment of participants to splits.
        shares: shares of the participants in train, val and test; their sum is 1.

    Raises:
        ValueError: the shares are not three, one is negative, or their sum is not 1.

    Example:
        >>> from storyframes import ClipDataset, SplitSpec
        >>> splits = SplitSpec(seed=3, shares=(0.6, 0.2, 0.2))
        >>> train, val = (ClipDataset("STORE", ["label"], f'split == "{s}"', split=splits) for s in ("train", "val"))
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
        return index.assign(split=index["participant_id"].map(self.by_participant(index)).astype(index["split"].dtype))

    def by_participant(self, index: pd.DataFrame) -> dict[str, str]:
        """The split of each participant of a clip index."""
        participants = index["participant_id"]
        met = participants.groupby(index["split_group"]).unique() if "split_group" in index else ()
        return assign_splits(participants.unique().tolist(), self._windows(), met)

    def _windows(self) -> WindowSpec:
        return WindowSpec(split_seed=self.seed, split_shares=self.shares)
