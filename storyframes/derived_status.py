"""Whether features that are made of other features of the store (:mod:`storyframes.derivation`) are older than these.

What a derived feature records of itself is enough to say so, without the program that makes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any

from storyframes.features import CLOCK, FEATURES
from storyframes.spec import MAIN, feature_and_track, of_track
from storyframes.store.layout import StoreError, current_path
from storyframes.store.record_status import FeatureStatus, batches
from storyframes.store.records import Current, RecordError, canonical_json
from storyframes.store.storage import Storage
from storyframes.times import StoredClocks

FEATURES_KEY, SETTINGS_KEY, CODE_KEY = "features", "settings", "code"
"""The keys of a derived feature's provenance; only such a feature has the first, fingerprints by feature."""
_SESSIONS = 200  # of which records are read at once


def derived_fingerprint(
    name: str, provenance: Mapping[str, Any], versions: Mapping[str, str], clocks: Mapping[str, Any]
) -> str:
    """What decides the values of a derived feature.

    Args:
        name: of the feature.
        provenance: the features that it is made of, with their fingerprints, the settings and the code.
        versions: of the session, by feature the fingerprint of the current version.
        clocks: of the session's tracks, as the clip index has them.
    """
    tracks = _tracks(provenance[FEATURES_KEY])
    content = {
        "feature": name,
        "of": dict(provenance[FEATURES_KEY]),
        "frames": {track: versions.get(of_track(CLOCK, track)) for track in sorted({*tracks, MAIN})},
        "clocks": {track: clocks.get(track) for track in tracks},
        "settings": dict(provenance[SETTINGS_KEY]),
        "code": provenance[CODE_KEY],
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _tracks(features: Iterable[str]) -> list[str]:
    """The tracks of features, without the session's own, whose clock is the session's."""
    return sorted({feature_and_track(feature)[1] for feature in features} - {MAIN})


def with_outdated(statuses: Iterable[FeatureStatus], storage: Storage) -> Iterator[FeatureStatus]:
    """The same statuses in their order, in which those of derived features say in ``outdated`` why they are old.

    The records of features that storyframes does not know are read, which may be derived. Another version of the
    program that makes a feature, or other settings, do not make it old here.

    Args:
        statuses: those of a session one after the other.

    Raises:
        StorageError: the store cannot be read.
    """

    @cache
    def clocks() -> StoredClocks:
        from storyframes.store.session_times import clocks_of_storage  # imports pandas and Zarr

        return clocks_of_storage(storage)

    for sessions in batches((list(own) for _, own in groupby(statuses, attrgetter("session_id"))), _SESSIONS):
        unread = [
            current_path(status.session_id, status.feature)
            for own in sessions
            for status in own
            if _may_be_derived(status) and not status.record
        ]
        contents = storage.read_many(unread, lambda *_: None) if unread else {}
        for own in sessions:
            versions = {status.feature: status.current.fingerprint for status in own if status.current}
            for status in own:
                record = (status.record or _record(status, contents)) if _may_be_derived(status) else None
                derived = record and isinstance(record.provenance.get(FEATURES_KEY), dict)
                yield replace(status, outdated=_why(record, versions, clocks)) if record and derived else status


def _may_be_derived(status: FeatureStatus) -> bool:
    if status.current is None:  # also of a session that cannot be read: its row is of no feature
        return False
    feature, track = feature_and_track(status.feature)
    return track == MAIN and feature not in FEATURES


def _record(status: FeatureStatus, contents: Mapping[str, bytes | None]) -> Current | None:
    path = current_path(status.session_id, status.feature)
    try:
        return Current.parse_of(status.session_id, status.feature, contents.get(path), path)
    except RecordError:
        return None  # 'storyframes verify' names it


def _why(record: Current, versions: Mapping[str, str], clocks: Any) -> str:
    """Why a derived feature is older than what it is made of; empty where it is not."""
    made_of = record.provenance[FEATURES_KEY]
    for feature in sorted(made_of):
        if feature not in versions:
            return f"made of {feature}, which is gone"
        if made_of[feature] != versions[feature]:
            return f"made of an earlier version of {feature}"
    try:
        of_session = clocks().get(record.session_id, {}) if _tracks(made_of) else {}
        is_current = derived_fingerprint(record.feature, record.provenance, versions, of_session) == record.fingerprint
    except (StoreError, KeyError, TypeError, ValueError) as error:
        return f"what it is made of is not known ({error})"
    return "" if is_current else "made with other times of the frames, or other clocks"
