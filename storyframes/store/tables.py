"""A feature of one session as tables: one for each kind of row that it has, with names, times and a mask.

The data frames of notebooks (:mod:`storyframes.store.feature_store`) and exported files (storyframes-release) are made
of these tables. Values are as they are stored; at a rate, those of the row that :mod:`storyframes.times`
finds, as in clips.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from storyframes.array_roles import (
    CLOCKS,
    END,
    FRAME_ROW,
    LEVEL,
    LOUDNESS,
    PER_FRAME,
    SPEAKER,
    START,
    Curve,
    MaskRule,
    loudness_db,
    mask_rule,
    value_names,
)
from storyframes.features import STORIES, column_unit
from storyframes.label_curves import mixed
from storyframes.mistakes import unknown
from storyframes.spec import MAIN_ARRAY, ArraySpec, Axis, FeatureSpec, feature_and_track
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.layout import StoreError
from storyframes.store.named.address import AddressError, Part, parse_address, part_of
from storyframes.store.session_times import SessionTimes

POINT, TIME, MASK, STORY_ID = "point", "time", "mask", "story_id"
DEVICE = "device_"
"""Prefix of ``time`` and ``end`` on the clock of the track's own device."""
BLOCK_BYTES = 16 * 2**20
"""Size of the blocks in which rows are read: memory does not grow with a session's length."""


class Key(NamedTuple):
    """A column of a table that says which row it is, or whether it is a measurement."""

    name: str
    about: str
    unit: str = ""


class Column(NamedTuple):
    """A column of values.

    Attributes:
        name: unique in the table.
        array: the feature's array.
        place: the position in the array's flattened row.
        fill: the value where none was measured.
    """

    name: str
    array: str
    place: int
    unit: str
    about: str
    fill: float | int


class Block(NamedTuple):
    """Some rows of a table.

    Attributes:
        keys: by name, (n,); times float64, the mask bool, names objects, row numbers int64.
        arrays: by name, (n, …) as the store has them, but float16 as float32.
    """

    keys: dict[str, np.ndarray]
    arrays: dict[str, np.ndarray]

    @property
    def flat(self) -> dict[str, np.ndarray]:
        """Each array as (n, values of a row)."""
        return {name: rows.reshape(len(rows), math.prod(rows.shape[1:])) for name, rows in self.arrays.items()}


