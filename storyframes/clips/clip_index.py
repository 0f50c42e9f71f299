"""The clip index: one row per window and rating, with its participant, its split and its name.

Participants are drawn into train, val and test, together with everybody they met in a session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from storyframes.clips.window_spec import WINDOW_COLUMNS, WindowSpec
from storyframes.spec import column_of

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "val", "test")
COLUMNS: Mapping[str, str] = {
    "clip_id": "str",
    "session_id": "str",
    "participant_id": "str",
    "phase": "str",
    "story_id": "str",
    "target": "str",
    "position": "int8",
    "empathy": "int8",
    "split": "str",
    "split_group": "int32",
} | {name: dtype for name, dtype in WINDOW_COLUMNS.items() if name not in ("session_id", "phase")}
"""The columns of the clip index and their types, except the ``has_`` columns of features."""


def clip_rows(
    windows: pd.DataFrame,
    sessions: pd.DataFrame,
    ratings: pd.DataFrame,
    spec: WindowSpec,
    having: Mapping[str, Collection[str]],
    *,
    together: Iterable[Iterable[str]] = (),
) -> pd.DataFrame:
    """The rows of the clip index.

    Args:
        windows: as made by :func:`storyframes.clips.windows.windows_of`.
        sessions: columns session_id, participant_id.
        ratings: columns session_id, story_id, position, empathy, and target where that is not the story: the ratings of
            a session, each of which labels all its windows.
        spec: how participants are split.
        having: by feature that gets a ``has_`` column, the sessions that have it.
        together: participants who met in a session, and so are in one split.

    Returns:
        One row per window and rating, sorted by session, phase, start frame, position and target; for a session without
        ratings one per window, or none, as ``spec.unlabelled`` says. Columns of a missing rating are NA.
    """
    unlabelled = spec.unlabelled or ("drop" if len(ratings) else "keep")
    ratings = ratings if "target" in ratings else ratings.assign(target=ratings["story_id"])
    ratings = ratings[["session_id", "story_id", "target", "position", "empathy"]]
    if unlabelled == "keep":  # nullable, so that a missing rating makes no fractions of the others
        ratings = ratings.astype({"position": "Int8", "empathy": "Int8"})
    index = windows.merge(ratings, on="session_id", how="left" if unlabelled == "keep" else "inner")
    participant = sessions.set_index("session_id")["participant_id"]
    meetings = [list(met) for met in together]
    splits = assign_splits(list(participant), spec, meetings)
    groups = sorted(components(participant, meetings))
    group_of = {person: number for number, group in enumerate(groups) for person in group}
    row_of, names = index["session_id"].factorize()  # what a session has is looked up once, not for each of its clips
    who = participant.reindex(names)
    index["participant_id"] = who.array.take(row_of)
    index["split"] = who.map(splits).array.take(row_of)
    index["split_group"] = who.map(group_of).array.take(row_of)
    for feature, sessions_with_it in having.items():
        index[column_of(feature)] = names.isin(sessions_with_it)[row_of]
    index = index.sort_values(
        ["session_id", "phase", "start_frame", "position", "target"], kind="stable", ignore_index=True
    )
    index["clip_id"] = (
        index["session_id"]
        + ":"
        + index["phase"]
        + ":"
        + index["start_frame"].astype(str).str.zfill(6)
        + _about_what(index)
    )
    return as_columns(index[[*COLUMNS, *(column_of(feature) for feature in having)]])


def as_columns(index: pd.DataFrame) -> pd.DataFrame:
    """The index with the types of :data:`COLUMNS`; nullable ones where a rating is missing."""
    nullable = {} if index["position"].notna().all() else {"position": "Int8", "empathy": "Int8"}
    return index.astype({**COLUMNS, **nullable})


def _about_what(index: pd.DataFrame) -> pd.Series:
    """The end of a clip's id: the position of a rated story, another target, or nothing."""
    rated, labelled = index["position"].notna(), index["target"].notna()
    if rated.all():
        return ":" + index["position"].astype(str)
    about = (":@" + index["target"].astype(str)).where(labelled, "")  # no id has an @: never a position's
    return about.where(~rated, ":" + index["position"].astype(str))


def weight_column(column: str) -> str:
    """The column with the weights of a label's column; it exists where raters gave their certainty."""
    return f"{column}_weight"


# --- splits ---


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
