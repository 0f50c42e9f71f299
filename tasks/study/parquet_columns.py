"""The columns of a Parquet table to which rows were added: of their own type, or of the next that holds all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tasks.study.rows import NUMBER_COLUMNS, as_words
from tasks.study.strict_tables import is_empty


def with_added_cells(schema: pa.Schema, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """A table of these columns, of which ``schema`` has some already.

    Args:
        schema: the types of the columns that were there; what pandas noted of them is left out, which counts rows.
        columns: their cells; what was there as it was there, what is new as text, None where there is nothing.
    """
    arrays, fields = [], []
    for name, cells in columns.items():
        known = schema.field(name) if name in schema.names else None
        array = _column(name, cells, known.type if known else pa.null())
        arrays.append(array)
        fields.append(known.with_type(array.type).with_nullable(True) if known else pa.field(name, array.type))
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key != b"pandas"}
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata or None))


def _column(name: str, cells: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        kind = pa.float64() if name in NUMBER_COLUMNS else pa.string()
    if _is_text(kind) or all(cell is None or not isinstance(cell, str) for cell in cells):
        return pa.array(cells, kind)
    cells = [None if is_empty(cell) else cell for cell in cells]
    for wanted, read in ((kind, int), (kind, float), (pa.float64(), float)):
        if (array := _as_numbers(name, cells, wanted, read)) is not None:
            return array
    return pa.array([None if cell is None else str(as_words(cell)) for cell in cells], pa.string())


def _as_numbers(
    name: str, cells: Sequence[Any], kind: pa.DataType, read: Callable[[Any], int | float]
) -> pa.Array | None:
    """The cells as numbers of this type; None where one would not be what it was."""
    try:
        array = pa.array([read(cell) if isinstance(cell, str) else cell for cell in cells], kind)
        stored = array.to_pylist()
        for cell, number in zip(cells, stored, strict=True):
            is_number = name in NUMBER_COLUMNS  # a label is its text: 007 is not 7
            if cell is not None and (number != float(cell) if is_number else as_words(number) != as_words(cell)):
                return None
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        return None
    return array


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
