"""What was labelled, and the mean of each feature over it: a row for each rating, never one for each window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from storyframes import CLOCK, ArraySpec, Axis, ClipDataset, ClipInput, FeatureSpec, FeatureStore
from storyframes.clips import filter_clips
from storyframes_empathy.training.moments import Moments, Rows, measure

_UNITS = (("person", ["participant_id"]), ("session", ["session_id"]), ("story", ["session_id", "story_id"]))
_UNLIKE = "sessions have other columns of it: extract it again with one configuration"
_AXES = (Axis.FRAME, Axis.AUDIO_FRAME, Axis.WINDOW, Axis.WORD, Axis.UTTERANCE)


class BaselineError(Exception):
    """There is nothing to score; the message says why, and what to do."""


@dataclass(frozen=True)
class Units:
    """What was labelled.

    Attributes:
        unit: person, session or story (of a session).
        label: the column of the clip index.
        classes: the names of the classes, where the label is nominal; empty where it is a number.
        labels: (n,) float64, or int64 places in ``classes``.
        people: (n,) the number of the person, or of people who met in a session; from 0.
        clips: of each unit the rows of the clip index.
        remark: what was made of a label that varies inside a session; empty where it does not.
    """

    unit: str
    label: str
    classes: tuple[str, ...]
    labels: np.ndarray
    people: np.ndarray
    clips: Sequence[pd.DataFrame]
    remark: str = ""


def labelled_units(index: pd.DataFrame, label: str | None = None, where: str | None = None) -> Units:
    """The units of a label: the largest of person, session and story inside which it has one value.

    A number that varies inside a session is its mean over the session's windows.

    Args:
        index: the clip index of a store.
        label: one of its labels; None takes the only one.
        where: an expression over the clip index; None takes all clips.

    Raises:
        BaselineError: no clip has the label, or classes change inside a session.
    """
    schemes = index.attrs.get("schemes", {})
    known = [name for name in dict.fromkeys([*schemes, "empathy"]) if name in index and index[name].notna().any()]
    if label is None and len(known) == 1:
        label = known[0]
    if label is None or label not in known:
        what = "several labels can be scored" if label is None and known else f"no clip has the label {label!r}"
        curve = " (a curve: 'storyframes empathy train' learns it)" if label and label.startswith("label.") else ""
        there = (
            f"name one of {', '.join(known)} with --label"
            if known
            else "the clip index has none: 'storyframes import labels' takes them from a sheet, and 'storyframes index "
            "STUDY STORE' joins them to the clips"
        )
        raise BaselineError(f"{what}{curve}; {there}")
    if where is not None:
        try:
            index = filter_clips(index, where)
        except ValueError as error:
            raise BaselineError(f"--where: {error}") from None
    clips = index[index[label].notna()].reset_index(drop=True)
    if clips.empty:
        raise BaselineError(f"no clip with the label {label!r} is left by --where {where!r}")
    column = clips[label]
    classes: tuple[str, ...] = ()
    if isinstance(column.dtype, pd.CategoricalDtype):
        names, column = column.cat.categories, column.cat.codes
        classes = () if schemes.get(label) == "ordinal" else tuple(map(str, names))
    elif schemes.get(label) == "nominal":
        codes, names = pd.factorize(column, sort=True)
        column, classes = pd.Series(codes, index=clips.index), tuple(map(str, names))
    clips = clips.assign(_label=column.astype(float))
    several = clips.groupby("participant_id")["session_id"].nunique().max() > 1
    for unit, keys in _UNITS if several else _UNITS[1:]:
        told = clips.dropna(subset=keys)
        if len(told) == len(clips) and (clips.groupby(keys)["_label"].nunique() == 1).all():
            return _units(unit, keys, label, classes, clips)
    if classes:
        raise BaselineError(
            f"{label!r} changes inside a session, so a session has no class of it: export the clips for a model of "
            "windows ('storyframes export STORE --out clips --format datasets')"
        )
    remark = f"{label} varies inside sessions: the mean over a session's windows is scored"
    return _units("session", ["session_id"], label, (), clips, remark)


def _units(
    unit: str, keys: list[str], label: str, classes: tuple[str, ...], clips: pd.DataFrame, remark: str = ""
) -> Units:
    groups = [group for _, group in clips.groupby(keys, sort=True)]
    who = "split_group" if "split_group" in clips else "participant_id"  # people who met are left out together
    people = pd.factorize(pd.Series([group[who].iloc[0] for group in groups]))[0]
    windows = ["session_id", "start_frame"]  # which may have several labels: of stories, or of other targets
    labels = np.array([group.groupby(windows)["_label"].mean().mean() for group in groups])
    groups = [group.drop(columns="_label") for group in groups]
    return Units(unit, label, classes, labels.astype(np.int64) if classes else labels, people, groups, remark)


def feature_means(
    store: FeatureStore, units: Units, features: Sequence[str] | None = None
) -> dict[str, np.ndarray | str]:
    """By feature (n, columns) float64: the mean of each column over the unit's clips; or the reason why there is none.

    Each row of the feature counts once, however many windows have it, and only where it is a measurement. NaN where a
    unit has none.

    Args:
        features: their names; None takes all that have a mean.

    Raises:
        BaselineError: no labelled session has such a feature.
        StoreError: the store does not have its rows (any more).
    """
    sessions = list(dict.fromkeys(name for clips in units.clips for name in clips["session_id"]))
    inputs = _inputs(store, sessions)
    if not inputs:
        raise BaselineError("no labelled session has a feature: 'storyframes extract STUDY STORE' extracts them")
    if unknown := [name for name in features or () if name not in inputs]:
        there = ", ".join(inputs)
        raise BaselineError(f"no labelled session has a feature {unknown[0]!r} that has a mean; there are {there}")
    chosen = {name: inputs[name] for name in (features or inputs)}
    measured: dict[tuple[object, ...], dict[str, Moments]] = {}  # stories that a session rated have the same windows
    found: dict[str, list[Moments | None]] = {name: [] for name in chosen}
    reasons = {name: _UNLIKE for name in chosen if _are_unlike(store, sessions, name)}
    for clips in units.clips:
        of_unit: dict[str, Moments] = {}
        for session, own in clips.groupby("session_id", sort=False):
            key = (session, *sorted(set(own["start_frame"])))
            if key not in measured:
                measured[key] = _moments(store, str(session), own, chosen, reasons)
            for name, moments in measured[key].items():
                of_unit[name] = of_unit[name].merged(moments) if name in of_unit else moments
        for name, rows in found.items():
            rows.append(of_unit.get(name))
    return {name: reasons[name] if name in reasons else _stacked(rows) for name, rows in found.items()}


def _are_unlike(store: FeatureStore, sessions: Sequence[str], name: str) -> bool:
    """Whether sessions have other columns of a feature, so that there is no mean of them."""
    specs = store.specs([session for session in sessions if store.has(session, name)], name).values()
    columns = {
        tuple((array, one.shape, one.columns) for array, one in _arrays(spec).items())
        for spec in {id(spec): spec for spec in specs}.values()
    }
    return len(columns) > 1


def _arrays(spec: FeatureSpec) -> dict[str, ArraySpec]:
    """The arrays that an input of clips has."""
    names = ["values"] if "values" in spec.arrays else list(spec.arrays)
    return {name: spec.arrays[name] for name in names if spec.arrays[name].axis in _AXES}


def _inputs(store: FeatureStore, sessions: Sequence[str]) -> dict[str, ClipInput]:
    """The features with a mean, as inputs of clips; OpenFace's without its bookkeeping."""
    inputs = {}
    for name in sorted({name for session in sessions for name in store.features(session)}):
        feature = name.partition("@")[0]  # without the track
        if feature == CLOCK or feature.startswith("label."):
            continue
        session = next(session for session in sessions if store.has(session, name))
        spec = store.spec(session, name)
        arrays = _arrays(spec).items()
        if any(np.dtype(one.dtype).kind == "f" and (one.shape or array == "values") for array, one in arrays):
            columns = ["measurements"] if "measurements" in spec.groups else None
            inputs[name] = ClipInput(name, columns, missing="mask")
    return inputs


