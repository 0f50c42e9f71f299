"""Which arrays and columns of a feature are released, what the release says they are, and which need a permission.

A person can be recognised by the landmarks and shape of a face, by the proportions and gait of a body, by the spectrum
of a voice, and by what a network made of a picture or of sound. All of these are biometric, and so is every feature
that this program does not know. What OpenFace says of movements (action units, gaze, head pose) is not: it is the same
scale for every face. Words can be read from word vectors, so these are never released; from vectors of utterances and
stories a text can be guessed, so they need a permission of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from storyframes import (
    CLOCKS,
    FEATURES,
    FRAME_ROW,
    STORIES,
    ArraySpec,
    Axis,
    ColumnTable,
    FeatureName,
    FeatureSpec,
    shown_names,
)
from storyframes_release.release.provenance import READ
from storyframes_release.release.settings import ReleaseError

MEASURED = "measured"
"""The name in a release of the mask of a feature that is not built in."""


@dataclass(frozen=True)
class ReleasedArray:
    """One array of a release.

    Attributes:
        pieces: the columns that are taken; empty for all.
    """

    source: str
    spec: ArraySpec
    pieces: tuple[slice, ...] = ()


@dataclass(frozen=True)
class ReleasedFeature:
    """One feature of a release.

    Attributes:
        arrays: by their names in the release.
        is_known: whether it is exactly the built-in feature of its name.
    """

    spec: FeatureSpec
    arrays: Mapping[str, ReleasedArray]
    is_known: bool


def released_feature(
    session_id: str, feature: str, stored: FeatureSpec, requested: tuple[str, ...] | None
) -> ReleasedFeature:
    """The released part of a feature.

    A built-in feature is described as in this program. Of any other feature nothing is taken over that the
    configuration does not name: no description, no unit, no names of columns or of the mask.

    Args:
        stored: its specification in the store.
        requested: columns, groups and arrays that the configuration names; None for all.

    Raises:
        ReleaseError: a column or array is unknown, or all of a feature that is not built in is requested.
    """
    builtin = FeatureName(feature).built_in(of_stories=session_id == STORIES)
    is_known = builtin is not None and _is_just(stored, builtin)
    if requested is None and not is_known:
        raise ReleaseError(
            f"{feature!r} is not built in, so nobody knows what is in all of it: name the columns and arrays to release"
        )
    base = builtin if is_known and builtin is not None else stored
    arrays = _chosen(feature, stored, base, requested, is_known)
    for name in _beside(stored, arrays):
        shown = MEASURED if name == stored.mask and not is_known else name
        arrays[shown] = ReleasedArray(name, base.arrays[name] if is_known else _bare(stored.arrays[name]))
    mask = next((name for name, array in arrays.items() if array.source == stored.mask), "") if stored.mask else ""
    in_order = {
        name: arrays[name] for name in sorted(arrays, key=lambda array: list(stored.arrays).index(arrays[array].source))
    }
    groups = _groups(base, in_order) if is_known else {}
    about = base.about if is_known else "a feature that is not built in; its authors say what it is"
    if is_known and feature == "openface" and requested is not None:
        about = f"OpenFace 2: {', '.join(groups) or 'some columns'} (Baltrusaitis et al., 2018)"
    spec = FeatureSpec(feature, about, {name: array.spec for name, array in in_order.items()}, groups, mask)
    return ReleasedFeature(spec, in_order, is_known)


def _is_just(stored: FeatureSpec, builtin: FeatureSpec) -> bool:
    """Whether the store has only arrays of the built-in feature."""
    return stored.mask == builtin.mask and all(
        name in builtin.arrays and _shape(array) == _shape(builtin.arrays[name])
        for name, array in stored.arrays.items()
    )


def _shape(array: ArraySpec) -> tuple[object, ...]:
    return array.axis, array.shape, array.dims, array.dtype, array.columns, array.joints


def _chosen(
    feature: str, stored: FeatureSpec, base: FeatureSpec, requested: tuple[str, ...] | None, is_known: bool
) -> dict[str, ReleasedArray]:
    """The requested arrays and columns."""
    if requested is None:
        return {name: ReleasedArray(name, base.arrays[name]) for name in stored.arrays if name != "speaker"}
    named = [name for name in requested if name in stored.arrays]
    columns = [name for name in requested if name not in stored.arrays]
    arrays = {
        name: ReleasedArray(name, base.arrays[name] if is_known else _bare(stored.arrays[name], feature))
        for name in named
    }
    if not columns:
        return arrays
    if "values" in named or "values" not in stored.arrays or not stored.arrays["values"].columns:
        raise ReleaseError(f"{feature!r} has no array {columns[0]!r} to release; it has {', '.join(stored.arrays)}")
    for name in ("values", "per_frame"):
        if name not in stored.arrays or name in named or not stored.arrays[name].columns:
            continue
        table = ColumnTable(stored.arrays[name].columns, stored.groups if is_known and name == "values" else {})
        try:
            picked = table.choose(columns)
        except ValueError as error:
            raise ReleaseError(f"{feature!r}: {error}") from None
        array = base.arrays[name] if is_known else _bare(stored.arrays[name])
        shape = (*array.shape[:-1], len(picked.names))
        about = _about(feature, picked.names) if is_known and feature == "openface" else array.about
        spec = replace(array, shape=shape, columns=picked.names, about=about)
        arrays[name] = ReleasedArray(name, spec, picked.pieces)
    return arrays


def _about(feature: str, columns: tuple[str, ...]) -> str:
    """What some columns are, with their units and no others'."""
    units: dict[str, list[str]] = {}
    for column in columns:
        if unit := FeatureName(feature).unit_of(column):
            units.setdefault(unit, []).append(column)
    shown = "; ".join(f"{unit}: {shown_names('', names)}" for unit, names in units.items())
    return f"columns of OpenFace's CSV{f', in {shown}' if shown else ''}. Rows with valid = 0 are no measurements"


