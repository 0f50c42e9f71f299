"""The clip index: one row per window and rating, with its participant, its split and its name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from storyframes.clips.splits import assign_splits, components
from storyframes.clips.window_spec import WINDOW_COLUMNS, WindowSpec
from storyframes.spec import column_of

if TYPE_CHECKING:
    import pandas as pd

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
