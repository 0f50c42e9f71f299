"""Copies one feature of one session into a release, without anything that says whose values these are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from storyframes import STORIES, CurveRule, FeatureStore
from storyframes.store import Caveat, Current, FeatureWriter, Storage
from storyframes_release.release.ids import Key
from storyframes_release.release.provenance import FEATURE_SETS, released_provenance
from storyframes_release.release.released_features import ReleasedArray, ReleasedFeature

MOMENT_S = 946_684_800
"""The time of all files and records in a release: 2000-01-01, UTC."""
_CREATED_AT = "2000-01-01T00:00:00.000000Z"
_VERSION = "20000101T000000Z"
HIDDEN_CAVEAT = "a caveat whose words are not public: ask the authors"
_ROWS = 6_000  # copied at a time: memory does not grow with a session's length
_ROLES = frozenset("participant robot agent interviewer experimenter therapist patient child parent teacher".split())


def copy_feature(
    store: FeatureStore, session_id: str, feature: str, released: ReleasedFeature, target: Storage, root: Path, key: Key
) -> Current:
    """Write a feature into the release; values are copied to the bit.

    Args:
        session_id: the session, or ``stories``.
        target: the released store.
        root: the released store's folder.

    Raises:
        StoreError: the feature cannot be read.
        PublishError: the copy cannot be read back as it was written.
    """
    attributes = store.attributes(session_id, feature)
    new = session_id if session_id == STORIES else key.names["sessions"][session_id]
    with FeatureWriter(target, new, released.spec, "zstd") as out:
        out.attributes = _attributes(attributes, key)
        order = _order_of_stories(out.attributes) if session_id == STORIES else None
        out.caveats = {_caveat(text) for text in attributes.get("stamps", [])}
        for name, array in released.arrays.items():
            writer = out.array(name)
            if order is not None:
                writer.append(_columns(store.read(session_id, feature, array=array.source)[order], array))
                continue
            rows = store.describe(session_id, feature, array.source).shape[0]
            for start in range(0, rows, _ROWS):
                values = store.view(session_id, feature, start, min(start + _ROWS, rows), array=array.source)
                writer.append(_columns(values, array))
        was = store.catalogue.set_index(["session_id", "feature"])["fingerprint"][session_id, feature]
        provenance = released_provenance(attributes.get("provenance", {}))
        current = out.publish(key.digest("fingerprint", str(was), repr(released.spec)), provenance)
    return _timeless(current, root, key)


def _columns(values: np.ndarray, array: ReleasedArray) -> np.ndarray:
    if array.pieces:
        values = np.concatenate([values[..., piece] for piece in array.pieces], axis=-1)
    return np.ascontiguousarray(values)


def _order_of_stories(attributes: dict[str, Any]) -> list[int]:
    """The rows in the order of their new names, which are sorted in place: the study's order reveals old names."""
    new = attributes["story_ids"]
    order = sorted(range(len(new)), key=new.__getitem__)
    attributes["story_ids"] = [new[row] for row in order]
    return order


def _caveat(text: str) -> str:
    return text if text in list(Caveat) else HIDDEN_CAVEAT


def _attributes(attributes: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """The attributes of a released feature: only those listed here."""
    kept: dict[str, Any] = {}
    if isinstance(attributes.get("speakers"), list):
        numbered = enumerate(attributes["speakers"], 1)
        kept["speakers"] = [name if name in _ROLES else f"speaker_{number}" for number, name in numbered]
    if isinstance(attributes.get("story_ids"), list):
        kept["story_ids"] = [key.names["stories"][story] for story in attributes["story_ids"]]
    if FEATURE_SETS.fullmatch(str(attributes.get("feature_set", ""))):
        kept["feature_set"] = attributes["feature_set"]
    rule = CurveRule.of({key: attributes[key] for key in ("between", "longest_gap_s") if key in attributes}, "a curve")
    if rule != CurveRule():
        kept |= {"between": str(rule.between), "longest_gap_s": rule.longest_gap_s}
    return kept


def _timeless(current: Current, root: Path, key: Key) -> Current:
    """The version without the time of its extraction: in its name, its record and its files."""
    version = f"{_VERSION}-{key.digest('version', current.fingerprint)[:8]}"
    folder = root / current.session_id / current.feature
    os.rename(folder / current.version, folder / version)
    files = {name: replace(file, mtime_ns=MOMENT_S * 10**9) for name, file in current.files.items()}
    current = replace(current, version=version, created_at=_CREATED_AT, files=files, sequence=1, condemned=[])
    (folder / "current.json").write_bytes(current.to_json())
    return current
