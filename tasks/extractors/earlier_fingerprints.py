"""Fingerprints of versions that development versions before 0.1.0 published: they had the distribution of a plug-in."""

from __future__ import annotations

import hashlib

from storyframes.spec import feature_and_track, of_track
from storyframes.store.record_status import read_status
from storyframes.store.records import Current, canonical_json
from storyframes.store.storage import Storage
from tasks.extractors.base import PLUG_IN, READ


def has_fingerprint(storage: Storage, record: Current, fingerprint: str) -> bool:
    """Whether a version has this fingerprint, as it was stored or without the distribution of a plug-in.

    Raises:
        StorageError: the record of a feature that was read cannot be read.
    """
    return record.fingerprint == fingerprint or _without_plug_in(storage, record) == fingerprint


def _without_plug_in(storage: Storage, record: Current) -> str:
    """The fingerprint that the version would have now, of it and of the features that it read.

    The provenance has everything that the fingerprint is a digest of. It is believed only if it gives the fingerprint.
    """
    feature, track = feature_and_track(record.feature)
    noted = record.provenance
    try:
        content = {name: noted[name] for name in ("extractor", "settings", "models")} | {"feature": feature}
        content["inputs"] = {kind: file["sha256"] for kind, file in noted["inputs"].items()}
        tools = content["tools"] = dict(noted["tools"])
        if hashlib.sha256(canonical_json(content)).hexdigest() != record.fingerprint:
            return record.fingerprint
    except (KeyError, TypeError, ValueError, AttributeError):  # adopted, derived, or not as it was written
        return record.fingerprint
    tools.pop(PLUG_IN, None)
    for name in tools:
        read = name.removeprefix(READ)
        entry = read_status(storage, record.session_id, of_track(read, track)) if read != name else None
        if entry and entry.record and entry.record.fingerprint == tools[name]:
            tools[name] = _without_plug_in(storage, entry.record)
    return hashlib.sha256(canonical_json(content)).hexdigest()
