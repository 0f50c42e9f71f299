"""Two feature stores side by side: for each column how much its values differ, and where most.

For use after an upgrade of OpenFace, of a model or of this project. Blocks of rows are compared, so memory stays flat;
arrays whose files have the same checksums are not read.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from storyframes import CLOCK, STORIES, Axis, FeatureName, FeatureStore, value_names
from storyframes.store import Current, FeatureStatus, StoreError
from storyframes_report.tolerances import ComparisonError, Tolerances, check_tolerances
from tasks.extractors import Tolerance
from tasks.inspect import StoredFeature, counted

WORST_ROWS = 10
_BLOCK = 4096  # rows read at once


@dataclass(frozen=True)
class Mismatch:
    """A feature or array that cannot be compared, because one store lacks it or has it in another shape."""

    session_id: str
    feature: str
    what: str


@dataclass(frozen=True)
class WorstRow:
    """A row of one array with differences beyond tolerance."""

    columns: int  # how many differ by more than their tolerance
    times_tolerance: float  # the largest difference, as a multiple of its tolerance
    session_id: str
    array: str
    row: int
    time_s: float | None


@dataclass
class ColumnDifference:
    """One column over all sessions."""

    feature: str  # of stories, ``stories/…``
    array: str
    column: str  # of an array without columns, the array's name
    tolerance: Tolerance
    compared: int = 0  # values that both stores have
    beyond: int = 0  # values of these that differ by more than the tolerance
    one_sided: int = 0  # values that only one store has
    # largest, mean: absolute differences
    largest: float = 0.0
    mean: float = 0.0
    worst: tuple[str, int] | tuple[()] = ()  # session and row of the largest difference; empty where all are equal
    worst_values: tuple[float, float] = (0.0, 0.0)  # its values, A's and B's

    @property
    def same(self) -> bool:
        return not (self.beyond or self.one_sided)


@dataclass(repr=False)
class Comparison:
    """All differences of two stores."""

    sessions: int = 0  # how many both stores have
    mismatches: list[Mismatch] = field(default_factory=list)  # what cannot be compared
    columns: list[ColumnDifference] = field(default_factory=list)  # in the order of the features
    worst_rows: dict[str, list[WorstRow]] = field(default_factory=dict)  # by feature, the rows to look at first
    # features without a declared tolerance, because no extractor for them is installed: they must be equal
    unknown: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether both have the same features, within tolerance."""
        return not self.mismatches and all(column.same for column in self.columns)

    def __repr__(self) -> str:
        different = sum(not column.same for column in self.columns)
        apart = f"{counted(different, 'column')} beyond tolerance, {len(self.mismatches)} not comparable"
        compared = f"{counted(self.sessions, 'session')} in both, {counted(len(self.columns), 'column')} compared"
        return f"{'the same' if self.same else apart}; {compared}"