def _beside(stored: FeatureSpec, arrays: Mapping[str, ReleasedArray]) -> list[str]:
    """The arrays that must accompany the chosen ones: times, speakers and masks of their rows."""
    axes = {array.spec.axis for array in arrays.values()}
    clocks = {name for axis in axes for name in (*CLOCKS.get(axis, ()), "end")}
    ways = {FRAME_ROW[axis] for axis in axes if axis in FRAME_ROW}
    names = [name for name in (*clocks, stored.mask, "speaker") if name in stored.arrays]
    names = [name for name in names if stored.arrays[name].axis in axes] + [way for way in ways if way in stored.arrays]
    return sorted({*names} - {array.source for array in arrays.values()})


def _bare(array: ArraySpec, feature: str = "") -> ArraySpec:
    """An array without its extractor's description; columns with names get numbers."""
    columns = tuple(f"{feature}_{number:04d}" for number in range(array.shape[-1])) if array.columns and feature else ()
    dims = tuple(f"dim{number}" for number in range(1, len(array.dims) + 1))
    return replace(array, about="", units="", columns=columns, joints=(), dims=dims, optional=False)


def _groups(base: FeatureSpec, arrays: Mapping[str, ReleasedArray]) -> dict[str, slice]:
    """The groups whose columns are all released, side by side as before."""
    if "values" not in arrays:
        return {}
    columns, groups = arrays["values"].spec.columns, {}
    for name, group in base.groups.items():
        of_group = base.columns[group]
        if of_group and of_group[0] in columns:
            first = columns.index(of_group[0])
            if columns[first : first + len(of_group)] == of_group:
                groups[name] = slice(first, first + len(of_group))
    return groups


_MOVEMENTS = ("bookkeeping", "gaze", "pose", "action_units")
_OPENFACE = FEATURES["openface"]
HARMLESS_COLUMNS = frozenset(name for group in _MOVEMENTS for name in _OPENFACE.columns[_OPENFACE.groups[group]])
"""The columns of OpenFace by which nobody can be recognised."""
_TEXTS = {"transcript", "stories"}
_WITHOUT_TEXT = {"frames", "openface", "resnet50", "dope", "opensmile"}


class Sensitive(StrEnum):
    """Why something needs a permission: the configuration's key that gives it."""

    BIOMETRIC = "allow_biometric"
    TEXT = "allow_text_vectors"
    NEVER = "never"


def sensitivity(
    feature: str,
    spec: FeatureSpec,
    is_known: bool,
    columns: Mapping[str, tuple[str, ...]],
    provenance: Mapping[str, Any],
) -> set[Sensitive]:
    """The permissions that a released feature needs.

    Args:
        spec: its specification in the store.
        is_known: whether it is exactly the built-in feature of its name.
        columns: by released array, the columns.
    """
    axes = {array.axis for array in spec.arrays.values()}
    if Axis.WORD in axes:
        return {Sensitive.NEVER}
    if is_known and (feature == "frames" or FeatureName(feature).is_label_curve):
        return set()
    if is_known and feature == "openface":
        return set() if set(columns.get("values", ())) <= HARMLESS_COLUMNS else {Sensitive.BIOMETRIC}
    if is_known and axes & {Axis.UTTERANCE, Axis.STORY}:
        return {Sensitive.TEXT}
    if is_known:
        return {Sensitive.BIOMETRIC}
    spoken = axes & {Axis.UTTERANCE, Axis.STORY}
    texts = set() if _is_without_text(provenance) and not spoken else {Sensitive.TEXT}
    return {Sensitive.BIOMETRIC, *texts}


def _is_without_text(provenance: Mapping[str, Any]) -> bool:
    """Whether its extractor declares that it reads no words, and it was made from no feature that may be of words.

    Older versions do not have this declaration: speech may have been recognised in a sound.
    """
    inputs, tools = provenance.get("inputs"), provenance.get("tools", {})
    if provenance.get("private") is not False or not isinstance(inputs, dict) or not inputs or _TEXTS & set(inputs):
        return False
    read = {str(name).removeprefix(READ) for name in tools if str(name).startswith(READ)}
    return read <= _WITHOUT_TEXT
