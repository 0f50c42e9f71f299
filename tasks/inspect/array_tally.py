"""The differences of one array, added up over sessions and blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tasks.extractors.base import Tolerance
from tasks.inspect.comparison import ColumnDifference, WorstRow
from tasks.inspect.feature_pair import FeaturePair
from tasks.inspect.tolerances import Tolerances

_BLOCK = 4096
WORST_ROWS = 10


@dataclass
class ArrayTally:
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
    def of(cls, pair: FeaturePair, array: str, tolerances: Tolerances) -> ArrayTally:
        stored = pair.of_a.arrays[array]
        names = pair.columns(array)
        whole = np.dtype(stored.dtype).kind in "iub"
        allowed = [tolerances.of(pair.session_id, pair.feature, array, name, whole=whole) for name in names]
        return cls(pair.label, array, names, allowed)

    def add(self, pair: FeaturePair) -> None:
        rows = pair.of_a.arrays[self.array].shape[0]
        if pair.identical(self.array):
            self.compared += rows  # gaps included: they are the same gaps
            return
        for start in range(0, rows, _BLOCK):
            stop = min(start + _BLOCK, rows)
            a, b = pair.read(self.array, start, stop)
            self._add_block(pair, a, b, start)

    def _add_block(self, pair: FeaturePair, a: np.ndarray, b: np.ndarray, start: int) -> None:
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
