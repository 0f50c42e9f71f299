"""Tables as data frames of pandas and of polars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from storyframes.store.tables import DEVICE, STORY_ID, TIME, Block, Table

if TYPE_CHECKING:
    import polars as pl

INDICES = (TIME, f"{DEVICE}{TIME}", STORY_ID)
"""The key that is a data frame's index: the first of these that the table has."""


def pandas_frame(table: Table) -> pd.DataFrame:
    """All rows of a table, the times as its index; ``attrs`` has the caveats, and the units of columns that have one.

    Raises:
        StoreError: they cannot be read.
    """
    block = table.read(0, table.rows)
    parts = [pd.DataFrame({name: pd.Series(values) for name, values in block.keys.items()})]
    for array, flat in flat_arrays(block).items():
        parts.append(pd.DataFrame(flat, columns=[column.name for column in table.columns if column.array == array]))
    frame = pd.concat(parts, axis=1)
    index = next((name for name in INDICES if name in block.keys), None)
    frame = frame if index is None else frame.set_index(index)
    frame.attrs = {
        "session_id": table.session_id,
        "feature": table.feature,
        "caveats": table.caveats,
        "units": {column.name: column.unit for column in table.columns if column.unit},
    }
    return frame


def polars_frame(table: Table) -> pl.DataFrame:
    """The same for polars, without an index.

    Raises:
        StoreError: they cannot be read.
        ModuleNotFoundError: polars is not installed.
    """
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise ModuleNotFoundError("to_polars needs polars: pip install 'storyframes[export]'", name="polars") from None
    columns = named_columns(table, table.read(0, table.rows))
    texts = {name for name, values in columns.items() if values.dtype == object}
    return pl.DataFrame(
        [pl.Series(name, values, pl.String if name in texts else None) for name, values in columns.items()]
    )


def flat_arrays(block: Block) -> dict[str, np.ndarray]:
    """(n, values of a row) of each array of a block."""
    return {name: rows.reshape(len(rows), math.prod(rows.shape[1:])) for name, rows in block.arrays.items()}


def named_columns(table: Table, block: Block) -> dict[str, np.ndarray]:
    """(n,) of each column of a block of a table: the keys, then the values."""
    flat = flat_arrays(block)
    values = {column.name: np.ascontiguousarray(flat[column.array][:, column.place]) for column in table.columns}
    return block.keys | values
