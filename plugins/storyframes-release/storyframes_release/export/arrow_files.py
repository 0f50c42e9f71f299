"""Tables as Parquet and CSV: one file for each, with one column for each value.

Parquet has units and caveats in its metadata. CSV has as many digits as give the same number back, and NaN and Inf as R
reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from storyframes.store import Table


def write_parquet(table: Table, path: Path) -> None:
    """Write ``<path>.parquet`` with a row group for each block, so that memory does not grow."""
    schema = arrow_schema(table)
    with pq.ParquetWriter(path.with_name(f"{path.name}.parquet"), schema, compression="zstd") as writer:
        for block in table.blocks():
            writer.write_table(arrow_table(table.named(block), schema))


def write_named_sessions(table: Table, path: Path) -> None:
    """Write ``<path>.parquet`` with ``session_id`` before the other columns: ``datasets`` joins all files."""
    schema = arrow_schema(table)
    session = pa.field("session_id", pa.string())
    with pq.ParquetWriter(
        path.with_name(f"{path.name}.parquet"), schema.insert(0, session), compression="zstd"
    ) as file:
        for block in table.blocks():
            rows = arrow_table(table.named(block), schema)
            file.write_table(rows.add_column(0, session, pa.repeat(table.session_id, len(rows))))


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table; units and descriptions are metadata of the columns."""
    empty = table.named(table.read(0, 0))
    about = {key.name: (key.about, key.unit) for key in table.keys}
    about |= {column.name: (column.about, column.unit) for column in table.columns}
    fields = []
    for name, values in empty.items():
        dtype = pa.string() if values.dtype == object else pa.from_numpy_dtype(values.dtype)
        notes = {"about": about[name][0], "units": about[name][1]}
        fields.append(pa.field(name, dtype, metadata={key: text for key, text in notes.items() if text}))
    whole = {"session_id": table.session_id, "feature": table.feature, "row": str(table.axis), "caveats": table.caveats}
    return pa.schema(fields, {"storyframes": json.dumps(whole)})


def arrow_table(columns: Mapping[str, np.ndarray], schema: pa.Schema) -> pa.Table:
    """Some rows of a table by their columns; NaN stays NaN and does not become null."""
    arrays = [pa.array(columns[field.name], field.type, from_pandas=field.type == pa.string()) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


# Texts are in quotes and stay as they are; Arrow writes nan and inf, which R does not read as numbers.
_QUOTED_OR_NOT_A_NUMBER = re.compile(rb'"(?:[^"]|"")*"|(?<![^,\n])-?(?:nan|inf)(?![^,\n])')
_AS_R_HAS_IT = {b"nan": b"NaN", b"-nan": b"NaN", b"inf": b"Inf", b"-inf": b"-Inf"}


def write_csv(table: Table, path: Path) -> None:
    """Write ``<path>.csv``: names in the first line, the mask as 1 and 0, texts in quotes."""
    schema = arrow_schema(table)
    with path.with_name(f"{path.name}.csv").open("wb") as file:
        for number, block in enumerate(table.blocks()):
            rows = arrow_table(table.named(block), schema)
            rows = rows.set_column(rows.column_names.index("mask"), "mask", rows["mask"].cast(pa.uint8()))
            lines = pa.BufferOutputStream()
            pyarrow.csv.write_csv(rows, lines, pyarrow.csv.WriteOptions(include_header=number == 0))
            file.write(_QUOTED_OR_NOT_A_NUMBER.sub(_replaced, lines.getvalue()))


def _replaced(match: re.Match[bytes]) -> bytes:
    return _AS_R_HAS_IT.get(match[0], match[0])