def _moments(
    store: FeatureStore,
    session: str,
    clips: pd.DataFrame,
    inputs: Mapping[str, ClipInput],
    reasons: dict[str, str],
) -> dict[str, Moments]:
    """Of one session's clips, by each feature that the session has; those that clips cannot have go to ``reasons``."""
    having = {name: one for name, one in inputs.items() if store.has(session, name) and name not in reasons}
    if not having:
        return {}
    own = pc.field("clip_id").isin(clips["clip_id"].tolist())
    try:
        dataset = ClipDataset(store, list(having.values()), own)
    except ValueError:
        count = len(reasons)
        for name, requested in having.items():
            try:
                ClipDataset(store, [requested], own)
            except ValueError:  # whose message names a session
                reasons[name] = f"clips cannot have it as it is: ClipDataset(STORE, [{name!r}]) says why"
        if len(reasons) == count:
            raise
        return _moments(store, session, clips, inputs, reasons)
    fields: dict[str, list[str]] = {name: [] for name in having}
    for field, described in dataset.fields.items():
        owners = [name for name in having if field == name or field.startswith(f"{name}_")]
        if owners and described.dtype.kind == "f" and described.shape:
            fields[max(owners, key=len)].append(field)

    def rows(name: str) -> Rows:
        def taken(batch: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
            mask = batch[f"{name}_mask"]
            values = np.concatenate([batch[field].reshape(*mask.shape, -1) for field in fields[name]], axis=2)
            return values, mask[..., None] & np.isfinite(values)

        return taken

    return measure(dataset, {name: rows(name) for name in having})


def _stacked(units: Sequence[Moments | None]) -> np.ndarray:
    width = next(len(one.mean) for one in units if one is not None)
    none = Moments.none(width)
    return np.array([np.where(one.count > 0, one.mean, np.nan) for one in (unit or none for unit in units)])
