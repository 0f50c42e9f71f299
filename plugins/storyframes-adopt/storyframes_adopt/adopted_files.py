"""What a file of features that another program made says: its columns, and when its rows are.

These are files of one session, tables of Parquet, CSV or NumPy; ``adopted_sequences`` reads those of many.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from storyframes import MAIN, ArraySpec, Axis, FeatureSpec
from storyframes.store import StoreError

ABOUT = "adopted from files that another program made"
MEASURED = "measured"
TIME_UNITS = {"s": (1, 1), "ms": (1, 1_000), "us": (1, 1_000_000), "min": (60, 1)}
"""By unit of times, seconds as a fraction."""
_LARGEST_WHOLE = 2**24  # float32 has every whole number up to this one
_OTHER_PICKLES = (".pt", ".pth", ".joblib")
MAY_LACK, MAY_LACK_S = 0.01, 1.0
"""The share of a recording, and the seconds, that may be without rows at its end where they come at a rate."""


class AdoptError(StoreError):
    """Files cannot be adopted; each line of the message says which, and why."""


@dataclass(frozen=True)
class Adoption:
    """How files become a feature. One of ``time``, ``rate`` and ``per_frame`` is given, or rows have intervals.

    Attributes:
        name: of the feature.
        about: one sentence on what it is, stored with it.
        time: the column with each row's time on the track's recording; increasing.
        unit: of these times, one of ``TIME_UNITS``; empty for seconds, where times that look like others are refused.
        rate: rows a second, the first at second 0.
        per_frame: there is a row for each frame of the track's video.
        array: of a pickle of MMSA's layout, which of its arrays.
        columns: of the values; empty for all others, which have to be numbers.
        mask: the column that is 1 in rows that are measurements and 0 in others; empty where every row with a value is.
        recipe: the name of the recipe that reads the files (:mod:`storyframes_adopt.recipes`); empty for none.
    """

    name: str
    about: str = ABOUT
    time: str = ""
    unit: str = ""
    rate: float | None = None
    per_frame: bool = False
    array: str = ""
    columns: tuple[str, ...] = ()
    mask: str = ""
    track: str = MAIN
    recipe: str = ""

    def spec(self, rows: Rows) -> FeatureSpec:
        """The specification of the feature that has these rows.

        Raises:
            AdoptError: the feature or a column cannot be called so.
        """
        axis = Axis.FRAME if self.per_frame else Axis.MOMENT
        about = "as in the file; NaN where it has none"
        arrays = {"values": ArraySpec(axis, "float32", about, (len(rows.columns),), ("column",), columns=rows.columns)}
        for name, what, times in (("time", "is", rows.time), ("end", "ends", rows.end)):
            if times is not None:
                told = f"when the row {what}, on the recording's clock, by its file"
                arrays[name] = ArraySpec(axis, "float64", told, units="s")
        arrays[MEASURED] = ArraySpec(axis, "uint8", "1 where the row is a measurement", fill=0)
        try:
            return FeatureSpec(self.name, self.about, arrays, mask=MEASURED)
        except ValueError as error:
            raise AdoptError(str(error)) from None


@dataclass(frozen=True)
class Rows:
    """The rows of a session.

    Attributes:
        values: (n, columns) float32.
        time: (n,) float64, seconds; None where there is a row for each frame.
        mask: (n,) uint8.
        end: (n,) float64, seconds, where rows have intervals that begin at ``time``; else None.
    """

    columns: tuple[str, ...]
    values: np.ndarray
    time: np.ndarray | None
    mask: np.ndarray
    end: np.ndarray | None = None


def read_file(file: Path, how: Adoption) -> Rows:
    """The rows of a file of one session.

    Raises:
        AdoptError: it cannot be read, or does not fit the options.
        OSError: the system cannot read it.
    """
    return rows_of(columns_of(file, has_times=how.time != ""), how)


def rows_of(
    table: Mapping[str, Any],
    how: Adoption,
    time: np.ndarray | None = None,
    *,
    end: np.ndarray | None = None,
    is_measured: np.ndarray | None = None,
) -> Rows:
    """The chosen columns of a table as rows.

    Args:
        time, end, is_measured: of its rows, where the file says them beside its columns.

    Raises:
        AdoptError: the table has no such columns, or they are no numbers that float32 holds.
    """
    chosen = {name: [column for column in table if _is_of(name, column, table)] for name in how.columns}
    for name in (how.time, how.mask, *how.columns):
        if name and not chosen.get(name, name in table):
            few = ", ".join([*table][:12])
            raise AdoptError(f"has no column {name!r}; it has {few}{', …' if len(table) > 12 else ''}")
    names = tuple(column for columns in chosen.values() for column in columns)
    names = names or tuple(name for name in table if name not in (how.time, how.mask))
    if not names or not len(table[names[0]]):
        raise AdoptError("has no rows, or no column of values")
    columns = [column_numbers(name, table[name], _LARGEST_WHOLE) for name in names]
    with np.errstate(over="ignore"):  # refused below
        values = np.stack(columns, axis=1).astype(np.float32)
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0].tolist()
        raise AdoptError(f"row {row + 1}: {names[column]!r} is {columns[column][row]:g}, which float32 does not hold")
    if how.time:
        seconds, units = TIME_UNITS[how.unit or "s"]
        time = column_numbers(how.time, table[how.time]) * seconds / units
    elif how.rate is not None and time is None:
        time = np.arange(len(values)) / how.rate
    is_measured = np.asarray((~np.isnan(values)).any(axis=1)) & (True if is_measured is None else is_measured)
    if how.mask:
        given = column_numbers(how.mask, table[how.mask])
        if wrong := np.flatnonzero(~np.isin(given, (0, 1))).tolist():
            raise AdoptError(f"row {wrong[0] + 1}: the mask {how.mask!r} is {given[wrong[0]]:g}, neither 0 nor 1")
        is_measured &= given == 1
    return Rows(names, values, time, is_measured.astype(np.uint8), end)


def _is_of(name: str, column: str, table: Collection[str]) -> bool:
    """Whether a column is the one of this name or, where there is none, an entry of its lists."""
    return column == name or (name not in table and re.fullmatch(rf"{re.escape(name)}_\d{{3,}}", column) is not None)


def columns_of(file: Path, *, has_times: bool) -> dict[str, Any]:
    """The columns of a file by name: Arrow's, or of a NumPy file by their numbers.

    Args:
        has_times: its rows say when they are; otherwise an empty line is a row, or those after it would be too early.
    """
    kind = file.suffix.lower()
    try:
        if kind == ".npy":
            array = np.load(file, allow_pickle=False)
            if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
                raise AdoptError(f"is {array.shape} {array.dtype}: it has to be numbers of the shape (rows, columns)")
            columns = [array] if array.ndim == 1 else array.T
            return {str(number): column for number, column in enumerate(columns)}
        if kind == ".parquet":
            table = pq.read_table(str(file), partitioning=None)
        elif kind in (".csv", ".tsv"):
            whole = pyarrow.csv.ReadOptions(block_size=min(file.stat().st_size + 1, 2**31 - 1))  # types are of all rows
            sign = pyarrow.csv.ParseOptions(delimiter="\t" if kind == ".tsv" else ",", ignore_empty_lines=has_times)
            table = pyarrow.csv.read_csv(str(file), read_options=whole, parse_options=sign)
        elif kind in _OTHER_PICKLES:
            raise AdoptError(
                "is a pickle, and opening one runs whatever its author wrote: in a Python that may, write each "
                "session's array with numpy.save('SESSION.npy', array), and adopt these"
            )
        else:
            raise AdoptError(f"is no .parquet, .csv, .tsv, .npy, .pkl or .csd but {kind or 'without an ending'}")
        names = [name.strip() for name in table.column_names]  # decoded here: of UTF-8, or it cannot be read
    except (pa.ArrowException, ValueError, EOFError, OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno:  # of the system; Arrow's own have no number
            raise
        why = ": ".join(str(error).splitlines()[0].split(": ")[:2])  # then Arrow quotes the row
        raise AdoptError(f"cannot be read ({why[:200]})") from None
    if len(names) == 1 and ";" in names[0]:
        raise AdoptError("has semicolons between its columns: save it with commas, and points in its numbers")
    if kind in (".csv", ".tsv") and _are_numbers(names):
        raise AdoptError("has no header, or one of numbers alone: its first line has to be the names of the columns")
    if twice := [name for name in names if names.count(name) > 1]:
        raise AdoptError(f"has two columns {twice[0]!r}")
    flattened: dict[str, Any] = {}
    for name, column in zip(names, table.columns, strict=True):
        flattened |= _flattened(name, column)
    return flattened


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether these are measurements, not names; 0, 1, 2, … are how pandas names columns without names."""
    given = [name for name in names if name]
    try:
        return bool([*map(float, given)]) and given != [str(number) for number in range(len(given))]
    except ValueError:
        return False