def compare_stores(
    a: FeatureStore,
    b: FeatureStore,
    tolerances: Tolerances,
    features: tuple[str, ...] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare the current versions of two stores; ``openface`` is that of every track, ``openface@child_b`` of one.

    Args:
        tolerances: by how much values may differ.
        features: only these; None for all.
        progress: called with ``session/feature`` before each.

    Raises:
        ComparisonError: a feature or a tolerance's column is in neither store.
        StoreError: an array cannot be read.
    """
    _check_features(features or (), a, b)
    check_tolerances(tolerances, (a, b))
    comparison = Comparison()
    in_a, in_b = (_currents(side, store, features, comparison) for side, store in (("A", a), ("B", b)))
    comparison.sessions = len({session for session, _ in in_a} & {session for session, _ in in_b} - {STORIES})
    tallies: dict[tuple[str, str, tuple[str, ...]], ArrayTally] = {}
    unreadable = {(mismatch.session_id, mismatch.feature) for mismatch in comparison.mismatches}
    for key in sorted({*in_a, *in_b}):
        session_id, feature = key
        if not unreadable.isdisjoint({key, (session_id, FeatureStatus.WHOLE_SESSION)}):
            continue
        progress(f"{session_id}/{feature}")
        if key not in in_a or key not in in_b:
            comparison.mismatches.append(Mismatch(session_id, feature, f"only in {'A' if key in in_a else 'B'}"))
            continue
        pair = FeaturePair(a, b, in_a[key], in_b[key])
        allowed = tolerances.with_stored(session_id, feature, (a, b))
        for array in dict.fromkeys([*pair.in_a.arrays, *pair.in_b.arrays]):
            if obstacle := pair.obstacle(array):
                comparison.mismatches.append(Mismatch(session_id, feature, obstacle))
                continue
            columns = (pair.label, array, tuple(pair.columns(array)))  # another session may have other columns
            if columns not in tallies:
                tallies[columns] = ArrayTally.of(pair, array, allowed)
            tallies[columns].add(pair)
        if not allowed.knows(session_id, feature) and pair.label not in comparison.unknown:
            comparison.unknown.append(pair.label)
    worst_rows: dict[str, list[WorstRow]] = {}
    for tally in tallies.values():
        comparison.columns += tally.columns()
        worst_rows.setdefault(tally.feature, []).extend(tally.worst_rows)
    comparison.worst_rows = {
        feature: heapq.nlargest(WORST_ROWS, rows, key=lambda row: (row.columns, row.times_tolerance))
        for feature, rows in worst_rows.items()
        if rows
    }
    return comparison


def _check_features(features: Iterable[str], *stores: FeatureStore) -> None:
    stored = {name for store in stores for name in store.catalogue["feature"][store.catalogue["version"].notna()]}
    for feature in features:
        if not any(_is_requested(name, (feature,)) for name in stored):
            names = ", ".join(sorted(stored))
            raise ComparisonError(f"there is no feature {feature!r} in the two stores; they have {names}")


def _is_requested(stored: str, features: tuple[str, ...]) -> bool:
    """Whether a stored feature is among ``features``, with its track's name or without."""
    return stored in features or FeatureName(stored).feature in features


def _currents(
    side: str, store: FeatureStore, features: tuple[str, ...] | None, comparison: Comparison
) -> Mapping[tuple[str, str], Current]:
    """The versions of a store. Damaged ones become mismatches, even where both stores have the same damage."""
    currents = {}
    for entry in store.read_statuses():
        if features is not None and not _is_requested(entry.feature, (*features, FeatureStatus.WHOLE_SESSION)):
            continue
        if entry.is_damaged:
            comparison.mismatches.append(Mismatch(entry.session_id, entry.feature, f"in {side}: {entry.reason}"))
        elif entry.record:
            currents[entry.session_id, entry.feature] = entry.record
    return currents


@dataclass(frozen=True)
class FeaturePair:
    """The same feature of the same session in both stores."""

    a: FeatureStore
    b: FeatureStore
    in_a: Current
    in_b: Current

    @property
    def session_id(self) -> str:
        return self.in_a.session_id

    @property
    def feature(self) -> str:
        return self.in_a.feature

    @property
    def label(self) -> str:
        """The feature's name; the stories' features differ from the sessions' of the same name."""
        return f"{STORIES}/{self.feature}" if self.session_id == STORIES else self.feature

    @cached_property
    def stored_a(self) -> StoredFeature:
        return StoredFeature.of(self.a, self.session_id, self.feature)

    @cached_property
    def stored_b(self) -> StoredFeature:
        return StoredFeature.of(self.b, self.session_id, self.feature)

    def columns(self, array: str) -> list[str]:
        """The names of the values of a row, as in A."""
        return value_names(self.stored_a.spec, array)

    def obstacle(self, array: str) -> str:
        """Why an array cannot be compared, in words; empty where it can."""
        if array not in self.in_a.arrays or array not in self.in_b.arrays:
            return f"the array {array} is only in {'A' if array in self.in_a.arrays else 'B'}"
        shapes = [" x ".join(map(str, current.arrays[array].shape)) for current in (self.in_a, self.in_b)]
        if shapes[0] != shapes[1]:
            return f"{array} is {shapes[0]} in A and {shapes[1]} in B"
        try:
            names = zip(self.columns(array), value_names(self.stored_b.spec, array), strict=True)
            different = [f"{name_a} in A and {name_b} in B" for name_a, name_b in names if name_a != name_b]
        except StoreError as error:
            return str(error)
        return f"{len(different)} columns of {array} have other names, the first is {different[0]}" if different else ""

    def is_identical(self, array: str) -> bool:
        """Whether the array's files have the same content, by their checksums."""
        return _checksums(self.in_a, array) == _checksums(self.in_b, array) != {}

    def read(self, array: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of both, each (n, columns) float64; NaN in both where the row is no measurement in one of them.

        Arrays with one number per row (times, a confidence) may be valid without a measurement and stay as they are.
        """
        a, b = self._rows(array, start, stop)
        mask = self.stored_a.mask_of(array)
        if mask and mask == self.stored_b.mask_of(array) and self.stored_a.spec.arrays[array].shape:
            measured_a, measured_b = self._rows(mask, start, stop)
            unmeasured = (measured_a[:, 0] == 0) | (measured_b[:, 0] == 0)
            a[unmeasured] = b[unmeasured] = np.nan
        return a, b

    def _rows(self, array: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        a, b = (stored.read(array, start, stop) for stored in (self.stored_a, self.stored_b))
        return a.reshape(len(a), -1).astype(np.float64), b.reshape(len(b), -1).astype(np.float64)

    def row_time(self, array: str, row: int) -> float | None:
        """The time of a row in seconds of the track's own recording, from A; None where A has no times."""
        clock = FeatureName.of_track(CLOCK, FeatureName(self.feature).track)
        try:
            if self.stored_a.spec.arrays[array].axis is Axis.FRAME:
                return float(self.a.read(self.session_id, clock, row, row + 1, array="time")[0])
            times = self.stored_a.time_array(array)
            return float(self.stored_a.read(times, row, row + 1)[0]) if times else None
        except (StoreError, IndexError):
            return None


def _checksums(current: Current, array: str) -> dict[str, str]:
    return {path: file.sha256 for path, file in current.files.items() if path.startswith(f"{array}/c/")}


@dataclass
class ArrayTally:
    """The differences of one array, added up over sessions and blocks of rows; its own arrays are (columns,)."""

    feature: str
    array: str
    names: list[str]
    tolerances: list[Tolerance]
    worst_rows: list[WorstRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.absolute = np.array([tolerance.absolute for tolerance in self.tolerances])
        self.relative = np.array([tolerance.relative for tolerance in self.tolerances])
        self.compared, self.beyond, self.one_sided, self.largest, self.total = np.zeros((5, len(self.names)))
        self.worst: list[tuple[str, int, float, float] | None] = [None] * len(self.names)

    @classmethod
    def of(cls, pair: FeaturePair, array: str, tolerances: Tolerances) -> ArrayTally:
        names = pair.columns(array)
        whole = np.dtype(pair.in_a.arrays[array].dtype).kind in "iub"
        allowed = [tolerances.of(pair.session_id, pair.feature, array, name, whole=whole) for name in names]
        return cls(pair.label, array, names, allowed)

    def add(self, pair: FeaturePair) -> None:
        rows = pair.in_a.arrays[self.array].shape[0]
        if pair.is_identical(self.array):
            self.compared += rows  # with its gaps, which are the same
            return
        for start in range(0, rows, _BLOCK):
            stop = min(start + _BLOCK, rows)
            a, b = pair.read(self.array, start, stop)
            self._add_block(pair, a, b, start)

    def _add_block(self, pair: FeaturePair, a: np.ndarray, b: np.ndarray, start: int) -> None:
        both, one_sided = ~np.isnan(a) & ~np.isnan(b), np.isnan(a) ^ np.isnan(b)
        with np.errstate(invalid="ignore"):
            apart = np.where(both & (a != b), np.abs(a - b), 0.0)
            allowed = self.absolute + self.relative * np.where(both, np.abs(a), 0.0)
        beyond = apart > allowed
        self.compared += both.sum(axis=0)
        self.one_sided += one_sided.sum(axis=0)
        self.beyond += beyond.sum(axis=0)
        self.total += apart.sum(axis=0)
        rows = apart.argmax(axis=0)
        block_largest = apart.max(axis=0)
        for column in np.flatnonzero(block_largest > self.largest).tolist():
            row = int(rows[column])
            self.worst[column] = (pair.session_id, start + row, float(a[row, column]), float(b[row, column]))
        self.largest = np.maximum(self.largest, block_largest)
        self._note_worst_rows(pair, apart, allowed, beyond | one_sided, start)

    def _note_worst_rows(
        self, pair: FeaturePair, apart: np.ndarray, allowed: np.ndarray, different: np.ndarray, start: int
    ) -> None:
        columns = different.sum(axis=1)
        for row in np.argsort(-columns, kind="stable")[:WORST_ROWS].tolist():
            if not columns[row]:
                break
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = np.nanmax(np.where(apart[row] > 0, apart[row] / allowed[row], 0.0))
            time = pair.row_time(self.array, start + row)
            self.worst_rows.append(
                WorstRow(int(columns[row]), float(factor), pair.session_id, self.array, start + row, time)
            )

    def columns(self) -> Iterator[ColumnDifference]:
        for number, name in enumerate(self.names):
            worst = self.worst[number]
            compared = int(self.compared[number])
            yield ColumnDifference(
                self.feature,
                self.array,
                name,
                self.tolerances[number],
                compared,
                int(self.beyond[number]),
                int(self.one_sided[number]),
                float(self.largest[number]),
                float(self.total[number] / compared) if compared else 0.0,
                worst[:2] if worst else (),
                worst[2:] if worst else (0.0, 0.0),
            )
