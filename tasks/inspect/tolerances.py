"""How far two extractions of the same thing may lie apart and still be the same.

What a feature's extractor declares holds where nothing else is given; where none is installed, what the two stores
themselves say (an embedding's extractor is made by a configuration, and writes it down). A feature of which neither is
known has to be exactly the same: nobody can tell what may differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from storyframes.array_roles import value_names
from storyframes.features import STORIES
from storyframes.store.feature_store import FeatureStore
from storyframes.tracks import feature_and_track
from tasks.extractors.base import ALL, Scope, Tolerance
from tasks.extractors.registry import registered
from tasks.inspect.comparison import ComparisonError
from tasks.inspect.stored_feature import StoredFeature


class ToleranceError(ComparisonError):
    """A tolerance cannot be understood; the message says how one is written."""


@dataclass(frozen=True)
class Tolerances:
    """The tolerance of every column.

    Attributes:
        exact: no differences at all, save where ``given`` says otherwise.
        given: by ``feature`` or ``feature.column``, instead of what extractors declare.
        stored: by column or array, what the stores say of the feature in question; see :meth:`with_stored`.
    """

    exact: bool = False
    given: Mapping[str, float] = field(default_factory=dict)
    stored: Mapping[str, Tolerance] | None = None

    def with_stored(self, session_id: str, feature: str, stores: Iterable[FeatureStore]) -> Tolerances:
        """The same for one feature, with what the stores say of it; where they say different things, the stricter."""
        if _declared(session_id, feature) is not None:
            return self
        said = [_stored_tolerance(store.attributes(session_id, feature)) for store in stores]
        if not said or any(one is None for one in said):
            return self
        known: list[Mapping[str, Tolerance]] = [one for one in said if one is not None]
        keys = set.intersection(*(set(one) for one in known))
        strict = {
            key: Tolerance(min(one[key].absolute for one in known), min(one[key].relative for one in known))
            for key in keys
        }
        return replace(self, stored=strict)

    def of(self, session_id: str, feature: str, array: str, column: str, *, whole: bool) -> Tolerance:
        """The tolerance of one column; ``whole`` numbers are the same or not, if nobody names just them."""
        kind, _ = feature_and_track(feature)
        for key in (f"{feature}.{column}", feature, f"{kind}.{column}", kind):  # of one track, then of all
            if key in self.given:
                return Tolerance(self.given[key])
        declared = _declared(session_id, feature) or self.stored or {}
        if self.exact:
            return Tolerance()
        for key in (column, array) if whole else (column, array, ALL):
            if key in declared:
                return declared[key]
        return Tolerance()

    def knows(self, session_id: str, feature: str) -> bool:
        """Whether somebody said how far this feature's values may lie apart: the user, or its extractor."""
        given = feature in self.given or feature_and_track(feature)[0] in self.given
        return self.exact or given or self.stored is not None or _declared(session_id, feature) is not None


def _declared(session_id: str, feature: str) -> Mapping[str, Tolerance] | None:
    """What the feature's extractor declares, for all tracks alike; None where none is installed."""
    feature, _ = feature_and_track(feature)
    extractor = registered(Scope.STORIES if session_id == STORIES else Scope.SESSION).get(feature)
    return extractor.tolerance if extractor else None


def _stored_tolerance(attributes: Mapping[str, Any]) -> Mapping[str, Tolerance] | None:
    """What a group's attributes say; None where they say nothing, or nothing that can be understood."""
    said = attributes.get("tolerance")
    try:
        found = {str(key): Tolerance(float(one[0]), float(one[1])) for key, one in said.items()}  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError, IndexError, KeyError):
        return None
    numbers = [number for one in found.values() for number in (one.absolute, one.relative)]
    return found if all(math.isfinite(number) and number >= 0 for number in numbers) else None


def parse_tolerances(texts: Iterable[str], *, exact: bool = False) -> Tolerances:
    """Tolerances as a person writes them: ``openface=0.1``, ``openface.AU12_r=0.2``.

    Raises:
        ToleranceError: one is no such text.
    """
    given: dict[str, float] = {}
    for text in texts:
        key, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            raise ToleranceError(f"{text!r}: write FEATURE=NUMBER or FEATURE.COLUMN=NUMBER") from None
        if not (math.isfinite(value) and value >= 0):
            raise ToleranceError(f"{text!r}: a tolerance is 0 or more")
        given[key] = value
    return Tolerances(exact, given)


def check_tolerances(tolerances: Tolerances, stores: Iterable[FeatureStore]) -> None:
    """Refuse a tolerance of what is not there: a slip of the pen would be a comparison with another tolerance.

    Args:
        tolerances: as given.
        stores: that will be compared. A feature that only an extractor here knows is right as well.

    Raises:
        ToleranceError: a feature or a column is in no store.
        StoreError: a feature does not say what it holds.
    """
    stores = list(stores)
    for key in tolerances.given:
        readings = [(feature, column) for feature, column in _readings(key) if _is_there(feature, stores)]
        if not readings:
            raise ToleranceError(f"{key!r}: there is no feature {key.partition('.')[0]!r} in the two stores")
        if not any(column == "" or _has_column(feature, column, stores) for feature, column in readings):
            feature, column = readings[0]
            raise ToleranceError(f"{key!r}: {feature} has no column {column!r}")


def _readings(key: str) -> Iterator[tuple[str, str]]:
    """What ``key`` can mean, feature and column, the longest feature first: names of tracks may have dots in them."""
    parts = key.split(".")
    for count in range(len(parts), 0, -1):
        yield ".".join(parts[:count]), ".".join(parts[count:])


def _is_there(feature: str, stores: Iterable[FeatureStore]) -> bool:
    return any(feature in registered(scope) for scope in Scope) or any(any(_stored(store, feature)) for store in stores)


def _has_column(feature: str, column: str, stores: Iterable[FeatureStore]) -> bool:
    specs = [registered(scope)[feature].spec for scope in Scope if feature in registered(scope)]
    if any(column in value_names(spec, array) for spec in specs for array in spec.arrays):
        return True
    of_stores = (StoredFeature.of(store, *place).spec for store in stores for place in _stored(store, feature))
    return any(column in value_names(spec, array) for spec in of_stores for array in spec.arrays)


def _stored(store: FeatureStore, feature: str) -> Iterator[tuple[str, str]]:
    """Each session with the feature as the store calls it: of every track where ``feature`` names none."""
    there = store.catalogue[store.catalogue["version"].notna()]
    for session_id, name in zip(there["session_id"], there["feature"], strict=True):
        if feature in (name, feature_and_track(name)[0]):
            yield session_id, name