def _flattened(name: str, column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """A column, or one for each entry of lists of one length (embeddings): ``name_000``, ``name_001``, …"""
    if not pa.types.is_list(column.type) and not pa.types.is_fixed_size_list(column.type):
        return {name: column}
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise AdoptError(f"the lists in the column {name!r} are not of one length: {lengths[:5]}")
    return {f"{name}_{number:03d}": pc.list_element(column, number) for number in range(lengths[0])}


def column_numbers(name: str, column: Any, largest_whole: int = 2**53) -> np.ndarray:
    """(n,) float64; NaN where the file has no value."""
    is_whole = pa.types.is_integer(column.type) if isinstance(column, pa.ChunkedArray) else column.dtype.kind in "iu"
    if isinstance(column, pa.ChunkedArray):
        kind = column.type
        if pa.types.is_boolean(kind):
            column = column.cast(pa.int8())
        elif not any(is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)):
            raise AdoptError(f"the column {name!r} is {kind}, not numbers: name the columns of numbers by --columns")
        column = column.to_numpy() if column.null_count == 0 else column.cast(pa.float64(), safe=False).to_numpy()
    numbers = np.asarray(column, np.float64)
    if is_whole and (np.abs(numbers) > largest_whole).any():
        raise AdoptError(f"the column {name!r} has whole numbers above {largest_whole}, which are not stored exactly")
    return numbers
