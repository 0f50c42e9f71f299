"""The description of features in a store, so that a reader need not know them.

The Zarr group of a version has the attributes ``session_id``, ``feature``, ``track`` (if not the main track),
``about``, ``mask``, ``face`` and ``groups`` (columns of ``values``, by name, as [start, stop]). Each array has
``about``, ``units``, ``columns``, ``joints`` and the names of its dimensions, of which the first is the kind of row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from storyframes.features import FEATURES, STORIES, STORY_FEATURES
from storyframes.spec import MAIN, MAIN_ARRAY, ArraySpec, Axis, FeatureSpec, feature_and_track
from storyframes.store.layout import ZARR_JSON, StoreError
from storyframes.store.records import StoredArray
from storyframes.store.storage import Storage, StorageError
from storyframes.store.validation import (
    InvalidError,
    check_array_metadata,
    check_group_metadata,
    parse_json,
    shard_name,
)

OWN_ATTRIBUTES = frozenset(
    {"session_id", "feature", "track", "about", "mask", "face", "groups", "stamps", "provenance"}
)
"""The attributes of a group that publishing writes; all others are the extractor's."""


_DISTINCT = 256  # descriptions that are kept; a store has one for each feature, or a few where settings changed


class Version(NamedTuple):
    """One version of a feature: the path of its group below the store, and the arrays it has, in their order."""

    path: str
    arrays: Mapping[str, StoredArray]


def describe_feature(
    session_id: str, spec: FeatureSpec, columns: Mapping[str, Sequence[str]], track: str = MAIN
) -> dict[str, Any]:
    """The attributes of a feature's group.

    Args:
        columns: of its arrays as they were written. The groups are left out where these are not the specification's.
    """
    attributes: dict[str, Any] = {"session_id": session_id, "feature": spec.name, "about": spec.about}
    if track != MAIN:
        attributes["track"] = track
    if spec.mask:
        attributes["mask"] = spec.mask
    if spec.face:
        attributes["face"] = spec.face
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


def read_descriptions(
    storage: Storage, versions: Mapping[tuple[str, str], Version], known: Iterable[FeatureSpec] = ()
) -> list[FeatureSpec]:
    """The specifications of features, in their order; equal ones are one object.

    Their names are without a track. A version that was written before stores had descriptions gets the mask, the face
    and the groups of the built-in feature of its name.

    Args:
        versions: by session (or ``stories``) and feature.
        known: specifications that were read before; an equal one is returned again.

    Raises:
        StoreError: a version is gone, or has no valid description.
        StorageError: it cannot be read.
    """
    files = {f"{path}/{name}" for path, arrays in versions.values() for name in _files(arrays)}
    contents = storage.read_many(sorted(files))
    shared: dict[str, list[FeatureSpec]] = {}
    for spec in known:
        shared.setdefault(spec.name, []).append(spec)
    specs = []
    for (session_id, feature), (path, arrays) in versions.items():
        name, _ = feature_and_track(feature)
        spec = _parse(contents, session_id, feature, path, arrays)
        like = shared.setdefault(name, [])
        if spec not in like:
            like.append(spec)
        specs.append(like[like.index(spec)])
    return specs


def read_attributes(storage: Storage, session_id: str, feature: str, path: str) -> dict[str, Any]:
    """The attributes of the version at ``path``.

    Raises:
        StoreError: it is gone, or of another feature or session, or an attribute is not as it is written there.
        StorageError: it cannot be read.
    """
    where = f"{path}/{ZARR_JSON}"
    try:
        return check_group_metadata(_document(where, storage.read(where)), session_id, feature)
    except InvalidError as error:
        raise StoreError(f"{where}: {error}: run 'storyframes verify'") from None


