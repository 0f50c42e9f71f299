"""What a name selects of a session, to be read by rows, and tables as data frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from storyframes.array_roles import column_names
from storyframes.installation import install_line
from storyframes.mistakes import explained, no_attribute
from storyframes.spec import MAIN_ARRAY
from storyframes.store import tables
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.layout import StoreError
from storyframes.store.named.address import AddressError, Part
from storyframes.store.session_times import SessionTimes

if TYPE_CHECKING:
    import polars as pl
    import xarray

INDICES = (tables.TIME, f"{tables.DEVICE}{tables.TIME}", tables.STORY_ID)
"""The key that is a data frame's index: the first of these that the table has."""
_INSTEAD = {
    "values": "[:] for the numbers, or .to_pandas()",
    "iloc": "[0:120] for rows by number",
    "loc": ".between(3.0, 5.0) for rows by time",
    "plot": "session.plot('openface', ['AU12_r'])",
}


class Selection:
    """What a name selects of a session, as ``session["openface.gaze"]`` gives it. Nothing is read before it is needed.

    A slice gives the stored numbers of rows, as :meth:`FeatureStore.read` does: also those of rows that are not
    measurements, which :attr:`mask` tells. It follows numpy: negative numbers count from the end, and a slice may be
    longer than the rows are. One column is (n,), several are (n, columns).

    Example:
        >>> from storyframes import FeatureStore
        >>> gaze = FeatureStore("STORE")["s00"]["openface.gaze"]
        >>> gaze.shape, gaze[0:120].shape, gaze[-1].shape, gaze.columns[-1]
        ((240, 8), (120, 8), (8,), 'gaze_angle_y')
        >>> some = gaze.between(3.0, 5.0)  # the rows of a clip with these seconds: 3.0 and later, before 5.0
        >>> len(some), len(some.to_pandas())
        (30, 30)
        >>> gaze[gaze.mask].shape == (gaze.mask.sum(), 8)  # only measurements
        True
    """

    def __init__(
        self,
        store: FeatureReader,
        session_id: str,
        name: str,
        frame: Callable[[str, int, int | None], pd.DataFrame],
        rows: np.ndarray | None = None,
    ) -> None:
        """Choose rows of a session.

        Args:
            frame: makes the data frame of a name's rows, from the first to the one before the last.
            rows: (n,) the numbers of the chosen rows; None chooses all.
        """
        self.store, self.session_id, self.name = store, session_id, name
        self._frame, self._chosen = frame, rows
        self._tables = tables.chosen_tables(store, session_id, name)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{array}: {spec!r}" for table in self._tables for array, spec in table.arrays.items())
        return f"{self.session_id}/{self.name}: {len(self)} rows; {arrays}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, _INSTEAD)

    def __bool__(self) -> bool:
        """True, also of a selection without rows."""
        return True

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its numbers."""
        return (len(self), *self[:0].shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """The type of its numbers, as they are stored."""
        return self[:0].dtype

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns; empty where they have none."""
        columns: list[str] = []
        for table in self._tables:
            array = MAIN_ARRAY if MAIN_ARRAY in table.arrays else next(iter(table.arrays), "")
            if array and (table.arrays[array].columns or table.arrays[array].joints):
                columns += column_names(table.arrays[array])
        return tuple(columns)

    @property
    def time(self) -> np.ndarray:
        """(n,) float64: when each row is, or begins, in seconds of the session.

        Raises:
            StoreError: the store does not know it.
        """
        if tables.TIME not in self._keys:
            raise StoreError(f"{self.session_id}/{self.name}: the store does not know when its rows are in the session")
        return self._keys[tables.TIME][self._rows]

    @property
    def mask(self) -> np.ndarray:
        """(n,) bool: which rows are measurements."""
        return self._keys[tables.MASK][self._rows]

    def __getitem__(self, key: Any) -> Any:
        """Rows by number as an array; or, by a name, a part of this as a selection.

        Raises:
            AddressError: there is no such part, or it is of several arrays, or of other rows than those chosen.
            IndexError: there is no such row.
        """
        if isinstance(key, str):
            table, name = self._tables[0], f"{self.name}.{key}"
            if len(self._tables) == len(table.arrays) == 1 and key in self.columns:
                name = f"{table.feature}.{next(iter(table.arrays))}.{key}"
            part = Selection(self.store, self.session_id, name, self._frame, self._chosen)
            if self._chosen is not None and part._tables[0].axis is not table.axis:
                raise AddressError(
                    f"{self.session_id}/{name} has a row for each {part._tables[0].axis}, and the rows that are chosen "
                    f"are of each {table.axis}: choose {name!r} of the session first, then its rows"
                )
            return part
        if isinstance(key, tuple) and not isinstance(next(iter(key), None), slice | int | np.integer):
            return self[:][key]  # lists of places in several dimensions, or [..., 0]
        key, *others = key if isinstance(key, tuple) else (key,)
        try:
            rows = self._rows[key]
        except IndexError:
            raise IndexError(
                f"{self.session_id}/{self.name}: there are rows 0 to {len(self)}, and {key!r} is none of them; write "
                "[0:120] for rows, ['gaze'] for a part, .between(3.0, 5.0) for seconds"
            ) from None
        values = self._read(np.atleast_1d(rows))
        if not np.ndim(rows):
            values = values[0]
            return values[tuple(others)] if others else values
        return values[(slice(None), *others)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self[:]
        return values if dtype is None else values.astype(dtype)

    @explained("session['openface'].between(3.0, 5.0), in seconds of the session")
    def between(self, start_s: float, stop_s: float) -> Selection:
        """The rows that a clip with these seconds of the session has.

        Frames, sound, moments and words belong to it that begin at ``start_s`` or later and before ``stop_s``;
        utterances that overlap it; windows that lie in it (a clip also has those that lie in it to a frame).

        Raises:
            StoreError: the rows have no times, or the clock of the track is not known.
            ValueError: the seconds are not numbers in their order.
        """
        if not (isinstance(start_s, Real) and isinstance(stop_s, Real) and start_s <= stop_s):
            raise ValueError(f"between({start_s!r}, {stop_s!r}): give two numbers of seconds, the earlier one first")
        table = self._tables[0]
        times = SessionTimes(self.store, self.session_id)
        rows = times.rows_between(table.feature, table.axis, start_s, stop_s)
        chosen = self._rows[np.isin(self._rows, rows)]
        return Selection(self.store, self.session_id, self.name, self._frame, chosen)

    def to_pandas(self) -> pd.DataFrame:
        """Its rows as a data frame, see :meth:`SessionView.to_pandas`."""
        first, stop = self._span(self._rows)
        return self._frame(self.name, first, stop).iloc[self._rows - first]

    def to_xarray(self) -> xarray.DataArray:
        """Its rows for xarray, with their times (where they are known), their mask and the names of columns.

        Raises:
            AddressError: it is of several arrays.
            ModuleNotFoundError: xarray is not installed.
        """
        xarray = import_xarray()
        values, table = self[:], self._tables[0]
        axis = str(table.axis)
        dims = [axis, *(f"dim_{number}" for number in range(1, values.ndim))]
        coordinates: dict[str, Any] = {tables.MASK: (axis, self.mask), "row": (axis, self._rows)}
        if any(key.name == tables.TIME for key in table.keys):
            coordinates[tables.TIME] = (axis, self.time)
        if values.ndim == 2:
            dims[1] = "column"
            coordinates |= {"column": list(self.columns)} if self.columns else {}
        attributes = {"session_id": self.session_id, "caveats": _caveats(self._tables)}
        return xarray.DataArray(values, coordinates, dims, self.name, attributes)

    @cached_property
    def _rows(self) -> np.ndarray:
        return np.arange(self._tables[0].rows) if self._chosen is None else self._chosen

    @staticmethod
    def _span(rows: np.ndarray) -> tuple[int, int]:
        return (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)

    def _read(self, rows: np.ndarray) -> np.ndarray:
        first, stop = self._span(rows)
        return self.store.read(self.session_id, self.name, first, stop, array=self._array)[rows - first]

    @cached_property
    def _array(self) -> str:
        """The array, where the name is that of a whole feature."""
        if not self.store.has(self.session_id, self.name):
            return MAIN_ARRAY
        return self.store.array_of(self.session_id, self.name, Part())

    @cached_property
    def _keys(self) -> dict[str, np.ndarray]:
        """The times of all rows, and which of them are measurements."""
        table = replace(self._tables[0], arrays={})
        return table.read(0, table.rows).keys


def import_xarray() -> Any:
    """xarray; where it is not installed, an error with the line that installs it."""
    try:
        import xarray
    except ModuleNotFoundError as error:
        if error.name != "xarray":
            raise
        raise ModuleNotFoundError(f"to_xarray needs xarray: {install_line('explore')}", name="xarray") from None
    return xarray


def _caveats(chosen: Sequence[tables.Table]) -> list[str]:
    return list(dict.fromkeys(caveat for table in chosen for caveat in table.caveats))


def pandas_frame(chosen: Sequence[tables.Table], start: int = 0, stop: int | None = None) -> pd.DataFrame:
    """Rows of tables side by side, with the times as index; ``attrs`` has the caveats, and the units of columns.

    The keys, as the mask, are those of the first table.

    Raises:
        StoreError: they cannot be read.
    """
    table = chosen[0]
    stop = table.rows if stop is None else stop
    blocks = [table.read(start, stop) for table in chosen]
    parts = [pd.DataFrame({name: pd.Series(values) for name, values in blocks[0].keys.items()})]
    for of, block in zip(chosen, blocks, strict=True):
        for array, flat in block.flat.items():
            parts.append(pd.DataFrame(flat, columns=[column.name for column in of.columns if column.array == array]))
    frame = pd.concat(parts, axis=1)
    index = next((name for name in INDICES if name in blocks[0].keys), None)
    frame = frame if index is None else frame.set_index(index)
    frame.attrs = {
        "session_id": table.session_id,
        "feature": " and ".join(of.feature for of in chosen),
        "caveats": _caveats(chosen),
        "units": {column.name: column.unit for of in chosen for column in of.columns if column.unit},
    }
    return frame


def polars_frame(chosen: Sequence[tables.Table]) -> pl.DataFrame:
    """The same for polars, without an index.

    Raises:
        StoreError: they cannot be read.
        ModuleNotFoundError: polars is not installed.
    """
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"to_polars needs polars: {install_line('explore')}", name="polars") from None
    columns = {
        name: values
        for table in reversed(chosen)  # the keys are those of the first
        for name, values in table.named(table.read(0, table.rows)).items()
    }
    columns = {name: columns[name] for name in dict.fromkeys([key.name for key in chosen[0].keys]) | columns}
    texts = {name for name, values in columns.items() if values.dtype == object}
    return pl.DataFrame(
        [pl.Series(name, values, pl.String if name in texts else None) for name, values in columns.items()]
    )
