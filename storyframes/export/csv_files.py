"""Tables as CSV: a file for each; as many digits as bring the same number back, NaN and Inf as R has them."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from storyframes.export.parquet_files import arrow_schema, arrow_table
from storyframes.store.tables import MASK, Table

# A text stands in quotes and is left as it is; Arrow writes nan and inf, which R does not take for numbers.
_QUOTED_OR_NOT_A_NUMBER = re.compile(rb'"(?:[^"]|"")*"|(?<![^,\n])-?(?:nan|inf)(?![^,\n])')
_AS_R_HAS_IT = {b"nan": b"NaN", b"-nan": b"NaN", b"inf": b"Inf", b"-inf": b"-Inf"}


def write_csv(table: Table, path: Path) -> None:
    """Write ``<path>.csv``: names in the first line, the mask as 1 and 0, texts in quotes."""
    schema = arrow_schema(table)
    with path.with_name(f"{path.name}.csv").open("wb") as file:
        for number, block in enumerate(table.blocks()):
            rows = arrow_table(table, block, schema)
            rows = rows.set_column(rows.column_names.index(MASK), MASK, rows[MASK].cast(pa.uint8()))
            lines = pa.BufferOutputStream()
            pyarrow.csv.write_csv(rows, lines, pyarrow.csv.WriteOptions(include_header=number == 0))
            file.write(_QUOTED_OR_NOT_A_NUMBER.sub(_replaced, lines.getvalue()))


def _replaced(found: re.Match[bytes]) -> bytes:
    return _AS_R_HAS_IT.get(found[0], found[0])
