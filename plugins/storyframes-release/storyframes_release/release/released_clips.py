"""The clip index of a release: the same windows under new ids, with the released labels."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from storyframes import FEATURES, FeatureName
from storyframes.clips import COLUMNS
from storyframes_release.release.ids import Key
from storyframes_release.release.settings import ReleaseError, ReleaseSettings

EMPATHY = "empathy"
_HARMLESS = (
    "position split split_group start_frame stop_frame start_s stop_s audio_start audio_stop sound_covered "
    "face_tracked face_confidence words frames_expected longest_gap_s reflected"
).split()  # other columns, of a later version of the index, are left out until they are named here


def number_ids(clips: pd.DataFrame, key: Key, settings: ReleaseSettings) -> None:
    """Give every id in the index a new name."""
    key.number("participants", clips["participant_id"].dropna().astype(str))
    key.number("stories", clips["story_id"].dropna().astype(str))
    key.number("targets", set(clips["target"].dropna().astype(str)) - {*key.names["stories"]})
    key.number("phases", set(clips["phase"].astype(str)) - {*settings.phases})
    numbered = {name for phase, name in key.names["phases"].items() if phase not in settings.phases}
    if both := sorted(numbered & {*settings.phases}):
        raise ReleaseError(f"phases: {both[0]!r} is also the new name of another phase; let it get a number as well")


def check_labels(clips: pd.DataFrame, settings: ReleaseSettings) -> None:
    """Check that the index has the labels and phases that are to be released.

    Raises:
        ReleaseError: a label or phase is unknown; or the index is of a format that lacks columns.
    """
    if lacking := [name for name in COLUMNS if name not in clips]:
        raise ReleaseError(
            f"the clip index has no column {lacking[0]!r}, as those of older versions: 'storyframes index STUDY "
            "STORE' writes it anew"
        )
    schemes = clips.attrs.get("schemes", {})
    if unknown := [label for label in settings.labels if label not in clips or label not in schemes]:
        raise ReleaseError(f"the clip index has no labels {unknown[0]!r}; it has {', '.join(schemes) or 'none'}")
    phases = sorted({*clips["phase"].astype(str)})
    if unknown := [phase for phase in settings.phases if phase not in phases]:
        raise ReleaseError(f"phases: the clip index has no phase {unknown[0]!r}; it has {', '.join(phases)}")


def released_clips(
    clips: pd.DataFrame, key: Key, settings: ReleaseSettings, released: dict[str, set[str]]
) -> pd.DataFrame:
    """The index of a release, with ``attrs["schemes"]`` of its labels; only columns from a fixed list are in it.

    Args:
        clips: the store's index, of the sessions that are released.
        released: by session, the features that it has in the release.
    """
    schemes = clips.attrs.get("schemes", {})
    index = pd.DataFrame({name: clips[name] for name in (*COLUMNS, *_HARMLESS) if name in _HARMLESS and name in clips})
    index["session_id"] = clips["session_id"].map(key.names["sessions"])
    index["participant_id"] = clips["participant_id"].map(key.names["participants"])
    names = {phase: phase for phase in settings.phases}
    index["phase"] = clips["phase"].map(key.names["phases"] | names)
    index["story_id"] = clips["story_id"].map(key.names["stories"])
    index["target"] = clips["target"].map(key.names["targets"] | key.names["stories"])
    begin = clips["session_id"] + ":" + clips["phase"].astype(str) + ":" + clips["start_frame"].astype(str).str.zfill(6)
    rest = [clip_id[len(start) :] for clip_id, start in zip(clips["clip_id"], begin, strict=True)]
    ends = [f":@{target}" if end.startswith(":@") else end for end, target in zip(rest, index["target"], strict=True)]
    starts = index["session_id"] + ":" + index["phase"] + ":" + index["start_frame"].astype(str).str.zfill(6)
    index["clip_id"] = starts + pd.Series(ends, index.index, "str")
    groups = index.groupby("split_group")["participant_id"].min().sort_values()
    index["split_group"] = index["split_group"].map({group: number for number, group in enumerate(groups.index)})
    is_rated = EMPATHY in settings.labels
    index[EMPATHY] = clips[EMPATHY] if is_rated else pd.Series(pd.NA, index.index, "Int8")
    for feature in dict.fromkeys([*FEATURES, *(name for of in released.values() for name in sorted(of))]):
        column = FeatureName(feature).clip_column
        index[column] = [feature in released.get(session, ()) for session in clips["session_id"]]
    for label in _columns(settings.labels, clips):
        index[label] = _without_unused_names(clips[label])
    sort = ["session_id", "phase", "start_frame", "position", "target"]
    index = index.sort_values(sort, kind="stable", ignore_index=True)
    index["split_group"] = index["split_group"].astype("int32")
    whole = {name: dtype for name, dtype in COLUMNS.items() if dtype == "Int32" and name in index}
    index = index.astype(whole)  # where some are missing, they were read as floats
    index = index[[*COLUMNS, *(name for name in index if name not in COLUMNS)]]
    index.attrs = {"schemes": {label: schemes[label] for label in settings.labels}}
    if ranges := {label: limits for label, limits in clips.attrs.get("ranges", {}).items() if label in settings.labels}:
        index.attrs["ranges"] = ranges
    if window_s := clips.attrs.get("window_s"):
        index.attrs["window_s"] = window_s
    return index


def _without_unused_names(column: pd.Series) -> pd.Series:
    """A column with only the class names of its rows: others may come from a session that is left out.

    Every class keeps its place, so that it has the same number as in the store.
    """
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    used = {*column.dropna()}
    names = enumerate(column.cat.categories, 1)
    return column.cat.rename_categories([name if name in used else f"unused_{number:04d}" for number, name in names])


def _columns(labels: Iterable[str], clips: pd.DataFrame) -> Iterable[str]:
    """The columns of labels: values, and the certainty of their raters."""
    names = [column for label in labels for column in (label, f"{label}_weight")]
    return [column for column in names if column in clips and column not in COLUMNS]