def open_array(storage: Storage, path: str, array: StoredArray) -> Any:
    """Open an array with zarr-python, after a check that its metadata and its file's size are as published.

    Args:
        path: of the array, below the store.
        array: as it was published.

    Raises:
        StoreError: it cannot be opened, or is not the array that was published.
        StorageError: the storage cannot be reached.
    """
    import zarr

    where = f"{path}/{ZARR_JSON}"
    content = storage.read(where)
    if content is None:
        raise StoreError(f"{path} cannot be opened ({ZARR_JSON} is missing): was its version removed by gc?")
    try:
        check_array_metadata(_document(where, content), path, array.shape, array.dtype, array.chunk_rows)
        if array.shape[0] and (shard := storage.info(f"{path}/{shard_name(array.shape)}")):
            array.check_fits(path, shard.bytes)
        opened: Any = zarr.open_array(mode="r", **storage.zarr(path))
    except InvalidError as error:
        raise StoreError(f"{path} cannot be read ({error}): run 'storyframes verify'") from None
    except (StorageError, StoreError):
        raise
    except Exception as error:  # anything that zarr-python and its codecs raise for damaged metadata
        raise StoreError(f"{path} cannot be opened ({_first_line(error)}): was its version removed by gc?") from None
    if (opened.shape, opened.dtype) != (array.shape, np.dtype(array.dtype)):
        raise StoreError(f"{path} is {opened.shape} {opened.dtype}, but was published as {array.shape} {array.dtype}")
    return opened


def _document(where: str, content: bytes | None) -> Any:
    if content is None:
        raise StoreError(f"{where} cannot be opened: was its version removed by gc?")
    try:
        return parse_json(content)
    except InvalidError as error:
        raise StoreError(f"{where} is damaged: run 'storyframes verify' ({error})") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _files(arrays: Iterable[str]) -> list[str]:
    return [ZARR_JSON, *(f"{array}/{ZARR_JSON}" for array in arrays)]


def _parse(
    contents: Mapping[str, bytes | None], session_id: str, feature: str, path: str, arrays: Mapping[str, StoredArray]
) -> FeatureSpec:
    documents = {name: _document(f"{path}/{name}", contents.get(f"{path}/{name}")) for name in _files(arrays)}
    try:
        attributes = check_group_metadata(documents[ZARR_JSON], session_id, feature)
        described = {
            name: _parse_array(
                check_array_metadata(documents[f"{name}/{ZARR_JSON}"], name, array.shape, array.dtype, array.chunk_rows)
            )
            for name, array in arrays.items()
        }
        feature = feature_and_track(feature)[0]
        builtin = (STORY_FEATURES if session_id == STORIES else FEATURES).get(feature)
        mask, groups = attributes.get("mask", ""), attributes.get("groups", {})
        face = attributes.get("face", "")
        if builtin and not mask and builtin.mask in described:
            mask = builtin.mask
        if builtin and not face and builtin.face in described:
            face = builtin.face
        if builtin and not groups and MAIN_ARRAY in described and described[MAIN_ARRAY].columns == builtin.columns:
            groups = {name: (group.start, group.stop) for name, group in builtin.groups.items()}
        columns = tuple((name, start, stop) for name, (start, stop) in groups.items())
        return _checked(feature, str(attributes.get("about", "")), tuple(described.items()), columns, mask, face)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise StoreError(
            f"{path} has no valid description ({_first_line(error)}): 'storyframes verify' shows whether it is damaged"
        ) from None


@lru_cache(_DISTINCT)
def _checked(
    name: str,
    about: str,
    arrays: tuple[tuple[str, ArraySpec], ...],
    groups: tuple[tuple[str, int, int], ...],
    mask: str,
    face: str,
) -> FeatureSpec:
    """The specification of these parts, checked once for all sessions that have it.

    Raises:
        SpecError: it is not valid.
    """
    slices = {group: slice(start, stop) for group, start, stop in groups}
    return FeatureSpec(name=name, about=about, arrays=dict(arrays), groups=slices, mask=mask, face=face)


def _parse_array(document: Mapping[str, Any]) -> ArraySpec:
    axis, *dims = document.get("dimension_names") or ("",)
    attributes = document.get("attributes", {})
    dtype = np.dtype(document["data_type"])
    fill = float(document["fill_value"]) if dtype.kind == "f" else int(document["fill_value"])
    return ArraySpec(
        axis=Axis(axis),
        dtype=dtype.name,
        about=str(attributes.get("about", "")),
        shape=tuple(document["shape"][1:]),
        dims=tuple(dims),
        fill=math.nan if math.isnan(fill) else fill,
        columns=tuple(attributes.get("columns", ())),
        joints=tuple(attributes.get("joints", ())),
        units=str(attributes.get("units", "")),
    )
