"""How much two extractions of a feature may differ and still count as the same.

In this order: what the user gives; what the feature's extractor declares; where it is not installed, what both stores
record (embeddings, whose extractors are made by a configuration, record it). Otherwise values must be exactly equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from storyframes import STORIES, FeatureName, FeatureStore, value_names
from tasks.extractors import Tolerance, registered
from tasks.inspect import StoredFeature


class ComparisonError(ValueError):
    """The request cannot be compared; the message says why."""


class ToleranceError(ComparisonError):
    """A tolerance is malformed, or of an unknown feature or column."""


@dataclass(frozen=True)
class Tolerances:
    """The tolerance of every column."""

    exact: bool = False  # no differences, except where ``given``
    # by ``feature`` or ``feature.column``, instead of what extractors declare
    given: Mapping[str, float] = field(default_factory=dict)
    # by column or array, what the stores record of one feature; see :meth:`with_stored`
    stored: Mapping[str, Tolerance] | None = None

    def with_stored(self, session_id: str, feature: str, stores: Iterable[FeatureStore]) -> Tolerances:
        """The same for one feature, with what the stores record; where they differ, the stricter."""
        if _declared(session_id, feature) is not None:
            return self
        recorded = []
        for store in stores:
            by_key = _stored_tolerance(store.attributes(session_id, feature))
            if by_key is None:
                return self
            recorded.append(by_key)
        if not recorded:
            return self
        strict = {
            key: Tolerance(min(each[key].absolute for each in recorded), min(each[key].relative for each in recorded))
            for key in set.intersection(*map(set, recorded))
        }
        return replace(self, stored=strict)

    def of(self, session_id: str, feature: str, array: str, column: str, *, whole: bool) -> Tolerance:
        """The tolerance of one column; ``whole`` numbers must be equal unless their column or array is named."""
        kind = FeatureName(feature).feature
        for key in (f"{feature}.{column}", feature, f"{kind}.{column}", kind):  # of one track, then of all
            if key in self.given:
                return Tolerance(self.given[key])
        declared = _declared(session_id, feature) or self.stored or {}
        if self.exact:
            return Tolerance()
        for key in (column, array) if whole else (column, array, Tolerance.ALL):
            if key in declared:
                return declared[key]
        return Tolerance()

    def knows(self, session_id: str, feature: str) -> bool:
        """Whether the user, the extractor or the stores give a tolerance of this feature."""
        given = feature in self.given or FeatureName(feature).feature in self.given
        return self.exact or given or self.stored is not None or _declared(session_id, feature) is not None


def _declared(session_id: str, feature: str) -> Mapping[str, Tolerance] | None:
    """The tolerance that the feature's extractor declares, for all tracks; None where it is not installed."""
    feature = FeatureName(feature).feature
    extractor = (registered(STORIES) if session_id == STORIES else registered()).get(feature)
    return extractor.tolerance if extractor else None


def _stored_tolerance(attributes: Mapping[str, Any]) -> Mapping[str, Tolerance] | None:
    """The tolerance in a group's attributes; None where it is missing or malformed."""
    try:
        by_key = {str(key): Tolerance(float(pair[0]), float(pair[1])) for key, pair in attributes["tolerance"].items()}
    except (AttributeError, TypeError, ValueError, IndexError, KeyError):
        return None
    numbers = [number for each in by_key.values() for number in (each.absolute, each.relative)]
    return by_key if all(math.isfinite(number) and number >= 0 for number in numbers) else None


def parse_tolerances(texts: Iterable[str], *, exact: bool = False) -> Tolerances:
    """Tolerances from the command line: ``openface=0.1``, ``openface.AU12_r=0.2``.

    Raises:
        ToleranceError: a text has another form.
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
    """Refuse a tolerance of a feature or column that neither the stores nor an extractor has: it would have no effect.

    Raises:
        ToleranceError: a feature or a column is unknown.
        StoreError: a feature's description is damaged.
    """
    stores = list(stores)
    for key in tolerances.given:
        readings = [(feature, column) for feature, column in _readings(key) if _is_known(feature, stores)]
        if not readings:
            raise ToleranceError(f"{key!r}: there is no feature {key.partition('.')[0]!r} in the two stores")
        if not any(column == "" or _has_column(feature, column, stores) for feature, column in readings):
            feature, column = readings[0]
            raise ToleranceError(f"{key!r}: {feature} has no column {column!r}")


def _readings(key: str) -> Iterator[tuple[str, str]]:
    """The possible meanings of ``key`` as feature and column, longest feature first: tracks' names may have dots."""
    parts = key.split(".")
    for count in range(len(parts), 0, -1):
        yield ".".join(parts[:count]), ".".join(parts[count:])


def _is_known(feature: str, stores: Iterable[FeatureStore]) -> bool:
    return feature in {*registered(), *registered(STORIES)} or any(any(_stored(store, feature)) for store in stores)


def _has_column(feature: str, column: str, stores: Iterable[FeatureStore]) -> bool:
    specs = [of_scope[feature].spec for of_scope in (registered(), registered(STORIES)) if feature in of_scope]
    if any(column in value_names(spec, array) for spec in specs for array in spec.arrays):
        return True
    stored = (StoredFeature.of(store, *key).spec for store in stores for key in _stored(store, feature))
    return any(column in value_names(spec, array) for spec in stored for array in spec.arrays)


def _stored(store: FeatureStore, feature: str) -> Iterator[tuple[str, str]]:
    """Sessions with the feature and its stored name: of every track where ``feature`` names none."""
    current = store.catalogue[store.catalogue["version"].notna()]
    for session_id, name in zip(current["session_id"], current["feature"], strict=True):
        if feature in (name, FeatureName(name).feature):
            yield session_id, name
