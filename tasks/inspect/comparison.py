"""What a comparison of two feature stores finds: by column, by row, and what cannot be compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from tasks.extractors.base import Tolerance
from tasks.inspect.human import counted


class ComparisonError(ValueError):
    """What was asked for cannot be compared; the message says why."""


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


@dataclass(repr=False)
class Comparison:
    """Everything that was found.

    Attributes:
        sessions: how many both stores have.
        mismatches: what only one has, or has in another shape.
        columns: in the order of the features.
        worst_rows: by feature, the rows to look at first.
        unknown: features that no extractor here writes, so that nobody said how far they may lie apart: not at all.
    """

    sessions: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    columns: list[ColumnDifference] = field(default_factory=list)
    worst_rows: dict[str, list[WorstRow]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether both have the same things, and everything within tolerance."""
        return not self.mismatches and all(column.same for column in self.columns)

    def __repr__(self) -> str:
        different = sum(not column.same for column in self.columns)
        apart = f"{counted(different, 'column')} beyond tolerance, {len(self.mismatches)} not comparable"
        compared = f"{counted(self.sessions, 'session')} in both, {counted(len(self.columns), 'column')} compared"
        return f"{'the same' if self.same else apart}; {compared}"
