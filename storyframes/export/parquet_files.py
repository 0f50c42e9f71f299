"""Tables as Parquet: a file for each, with units and caveats in its metadata."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from storyframes.store.explore import named_columns
from storyframes.store.tables import Block, Table


def write_parquet(table: Table, path: Path) -> None:
    """Write ``<path>.parquet``; a row group for each block, so that memory stays flat."""
    schema = arrow_schema(table)
    with pq.ParquetWriter(path.with_name(f"{path.name}.parquet"), schema, compression="zstd") as writer:
        for block in table.blocks():
            writer.write_table(arrow_table(table, block, schema))


def arrow_schema(table: Table) -> pa.Schema:
    """The columns of a table as Arrow has them; units and sentences are metadata of each."""
    empty = named_columns(table, table.read(0, 0))
    about = {key.name: (key.about, key.unit) for key in table.keys}
    about |= {column.name: (column.about, column.unit) for column in table.columns}
    fields = []
    for name, values in empty.items():
        dtype = pa.string() if values.dtype == object else pa.from_numpy_dtype(values.dtype)
        notes = {"about": about[name][0], "units": about[name][1]}
        fields.append(pa.field(name, dtype, metadata={key: text for key, text in notes.items() if text}))
    whole = {"session_id": table.session_id, "feature": table.feature, "row": str(table.axis), "caveats": table.caveats}
    return pa.schema(fields, {"storyframes": json.dumps(whole)})


def arrow_table(table: Table, block: Block, schema: pa.Schema) -> pa.Table:
    """Some rows of a table; NaN stays NaN, and is not made null."""
    columns = named_columns(table, block)
    arrays = [pa.array(columns[field.name], field.type, from_pandas=field.type == pa.string()) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
