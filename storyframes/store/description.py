"""What a store says of the features in it, so that whoever reads it need not know them.

Beside the values lie, as attributes of the Zarr group: ``feature``, ``about``, ``mask`` and ``groups`` (columns of
``values``, by name, as [start, stop]); and of each array: ``about``, ``units``, ``columns``, ``joints``, and the names
of its dimensions, of which the first says what a row is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import zarr

from storyframes.features import feature_spec
from storyframes.spec import MAIN_ARRAY, ArraySpec, Axis, FeatureSpec, SpecError

OWN_ATTRIBUTES = frozenset({"feature", "about", "mask", "groups", "stamps", "provenance"})
"""The attributes of a group that publishing writes; all others are the extractor's."""


def describe_feature(spec: FeatureSpec, columns: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The attributes of a feature's group.

    Args:
        spec: of the feature.
        columns: of its arrays as they were written. The groups are those of the specification's own columns.
    """
    attributes: dict[str, Any] = {"feature": spec.name, "about": spec.about}
    if spec.mask:
        attributes["mask"] = spec.mask
    if spec.groups and tuple(columns.get(MAIN_ARRAY, ())) == spec.columns:
        attributes["groups"] = {name: [group.start, group.stop] for name, group in spec.groups.items()}
    return attributes


def describe_array(spec: ArraySpec, columns: Sequence[str]) -> dict[str, Any]:
    """The attributes of an array that was written with these columns."""
    attributes: dict[str, Any] = {"about": spec.about}
    if spec.units:
        attributes["units"] = spec.units
    if columns:
        attributes["columns"] = list(columns)
    if spec.joints:
        attributes["joints"] = list(spec.joints)
    return attributes


def read_description(group: zarr.Group, session_id: str, feature: str, arrays: Sequence[str]) -> FeatureSpec:
    """The specification of a feature as it lies in the store.

    A version of before the store said so has the mask and the groups of the built-in feature of its name.

    Args:
        group: the version's.
        session_id: the session, or ``stories``.
        feature: the feature.
        arrays: those that the version has, in their order.

    Raises:
        SpecError: what is there does not describe a feature.
        KeyError: an array is not there.
    """
    attributes: dict[str, Any] = dict(group.attrs)
    described = {name: _read_array(group, name) for name in arrays}
    values = described.get(MAIN_ARRAY)
    mask, groups = attributes.get("mask"), attributes.get("groups")
    builtin = _builtin(session_id, feature)
    if mask is None and builtin and builtin.mask in described:
        mask = builtin.mask
    if groups is None and builtin and values and values.columns == builtin.columns:
        groups = {name: [each.start, each.stop] for name, each in builtin.groups.items()}
    try:
        return FeatureSpec(
            name=feature,
            about=str(attributes.get("about", "")),
            arrays=described,
            groups={name: slice(start, stop) for name, (start, stop) in (groups or {}).items()},
            mask=mask or "",
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise error if isinstance(error, SpecError) else SpecError(f"{feature}: groups are not [start, stop]") from None


def _builtin(session_id: str, feature: str) -> FeatureSpec | None:
    try:
        return feature_spec(session_id, feature)
    except KeyError:
        return None


def _read_array(group: zarr.Group, name: str) -> ArraySpec:
    array: Any = group[name]
    axis, *dims = array.metadata.dimension_names or ("",)
    attributes = array.attrs
    try:
        return ArraySpec(
            axis=Axis(axis),
            dtype=array.dtype.name,
            about=str(attributes.get("about", "")),
            shape=tuple(array.shape[1:]),
            dims=tuple(dims),
            fill=np.asarray(array.fill_value).item(),
            columns=tuple(attributes.get("columns", ())),
            joints=tuple(attributes.get("joints", ())),
            units=str(attributes.get("units", "")),
        )
    except ValueError:
        raise SpecError(f"{name}: there is no axis {axis!r}; there are {', '.join(Axis)}") from None
