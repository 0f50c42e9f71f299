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
    """One column over all sessions.

    Attributes:
        feature: of stories, ``stories/…``.
        column: of an array without columns, the array's name.
        compared: values that both stores have.
        beyond: values of these that differ by more than the tolerance.
        one_sided: values that only one store has.
        largest, mean: absolute differences.
        worst: session and row of the largest difference; empty where all are equal.
        worst_values: its values, A's and B's.
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
    """All differences of two stores.

    Attributes:
        sessions: how many both stores have.
        mismatches: what cannot be compared.
        columns: in the order of the features.
        worst_rows: by feature, the rows to look at first.
        unknown: features without a declared tolerance, because no extractor for them is installed: they must be equal.
    """

    sessions: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    columns: list[ColumnDifference] = field(default_factory=list)
    worst_rows: dict[str, list[WorstRow]] = field(default_factory=dict)
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
