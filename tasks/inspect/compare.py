"""Two feature stores side by side: per column, how far their values lie apart, and where most.

What to run after an upgrade: of OpenFace, of a model, of this project. Blocks of rows are compared, so memory stays
flat; arrays whose files have the same checksum are not read at all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping

from storyframes.features import STORIES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.records import Current
from storyframes.tracks import feature_and_track
from tasks.inspect.array_tally import WORST_ROWS, ArrayTally
from tasks.inspect.comparison import Comparison, ComparisonError, Mismatch
from tasks.inspect.feature_pair import FeaturePair
from tasks.inspect.tolerances import Tolerances, check_tolerances

_Tallies = dict[tuple[str, str, tuple[str, ...]], ArrayTally]


def compare_stores(
    a: FeatureStore,
    b: FeatureStore,
    tolerances: Tolerances,
    features: tuple[str, ...] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare the current versions of two stores.

    Args:
        a, b: the stores.
        tolerances: what may differ.
        features: only these; all otherwise. ``openface`` is that of every track, ``openface@child_b`` of one.
        progress: called with ``session/feature`` before each.

    Raises:
        ComparisonError: a feature or a tolerance's column is in neither store.
        StoreError: an array cannot be read.
    """
    _check_there(features or (), a, b)
    check_tolerances(tolerances, (a, b))
    found = Comparison()
    of_a, of_b = _currents("A", a, features, found), _currents("B", b, features, found)
    both = {session for session, _ in of_a} & {session for session, _ in of_b}
    found.sessions = len(both - {STORIES})
    tallies: _Tallies = {}
    unreadable = {(one.session_id, one.feature) for one in found.mismatches}
    for key in sorted({*of_a, *of_b}):
        session_id, feature = key
        if not unreadable.isdisjoint({key, (session_id, catalogue.WHOLE_SESSION)}):
            continue
        progress(f"{session_id}/{feature}")
        if key not in of_a or key not in of_b:
            found.mismatches.append(Mismatch(session_id, feature, f"only in {'A' if key in of_a else 'B'}"))
            continue
        pair = FeaturePair(a, b, of_a[key], of_b[key])
        allowed = tolerances.with_stored(session_id, feature, (a, b))
        _compare_feature(pair, allowed, tallies, found)
        if not allowed.knows(session_id, feature) and pair.label not in found.unknown:
            found.unknown.append(pair.label)
    for tally in tallies.values():
        found.columns += tally.columns()
        found.worst_rows.setdefault(tally.feature, []).extend(tally.worst_rows)
    found.worst_rows = {
        feature: heapq.nlargest(WORST_ROWS, rows, key=lambda row: (row.columns, row.times_tolerance))
        for feature, rows in found.worst_rows.items()
        if rows
    }
    return found


def _check_there(features: Iterable[str], *stores: FeatureStore) -> None:
    there = {name for store in stores for name in store.catalogue["feature"][store.catalogue["version"].notna()]}
    for feature in features:
        if not any(_is_asked(name, (feature,)) for name in there):
            names = ", ".join(sorted(there))
            raise ComparisonError(f"there is no feature {feature!r} in the two stores; there are {names}")


def _is_asked(stored: str, features: tuple[str, ...]) -> bool:
    """Whether a feature as the store calls it is among ``features``, by itself or with those of all tracks."""
    return stored in features or feature_and_track(stored)[0] in features


def _currents(
    side: str, store: FeatureStore, features: tuple[str, ...] | None, found: Comparison
) -> Mapping[tuple[str, str], Current]:
    """The versions of a store; what cannot be read is a mismatch, as the two might have it in common."""
    currents = {}
    for entry in catalogue.scan(store.storage):
        if features is not None and not _is_asked(entry.feature, (*features, catalogue.WHOLE_SESSION)):
            continue
        if entry.damage:
            found.mismatches.append(Mismatch(entry.session_id, entry.feature, f"in {side}: {entry.damage}"))
        elif entry.current:
            currents[entry.session_id, entry.feature] = entry.current
    return currents


def _compare_feature(pair: FeaturePair, tolerances: Tolerances, tallies: _Tallies, found: Comparison) -> None:
    for array in dict.fromkeys([*pair.of_a.arrays, *pair.of_b.arrays]):
        if what := _obstacle(pair, array):
            found.mismatches.append(Mismatch(pair.session_id, pair.feature, what))
            continue
        key = (pair.label, array, tuple(pair.columns(array)))  # in another session they may be others
        if key not in tallies:
            tallies[key] = ArrayTally.of(pair, array, tolerances)
        tallies[key].add(pair)


def _obstacle(pair: FeaturePair, array: str) -> str:
    """Why an array cannot be compared, in words; empty where it can."""
    if array not in pair.of_a.arrays or array not in pair.of_b.arrays:
        return f"the array {array} is only in {'A' if array in pair.of_a.arrays else 'B'}"
    a, b = pair.of_a.arrays[array].shape, pair.of_b.arrays[array].shape
    if a != b:
        return f"{array} is {_shape(a)} in A and {_shape(b)} in B"
    try:
        return pair.difference_of_columns(array)
    except StoreError as error:
        return str(error)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
