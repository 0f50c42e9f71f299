"""Choosing columns of a feature by their names (``AU12_r``) or by the name of a group of them (``gaze``)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storyframes.spec import FeatureSpec, shown_names


@dataclass(frozen=True)
class ChosenColumns:
    """Columns of an array, in the order they were asked for.

    Attributes:
        names: one for each column.
        pieces: where they are, neighbours together.
    """

    names: tuple[str, ...]
    pieces: tuple[slice, ...]


@dataclass(frozen=True)
class ColumnTable:
    """The columns of an array, and its groups of columns.

    Attributes:
        names: one for each column.
        groups: by name, which columns.
    """

    names: tuple[str, ...]
    groups: Mapping[str, slice] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ColumnTable({shown_names('', self.names)}{shown_names('; groups ', tuple(self.groups))})"

    def __contains__(self, name: object) -> bool:
        return name in self.groups or name in self.names

    def choose(self, wanted: Sequence[str] | None) -> ChosenColumns:
        """The columns and groups that ``wanted`` names; None is all columns.

        Raises:
            ValueError: there is no such column or group, one is named twice, or none is named.
        """
        if wanted is None:
            return ChosenColumns(self.names, (slice(0, len(self.names)),))
        pieces = [self._piece(name) for name in wanted]
        names = tuple(name for piece in pieces for name in self.names[piece])
        if not names:
            raise ValueError("columns is empty: name a column or a group, or leave it out for all columns")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"column {twice!r} is chosen twice by columns={list(wanted)}")
        return ChosenColumns(names, _joined(pieces))

    def _piece(self, name: str) -> slice:
        if name in self.groups:
            return self.groups[name]
        if name in self.names:
            place = self.names.index(name)
            return slice(place, place + 1)
        known = [*self.groups, *self.names]
        near = difflib.get_close_matches(name, known, n=3)
        raise ValueError(f"there is no column or group {name!r}; there are {', '.join(near or known[:12])}, …")


def _joined(pieces: Sequence[slice]) -> tuple[slice, ...]:
    joined = [pieces[0]]
    for piece in pieces[1:]:
        if piece.start == joined[-1].stop:
            joined[-1] = slice(joined[-1].start, piece.stop)
        else:
            joined.append(piece)
    return tuple(joined)


def side_by_side(specs: Sequence[FeatureSpec]) -> ColumnTable:
    """The columns of ``values`` of several features as one table, with the groups of each and each one's name."""
    names: list[str] = []
    groups: dict[str, slice] = {}
    for spec in specs:
        first = len(names)
        groups |= {name: slice(first + group.start, first + group.stop) for name, group in spec.groups.items()}
        groups[spec.name] = slice(first, first + len(spec.columns))
        names += spec.columns
    return ColumnTable(tuple(names), groups)