@dataclass(frozen=True)
class Table:
    """All arrays of a feature with the same kind of row, as they are stored or at the points of a grid.

    Attributes:
        feature: as the store calls it: of another track, ``<feature>@<track>``.
        axis: the kind of row; on a grid, the kind of the stored rows that its points have.
        is_main: whether the feature's main array is in it.
        arrays: those that hold values, by name.
        rate: points a second; None for rows as they are stored.
        mask: the rule for which rows are measurements.
        part: what of the rows is in it, as its name says it after the feature's; empty for all.
        places: by array, the places in its flattened row of the columns that are in it, where not all are.
    """

    store: FeatureReader
    session_id: str
    feature: str
    axis: Axis
    is_main: bool
    arrays: Mapping[str, ArraySpec]
    rate: float | None
    mask: MaskRule
    times: SessionTimes
    part: str = field(default="", kw_only=True)
    places: Mapping[str, tuple[int, ...]] = field(default_factory=dict, kw_only=True)

    @property
    def name(self) -> str:
        """The feature; for all but its main table, with the kind of row: ``glove.frame``; of a part its name."""
        if self.part:
            return f"{self.feature}.{self.part}"
        return self.feature if self.is_main else f"{self.feature}.{self.axis}"

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._moments[next(iter(self._moments))]) if self._moments else self._stored_rows

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of values, in the arrays' order.

        A column has its own name (``AU12_r``), unless a key or an array has the same: then it is ``values.frame``.
        """
        feature, _ = feature_and_track(self.feature)
        names = {array: value_names(FeatureSpec(feature, "", {array: spec}), array)
                 for array, spec in self.arrays.items()}  # fmt: skip
        taken = {key.name for key in self.keys} | {array for array, of_array in names.items() if of_array == [array]}
        columns: list[Column] = []
        for array, spec in self.arrays.items():
            for place, name in enumerate(names[array]):
                is_free = name not in taken or (name == array and name not in {key.name for key in self.keys})
                shown = name if is_free else f"{array}.{name}"
                while not is_free and shown in taken:
                    shown = f"{array}.{shown}"
                taken.add(shown)
                unit = spec.units or self.unit(name)
                columns.append(Column(shown, array, place, unit, spec.about, spec.fill))
        return tuple(columns)

    def unit(self, column: str) -> str:
        """The unit of a column of an array whose columns have several; "" for none."""
        return column_unit(feature_and_track(self.feature)[0], column)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The columns before those of values."""
        of_track = feature_and_track(self.feature)[1]
        keys = [Key(str(self.axis), f"which {self.axis} of the feature it is, from 0")]
        if self.rate is not None:
            keys = [
                Key(POINT, f"which point of the grid it is, from 0; there are {self.rate:g} a second"),
                Key(TIME, "when the point is, in the session's seconds", "s"),
                Key(MASK, "whether there is a row near enough, and it is a measurement"),
                Key(str(self.axis), f"which {self.axis} of the feature stands there, from 0; -1 where none does"),
            ]
        else:
            for name in self._moments:
                own = f"as the device of the track {of_track!r} counts"
                whose = own if name.startswith(DEVICE) else "in the session's seconds"
                lasts = self.axis in FRAME_ROW or END in self.times.of_rows(self.feature, self.axis)
                begins = name.endswith(START) or (lasts and self.axis is not Axis.WINDOW)
                what = "ends" if name.endswith(END) else "begins" if begins else "is"
                keys.append(Key(name, f"when the row {what}, {whose}", "s"))
            keys.append(Key(MASK, "whether the row is a measurement"))
        if self._speakers is not None:
            keys.append(Key(SPEAKER, "who said it"))
        if self._story_ids is not None:
            keys.insert(0, Key(STORY_ID, "which story it is"))
        return tuple(keys)

    def blocks(self) -> Iterator[Block]:
        """All rows in blocks; one empty block for a table without rows.

        Raises:
            StoreError: they cannot be read.
        """
        width = sum(math.prod(spec.shape) * max(np.dtype(spec.dtype).itemsize, 4) for spec in self.arrays.values())
        size = max(1, BLOCK_BYTES // max(width, 8))
        for start in range(0, max(self.rows, 1), size):
            yield self.read(start, min(start + size, self.rows))

    def named(self, block: Block) -> dict[str, np.ndarray]:
        """Each column of a block of the table as (n,): the keys, then the values."""
        flat = block.flat
        values = {column.name: np.ascontiguousarray(flat[column.array][:, column.place]) for column in self.columns}
        return block.keys | values

    def read(self, start: int, stop: int) -> Block:
        """Rows ``start`` to ``stop`` (exclusive), which have to exist.

        Raises:
            StoreError: they cannot be read.
        """
        rows = self._row_numbers[start:stop]
        taken: dict[str, np.ndarray] = {}

        def take(array: str) -> np.ndarray:
            if array not in taken:
                taken[array] = self._take(array, rows)
                if self._next_rows is not None:
                    next_rows, share = (column[start:stop] for column in self._next_rows)
                    taken[array] = mixed(taken[array], self._take(array, next_rows), share)
            return taken[array]

        mask = np.array(np.broadcast_to(self.mask.of(take), rows.shape)) & (rows >= 0)
        keys: dict[str, np.ndarray] = {}
        for key in self.keys:
            if key.name == MASK:
                keys[MASK] = mask
            elif key.name == POINT:
                keys[POINT] = np.arange(start, stop)
            elif key.name == str(self.axis):
                keys[key.name] = rows
            elif key.name == SPEAKER:
                keys[SPEAKER] = self._speaker_names(rows)
            elif key.name == STORY_ID:
                keys[key.name] = np.array(self._story_ids, object)[start:stop]
            else:
                keys[key.name] = self._moments[key.name][start:stop]
        return Block(keys, {name: _widened(self.chosen(name, take(name))) for name in self.arrays})

    def chosen(self, array: str, rows: np.ndarray) -> np.ndarray:
        """The chosen columns of rows of an array, as :attr:`arrays` describes them."""
        if array not in self.places:
            return rows
        return rows.reshape(len(rows), math.prod(rows.shape[1:]))[:, list(self.places[array])]

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the feature's group."""
        return self.store.attributes(self.session_id, self.feature)

    @property
    def caveats(self) -> list[str]:
        """What users of the values have to know."""
        return list(self.attributes.get("stamps", []))

    @cached_property
    def _stored_rows(self) -> int:
        spec = self.store.spec(self.session_id, self.feature)
        name = next(name for name, array in spec.arrays.items() if array.axis is self.axis)
        return self.store.describe(self.session_id, self.feature, name).shape[0]

    @cached_property
    def _moments(self) -> dict[str, np.ndarray]:
        """(rows,) float64 of each time, by the key's name; empty where the rows have no times."""
        if self.rate is not None:
            return {TIME: self.times.points(self.rate) / 1e6}
        device = self.times.of_rows(self.feature, self.axis)
        clock = self.times.clock(self.feature)
        if clock is not None:
            own = {name: clock.to_session(self.session_id, seconds) for name, seconds in device.items()}
            if feature_and_track(self.feature)[0] == self.feature:
                return own
            return own | {f"{DEVICE}{name}": seconds for name, seconds in device.items()}
        return {f"{DEVICE}{name}": seconds for name, seconds in device.items()}

    @cached_property
    def _row_numbers(self) -> np.ndarray:
        """(rows,) int64: the stored row of each row, -1 for none."""
        if self.rate is None:
            return np.arange(self.rows)
        return self.times.rows_at(self.feature, self.axis, self.rate)

    @cached_property
    def _next_rows(self) -> tuple[np.ndarray, np.ndarray] | None:
        """For a curve that is linear between its moments, the row after each point, and how far the point is to it."""
        return None if self.rate is None else self.times.next_rows_at(self.feature, self.axis, self.rate)

    @cached_property
    def _speakers(self) -> list[str] | None:
        """The names that the array ``speaker`` points into; None where the feature's rows have no speakers."""
        array = self.store.spec(self.session_id, self.feature).arrays.get(SPEAKER)
        names = self.attributes.get("speakers")
        return names if array is not None and array.axis is self.axis and isinstance(names, list) else None

    @cached_property
    def _story_ids(self) -> list[str] | None:
        is_of_stories = self.session_id == STORIES and self.axis is Axis.STORY
        return list(self.attributes["story_ids"]) if is_of_stories and "story_ids" in self.attributes else None

    def _speaker_names(self, rows: np.ndarray) -> np.ndarray:
        assert self._speakers is not None
        numbers = self._take(SPEAKER, rows)
        if len(numbers) and numbers.max() >= len(self._speakers):
            raise StoreError(
                f"{self.session_id}/{self.feature}/{SPEAKER} points to the speaker {numbers.max()}, but the attribute "
                f"'speakers' names {len(self._speakers)}: extract it again"
            )
        names = np.array([*self._speakers, None], object)
        return names[np.where((numbers < 0) | (rows < 0), len(self._speakers), numbers)]

    def _take(self, array: str, rows: np.ndarray) -> np.ndarray:
        """The values of an array in these rows; its fill value where the row is -1."""
        spec = self.store.spec(self.session_id, self.feature).arrays[array]
        exists = rows >= 0
        if not exists.any():
            return np.full((len(rows), *spec.shape), spec.fill, spec.dtype)
        first, last = int(rows[exists].min()), int(rows[exists].max())
        stored = self.store.view(self.session_id, self.feature, first, last + 1, array=array)
        if len(stored) == len(rows) and exists.all() and (rows == np.arange(first, last + 1)).all():
            return stored
        values = stored[np.where(exists, rows - first, 0)]
        values[~exists] = spec.fill
        return values


def tables_of(
    store: FeatureReader,
    session_id: str,
    feature: str,
    rate: float | None = None,
    times: SessionTimes | None = None,
    *,
    part: str = "",
) -> list[Table]:
    """The tables of a feature of a session, that of its main array first; on a grid those whose rows have times.

    Args:
        session_id: the session, or ``stories``.
        feature: as the store calls it.
        part: the part of the feature that is wanted (:mod:`storyframes.store.named.address`); empty for all.
        rate: points a second of a grid that begins with the session; None takes the rows as they are stored.
        times: of the session, where several features of it are read.

    Raises:
        StoreError: the store has no such session or feature; or its rows have no times, and cannot be put on a grid.
    """
    spec = store.spec(session_id, feature)
    times = times or SessionTimes(store, session_id)
    main = spec.arrays[MAIN_ARRAY if MAIN_ARRAY in spec.arrays else next(iter(spec.arrays))].axis
    axes = list(dict.fromkeys([main, *(array.axis for array in spec.arrays.values())]))
    tables = [_table(store, session_id, feature, spec, axis, axis is main, rate, times) for axis in axes]
    if part:
        tables = _narrowed(tables, part_of(spec, part), part)
    if rate is None:
        return tables
    if not times.can_be_on_a_grid(feature, main):
        raise StoreError(
            f"{session_id}/{feature} has a row for each {main}, and these rows have no times, so they cannot be "
            "put on a grid; take the rows as they are stored, without a rate"
        )
    return [table for table in tables if times.can_be_on_a_grid(feature, table.axis)]


def _narrowed(tables: Sequence[Table], part: Part, name: str) -> list[Table]:
    """The table with the rows of a part, and only its arrays and columns; times are the index only."""
    (table,) = [table for table in tables if part.rows == str(table.axis)]
    arrays = {array: part.of_array(spec) for array, spec in table.arrays.items() if array in part.arrays}
    places = dict.fromkeys(arrays, part.places) if part.places else {}
    return [replace(table, arrays=arrays if part.arrays else table.arrays, places=places, part=name)]


def chosen_tables(
    store: FeatureReader, session_id: str, name: str, rows: str | None = None, rate: float | None = None
) -> list[Table]:
    """A table of each feature that a name selects (:mod:`storyframes.store.named.address`), usually one.

    Args:
        rows: the kind of row; None takes that of the feature's main array, or of the part.

    Raises:
        StoreError: there is no such feature, part or kind of row, or features side by side have other rows; or as
            :func:`tables_of`.
    """
    chosen = []
    times = SessionTimes(store, session_id)
    for feature, part in store.locate(session_id, name):
        tables = tables_of(store, session_id, feature, rate, times, part=part.name)
        matches = [table for table in tables if rows in (None, str(table.axis))]
        if not matches:
            kinds = [str(table.axis) for table in tables]
            raise AddressError(
                unknown(f"{session_id}/{feature}", "row for each", rows, kinds, so="it has one for each")
            )
        chosen.append(matches[0])
    if len({table.rows for table in chosen}) > 1:
        lengths = " and ".join(f"{table.rows} of {table.feature}" for table in chosen)
        raise StoreError(f"{session_id}/{name} has {lengths} rows: extract them again")
    return chosen


def _table(
    store: FeatureReader,
    session_id: str,
    feature: str,
    spec: FeatureSpec,
    axis: Axis,
    is_main: bool,
    rate: float | None,
    times: SessionTimes,
) -> Table:
    clocks = {*CLOCKS[axis], END} if axis in CLOCKS else set()
    if times.is_clock(feature):
        clocks = {TIME}
    arrays = {name: array for name, array in spec.arrays.items() if array.axis is axis and name not in clocks}
    if isinstance(store.attributes(session_id, feature).get("speakers"), list):
        arrays.pop(SPEAKER, None)
    main = next((name for name in (MAIN_ARRAY, PER_FRAME) if name in arrays), None)
    judged = [main] if main else [name for name in arrays if name != spec.mask]
    mask = mask_rule(spec, judged or [spec.mask]) if arrays else MaskRule("")
    return Table(store, session_id, feature, axis, is_main, arrays, rate, mask, times)


def _widened(rows: np.ndarray) -> np.ndarray:
    """float16 as float32, exactly: few programs read the former."""
    return rows.astype(np.float32) if rows.dtype == np.float16 else rows


def find_curves(
    store: FeatureReader, session_id: str, features: Iterable[str], names: Sequence[str], times: SessionTimes
) -> list[Curve]:
    """Columns by name: of whichever feature has them, or by their address; see :meth:`SessionView.plot`.

    Raises:
        ValueError: a name is that of no column, or of several features' columns, or its rows have no times.
        StoreError: a feature cannot be read.
    """
    tables = {feature: tables_of(store, session_id, feature, times=times)[0] for feature in features}
    columns = [(table, column) for table in tables.values() for column in table.columns]
    curves = []
    for name in names:
        matches = [(table, column) for table, column in columns if column.name == name]
        if not matches and name == LOUDNESS and name not in tables:
            matches = [(table, column) for table, column in columns if column.name == LEVEL]
        if len(matches) > 1:
            one, other = (f"{table.feature}.{column.name}" for table, column in matches[:2])
            raise ValueError(f"{name!r} is in {len(matches)} features: say {one!r} or {other!r}")
        if not matches and not {*parse_address(name, tables).stored} <= {*tables}:
            every = [*tables, *(column.name for _, column in columns)]
            raise AddressError(unknown(session_id, "feature or column", name, every))
        chosen = [] if matches else chosen_tables(store, session_id, name)
        matches = matches or [(table, column) for table in chosen for column in table.columns]
        curves += [_curve(table, column, name if len(matches) == 1 else column.name) for table, column in matches]
    return curves


def _curve(table: Table, column: Column, name: str) -> Curve:
    if TIME not in {key.name for key in table.keys}:
        raise ValueError(f"{name!r}: the store does not know when the rows of {table.feature} are in the session")
    blocks = list(replace(table, arrays={column.array: table.arrays[column.array]}).blocks())
    stored = np.concatenate([block.flat[column.array][:, column.place].astype(np.float64) for block in blocks])
    values = np.where(np.concatenate([block.keys[MASK] for block in blocks]), stored, np.nan)
    time = np.concatenate([block.keys[TIME] for block in blocks])
    if name == LOUDNESS and column.name == LEVEL:
        return Curve(name, "dB", time, loudness_db(values))
    return Curve(name, column.unit, time, values)
