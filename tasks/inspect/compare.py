"""Two feature stores side by side: per column, how far their values lie apart, and where most.

What to run after an upgrade: of OpenFace, of a model, of this project. Blocks of rows are compared, so memory stays
flat; arrays whose files have the same checksum are not read at all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from storyframes.features import STORIES, feature_spec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.records import Current
from tasks.inspect.tolerances import Tolerance, Tolerances

_BLOCK = 4096
_WORST_FRAMES = 10


@dataclass(frozen=True)
class Mismatch:
    """What cannot be compared, because one side has it not or has it in another shape."""

    session_id: str
    feature: str
    what: str


@dataclass(frozen=True)
class WorstRow:
    """A row of one array, by how many of its columns lie beyond their tolerance, then by the largest of them."""

    columns: int
    times_tolerance: float
    session_id: str
    array: str
    row: int
    time_s: float | None


@dataclass
class ColumnDifference:
    """One column over all sessions.

    Attributes:
        feature, array, column: which. The stories' features are called ``stories/…``; an array without columns gives
            its own name as the column's.
        tolerance: what was allowed.
        compared: values that both sides have.
        beyond: of these, how many lie further apart than the tolerance.
        one_sided: values that only one side has.
        largest, mean: of the absolute differences.
        worst: where the largest is: session and row; empty where there is none.
        worst_values: the values there, A's and B's.
    """

    feature: str
    array: str
    column: str
    tolerance: Tolerance
    compared: int = 0
    beyond: int = 0
    one_sided: int = 0
    largest: float = 0.0
    mean: float = 0.0
    worst: tuple[str, int] | tuple[()] = ()
    worst_values: tuple[float, float] = (0.0, 0.0)

    @property
    def same(self) -> bool:
        return not (self.beyond or self.one_sided)


@dataclass
class Comparison:
    """Everything that was found.

    Attributes:
        sessions: how many both stores have.
        mismatches: what only one has, or has in another shape.
        columns: in the order of the features.
        worst_rows: by feature, the rows to look at first.
    """

    sessions: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    columns: list[ColumnDifference] = field(default_factory=list)
    worst_rows: dict[str, list[WorstRow]] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether both have the same things, and everything within tolerance."""
        return not self.mismatches and all(column.same for column in self.columns)


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
        features: only these; all otherwise.
        progress: called with ``session/feature`` before each.

    Raises:
        StoreError: an array cannot be read.
    """
    of_a, of_b = _currents(a, features), _currents(b, features)
    both = {session for session, _ in of_a} & {session for session, _ in of_b}
    found = Comparison(sessions=len(both - {STORIES}))
    tallies: dict[tuple[str, str, int], _Tally] = {}
    for key in sorted({*of_a, *of_b}):
        session_id, feature = key
        progress(f"{session_id}/{feature}")
        if key not in of_a or key not in of_b:
            found.mismatches.append(Mismatch(session_id, feature, f"only in {'A' if key in of_a else 'B'}"))
            continue
        _compare_feature(_Pair(a, b, of_a[key], of_b[key]), tolerances, tallies, found)
    for tally in tallies.values():
        found.columns += tally.columns()
        found.worst_rows.setdefault(tally.feature, []).extend(tally.worst_rows)
    found.worst_rows = {
        feature: heapq.nlargest(_WORST_FRAMES, rows, key=lambda row: (row.columns, row.times_tolerance))
        for feature, rows in found.worst_rows.items()
        if rows
    }
    return found


@dataclass(frozen=True)
class _Pair:
    """The same feature of the same session in both stores."""

    a: FeatureStore
    b: FeatureStore
    of_a: Current
    of_b: Current

    @property
    def session_id(self) -> str:
        return self.of_a.session_id

    @property
    def feature(self) -> str:
        return self.of_a.feature

    @property
    def label(self) -> str:
        """The feature's name; the stories' features are others than the sessions' of the same name."""
        return f"{STORIES}/{self.feature}" if self.session_id == STORIES else self.feature

    def identical(self, array: str) -> bool:
        """Whether the array's files have the same content, as their checksums say."""
        return _digests(self.of_a, array) == _digests(self.of_b, array) != {}

    def read(self, array: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        def rows(store: FeatureStore) -> np.ndarray:
            values = store.read(self.session_id, self.feature, start, stop, array=array)
            return values.reshape(len(values), -1).astype(np.float64)

        return rows(self.a), rows(self.b)


def _currents(store: FeatureStore, features: tuple[str, ...] | None) -> Mapping[tuple[str, str], Current]:
    entries = catalogue.scan(store.storage)
    return {
        (entry.session_id, entry.feature): entry.current
        for entry in entries
        if entry.current and (features is None or entry.feature in features)
    }


def _digests(current: Current, array: str) -> dict[str, str]:
    chunks = f"{array}/c/"
    return {path: file.sha256 for path, file in current.files.items() if path.startswith(chunks)}


def _compare_feature(
    pair: _Pair, tolerances: Tolerances, tallies: dict[tuple[str, str, int], _Tally], found: Comparison
) -> None:
    session_id, feature = pair.session_id, pair.feature
    for array in dict.fromkeys([*pair.of_a.arrays, *pair.of_b.arrays]):
        if array not in pair.of_a.arrays or array not in pair.of_b.arrays:
            side = "A" if array in pair.of_a.arrays else "B"
            found.mismatches.append(Mismatch(session_id, feature, f"the array {array} is only in {side}"))
            continue
        shapes = pair.of_a.arrays[array].shape, pair.of_b.arrays[array].shape
        if shapes[0] != shapes[1]:
            what = f"{array} is {_shape(shapes[0])} in A and {_shape(shapes[1])} in B"
            found.mismatches.append(Mismatch(session_id, feature, what))
            continue
        width = int(np.prod(shapes[0][1:]))
        key = (pair.label, array, width)  # another width is another set of descriptors
        if key not in tallies:
            tallies[key] = _Tally.of(pair, array, tolerances)
        tallies[key].add(pair)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


@dataclass
class _Tally:
    """The differences of one array, gathered over sessions; all arrays of its own are (columns,)."""

    feature: str
    array: str
    names: list[str]
    tolerances: list[Tolerance]
    worst_rows: list[WorstRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.absolute = np.array([one.absolute for one in self.tolerances])
        self.relative = np.array([one.relative for one in self.tolerances])
        self.compared, self.beyond, self.one_sided, self.largest, self.total = np.zeros((5, len(self.names)))
        self.worst: list[tuple[str, int, float, float] | None] = [None] * len(self.names)

    @classmethod
    def of(cls, pair: _Pair, array: str, tolerances: Tolerances) -> _Tally:
        stored = pair.of_a.arrays[array]
        names = _column_names(pair, array)
        whole = np.dtype(stored.dtype).kind in "iub"
        allowed = [tolerances.of(pair.feature, array, name, whole=whole) for name in names]
        return cls(pair.label, array, names, allowed)

    def add(self, pair: _Pair) -> None:
        rows = pair.of_a.arrays[self.array].shape[0]
        if pair.identical(self.array):
            self.compared += rows  # gaps included: they are the same gaps
            return
        for start in range(0, rows, _BLOCK):
            stop = min(start + _BLOCK, rows)
            a, b = pair.read(self.array, start, stop)
            if pair.feature == "openface" and self.array == "values":
                _mask_unmeasured(pair, a, b, start, stop)
            self._add_block(pair, a, b, start)

    def _add_block(self, pair: _Pair, a: np.ndarray, b: np.ndarray, start: int) -> None:
        there_a, there_b = ~np.isnan(a), ~np.isnan(b)
        both = there_a & there_b
        with np.errstate(invalid="ignore"):
            apart = np.where(both & (a != b), np.abs(a - b), 0.0)
            allowed = self.absolute + self.relative * np.where(both, np.abs(a), 0.0)
        beyond = apart > allowed
        self.compared += both.sum(axis=0)
        self.one_sided += (there_a ^ there_b).sum(axis=0)
        self.beyond += beyond.sum(axis=0)
        self.total += apart.sum(axis=0)
        rows = apart.argmax(axis=0)
        block_largest = apart.max(axis=0)
        for column in np.flatnonzero(block_largest > self.largest).tolist():
            row = int(rows[column])
            self.worst[column] = (pair.session_id, start + row, float(a[row, column]), float(b[row, column]))
        self.largest = np.maximum(self.largest, block_largest)
        self._note_worst_rows(pair, apart, allowed, beyond | (there_a ^ there_b), start)

    def _note_worst_rows(
        self, pair: _Pair, apart: np.ndarray, allowed: np.ndarray, different: np.ndarray, start: int
    ) -> None:
        columns = different.sum(axis=1)
        for row in np.argsort(-columns, kind="stable")[:_WORST_FRAMES].tolist():
            if not columns[row]:
                break
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = np.nanmax(np.where(apart[row] > 0, apart[row] / allowed[row], 0.0))
            time = _time_of(pair, self.array, start + row)
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


def _mask_unmeasured(pair: _Pair, a: np.ndarray, b: np.ndarray, start: int, stop: int) -> None:
    """Rows without a face are no measurements: compared is only whether both have one (the array ``valid``)."""
    valid_a, valid_b = pair.read("valid", start, stop)
    tracked = (valid_a[:, 0] > 0) & (valid_b[:, 0] > 0)
    a[~tracked] = b[~tracked] = np.nan


def _column_names(pair: _Pair, array: str) -> list[str]:
    stored = pair.of_a.arrays[array]
    sizes = stored.shape[1:]
    if not sizes:
        return [array]
    spec = feature_spec(pair.session_id, pair.feature).arrays[array]
    stored_columns = _stored_columns(pair, array)
    axes = [[str(number) for number in range(size)] for size in sizes]
    if len(stored_columns) == sizes[-1]:
        axes[-1] = stored_columns
    if spec.joints and len(sizes) > 1 and len(spec.joints) == sizes[-2]:
        axes[-2] = list(spec.joints)
    prefix = [] if array in ("values", "per_frame") else [array]
    return [".".join([*prefix, *names]) for names in product(*axes)]


def _stored_columns(pair: _Pair, array: str) -> list[str]:
    attributes = pair.a.open_group(pair.session_id, pair.feature)[array].attrs
    return [str(name) for name in attributes.get("columns", ())]  # type: ignore[union-attr]


def _time_of(pair: _Pair, array: str, row: int) -> float | None:
    """When the row is, where it has a time of its own or is a frame's."""
    axis = feature_spec(pair.session_id, pair.feature).arrays[array].axis
    try:
        if axis == "frame":
            return float(pair.a.read(pair.session_id, "frames", row, row + 1, array="time")[0])
        name = {"audio_frame": "time", "word": "start", "utterance": "start"}.get(axis)
        return float(pair.a.read(pair.session_id, pair.feature, row, row + 1, array=name)[0]) if name else None
    except (StoreError, IndexError):
        return None  # no clock beside it: the row's number has to do
