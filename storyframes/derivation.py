"""Features that are made of other features of the store: what they were made of decides when they are out of date.

An extractor makes features of a study's files. Whoever computes something from stored features (an index of two
people, a principal component) publishes it through a :class:`Derivation`, and it is read, verified and given to clips
like any other feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from storyframes.derived_status import CODE_KEY, FEATURES_KEY, SETTINGS_KEY, derived_fingerprint
from storyframes.spec import MAIN, FeatureSpec, feature_and_track
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.layout import StoreError
from storyframes.store.publish import FeatureWriter
from storyframes.store.session_times import stored_clocks
from storyframes.times import StoredClocks


@dataclass(frozen=True)
class Derivation:
    """How a feature is made of others; equal fingerprints mean equal values.

    Attributes:
        spec: of the feature.
        features: those that it is made of, as the store calls them (``openface@b``).
        settings: what decides the values besides, as JSON has it.
        code: what makes it, with a number that is raised when it would give other values: another one makes it again.

    Example:
        >>> from storyframes.features import ArraySpec, Axis
        >>> arrays = {name: ArraySpec(Axis.MOMENT, "float64", "of the example") for name in ("values", "time")}
        >>> derivation = Derivation(FeatureSpec("mean_smile", "of two", arrays), ("openface", "openface@b"))
        >>> derivation.spec.name
        'mean_smile'
    """

    spec: FeatureSpec
    features: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""

    def fingerprint(self, store: FeatureReader, session_id: str, clocks: StoredClocks | None = None) -> str:
        """What decides a session's values: the features, their frames' times and clocks, the settings and the code.

        Args:
            clocks: where they were read before, by :func:`~storyframes.store.session_times.stored_clocks`.

        Raises:
            StoreError: the session lacks one of the features, or the clip index is damaged.
        """
        has_tracks = any(feature_and_track(feature)[1] != MAIN for feature in self.features)
        of_session = (stored_clocks(store) if clocks is None else clocks).get(session_id, {}) if has_tracks else {}
        versions = _current_versions(store, session_id)
        return derived_fingerprint(self.spec.name, self._provenance(versions, session_id), versions, of_session)

    def is_current(self, store: FeatureReader, session_id: str, clocks: StoredClocks | None = None) -> bool:
        """Whether the store has the feature, made of what it has now.

        Raises:
            StoreError: as of :meth:`fingerprint`.
        """
        fingerprint = self.fingerprint(store, session_id, clocks)
        return _current_versions(store, session_id).get(self.spec.name) == fingerprint

    def publish(self, store: FeatureReader, session_id: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Make these rows the session's current version; ``storyframes.store.compact`` shows it to readers.

        Args:
            arrays: by name, (n, \\*row shape) each.

        Raises:
            StoreError: as of :meth:`fingerprint`.
            PublishError: an array is missing, axes disagree, or the disk does not give back what was written.
            OSError: the disk is full or gone.
        """
        provenance = self._provenance(_current_versions(store, session_id), session_id)
        with FeatureWriter(store.storage, session_id, self.spec, frames=False) as out:
            for name, rows in arrays.items():
                out.write(name, rows)
            for status in store.statuses(session_id):
                if status.feature in self.features and status.current:
                    out.caveats |= set(status.current.caveats)
            out.publish(self.fingerprint(store, session_id), provenance)

    def _provenance(self, versions: Mapping[str, str], session_id: str) -> dict[str, Any]:
        """What the feature is made of: by feature the fingerprint of its version, the settings and the code."""
        if lacking := [feature for feature in self.features if feature not in versions]:
            raise StoreError(f"{session_id} has no feature {lacking[0]!r}, of which {self.spec.name} is made")
        made_of = {feature: versions[feature] for feature in self.features}
        return {FEATURES_KEY: made_of, SETTINGS_KEY: dict(self.settings), CODE_KEY: self.code}


def _current_versions(store: FeatureReader, session_id: str) -> dict[str, str]:
    """By feature, the fingerprint of the version that the store has."""
    return {status.feature: status.current.fingerprint for status in store.statuses(session_id) if status.current}
