"""The result of comparing two feature stores: differences by column and by row, and what cannot be compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from tasks.extractors.base import Tolerance
from tasks.inspect.formatting import counted


class ComparisonError(ValueError):
    """The request cannot be compared; the message says why."""


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
