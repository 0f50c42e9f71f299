"""Which clips of the index a training job reads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from storyframes.clips.filter_expression import parse_filter
from storyframes.clips.inputs import ClipInput
from storyframes.clips.named_inputs import RATING, STORY_FEATURE, needed_features
from storyframes.label_curves import column_of
from storyframes.store.feature_store import FeatureStore

_PLACE = "\0place"  # no filter can name this column


def filter_clips(index: pd.DataFrame, where: str | pc.Expression | None) -> pd.DataFrame:
    """The clips for which ``where`` is true; a comparison with a missing value, or the opposite of one, is not.

    Args:
        index: the clip index.
        where: an expression over its columns: as text, see :func:`parse_filter`, or pyarrow's. None takes all clips.

    Raises:
        ValueError: the expression is not one over the clip index, or leaves no clip.
    """
    if where is None:
        clips = index
    else:
        try:
            expression = parse_filter(where, index.columns) if isinstance(where, str) else where
            clips = index.iloc[_rows(index, expression)]
        except (pa.ArrowException, SyntaxError, TypeError, ValueError, OverflowError) as error:
            columns = ", ".join(index.columns)
            raise ValueError(f"where={where!r} cannot be applied ({error}); the clip index has {columns}") from None
    if len(index) == 0:
        raise ValueError(
            "the clip index has no clips: 'storyframes index STUDY FEATURES' says why, and what would help"
        )
    if len(clips) == 0:
        raise ValueError(f"no clip is left: none of the {len(index)} in the clip index has {where!r}")
    return clips.reset_index(drop=True)


def _rows(index: pd.DataFrame, expression: pc.Expression) -> np.ndarray:
    """The places of the rows for which the expression is true. Categories are compared as the names that they are."""
    table = pa.Table.from_pandas(index, preserve_index=False)
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    table = table.append_column(_PLACE, pa.array(np.arange(len(index))))
    return table.filter(expression).column(_PLACE).to_numpy()


def complete_clips(
    clips: pd.DataFrame, store: FeatureStore, inputs: Iterable[ClipInput], *, drop_missing: bool
) -> pd.DataFrame:
    """The clips that have all inputs.

    Raises:
        ValueError: one lacks an input and ``drop_missing`` is not set, or all do.
    """
    for wanted in inputs:
        lacking = _lacking(clips, store, wanted)
        if lacking.any() and not drop_missing:
            raise ValueError(_complaint(clips[lacking], len(clips), wanted, store))
        if lacking.all():
            raise ValueError(f"no clip is left: none of the {len(clips)} clips has the input {wanted.field!r}")
        clips = clips[~lacking]
    return clips.reset_index(drop=True)


def _lacking(clips: pd.DataFrame, store: FeatureStore, wanted: ClipInput) -> pd.Series:
    """Which clips cannot give the input."""
    needs = needed_features(wanted, store)
    if wanted.name == "story":
        return ~clips["story_id"].isin(store.story_ids(STORY_FEATURE))
    if wanted.name == "label":
        return clips[RATING].isna() if wanted.columns is None else pd.Series(False, index=clips.index)
    sessions = clips["session_id"].unique()
    complete = [session for session in sessions if all(store.has(session, feature) for feature in needs)]
    lacking = ~clips["session_id"].isin(complete)
    return lacking | clips["audio_start"].isna() if wanted.field == "audio" else lacking


def _complaint(lacking: pd.DataFrame, count: int, wanted: ClipInput, store: FeatureStore) -> str:
    stories = lacking["story_id"].dropna().unique() if wanted.name == "story" else []
    names = stories if len(stories) else lacking["session_id"].unique()
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    columns = [column_of(feature) for feature in needed_features(wanted, store)]
    there = columns and all(column in lacking for column in columns)  # an index may be older than a feature
    advice = f"filter with where={' and '.join(columns)!r}, or " if there else ""
    if wanted.name == "label":
        others = [name for name in lacking.attrs.get("schemes", {}) if name != RATING]
        ask = f"ask for other labels with ClipInput('label', {others[:3]}), " if others else ""
        if len(lacking) == count:
            cure = ask.removesuffix(", ") or "leave it out, or index a study that has ratings or labels"
            return f"none of the {count} clips has a rating, which is the input {wanted.field!r}: {cure}"
        advice = f"{ask}filter with where='{RATING} is not null', or "
    return (
        f"{len(lacking)} of {count} clips lack the input {wanted.field!r} (of {shown}): {advice}"
        "leave them out with drop_missing=True"
    )
