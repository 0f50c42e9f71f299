"""Changing a study's tables: made anew with everything else as it was, checked, and put in place in one step."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storyframes.store.storage.durable import write_atomically
from tasks.study.load import read_study
from tasks.study.parquet_columns import with_added_cells
from tasks.study.problems import Problem
from tasks.study.rows import TABLES
from tasks.study.strict_tables import is_pandas_index, read_table

_UNNAMED = "\n"  # begins what columns without a name are called here: no name has it


class TableChangeError(Exception):
    """The table cannot be changed as it is; the message names it and says what to do."""


@dataclass
class ChangedTable:
    """A table as it stands in its file, to be changed.

    Attributes:
        table: its name.
        columns: as the file has them, those without a name numbered; of a table that is not there yet none.
        rows: the cells of each row; text, and in Parquet what the file has.
        schema: of a Parquet file; None of a CSV file, and of a table that is not there yet.
    """

    table: str
    columns: list[str]
    rows: list[dict[str, Any]]
    schema: pa.Schema | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.table}.csv" if self.schema is None else f"{self.table}.parquet"

    def add(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Put rows behind the others; columns that the file does not have come last, in the specification's order."""
        order = [name for name in TABLES[self.table].model_fields if any(name in row for row in rows)]
        self.columns += [name for name in order if name not in self.columns]
        self.rows += [dict(row) for row in rows]

    def content(self) -> bytes:
        """The file."""
        if self.schema is not None:
            return self._as_parquet(self.schema)
        written = io.StringIO(newline="")
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow(_unnumbered(self.columns))
        writer.writerows([row.get(name, "") for name in self.columns] for row in self.rows)
        return written.getvalue().encode()

    def _as_parquet(self, schema: pa.Schema) -> bytes:
        cells = {name: [row.get(name) for row in self.rows] for name in self.columns}
        named = with_added_cells(schema, cells)
        written = io.BytesIO()
        pq.write_table(named.rename_columns(_unnumbered(named.column_names)), written)
        return written.getvalue()


def _numbered(columns: Sequence[str]) -> list[str]:
    return [name or f"{_UNNAMED}{place}" for place, name in enumerate(columns)]


def _unnumbered(columns: Sequence[str]) -> list[str]:
    return ["" if name.startswith(_UNNAMED) else name for name in columns]


def open_table(root: Path, table: str) -> ChangedTable:
    """The table of the study at ``root``, empty where there is none.

    Raises:
        TableChangeError: it is a link, or not as a table should be.
    """
    path = root / f"{table}.parquet"
    is_parquet = os.path.lexists(path)
    if not is_parquet:
        path = root / f"{table}.csv"
    if path.is_symlink():
        raise TableChangeError(f"{path.name}: is a link, which would be replaced by a file: make it one")
    if not path.exists():
        return ChangedTable(table, [], [])
    there = read_table(path)
    if there.faults or there.remarks:
        fault = there.faults[0].rule if there.faults else there.remarks[0]
        cure = "mend it" if there.faults else "save it as CSV UTF-8 with commas between the columns and decimal points"
        raise TableChangeError(f"{path.name}: {fault.removeprefix(f'{path.name}: ')}: {cure} before it is changed")
    columns = _numbered(there.columns)
    rows = [dict(zip(columns, row.values, strict=True)) for row in there.rows]
    return ChangedTable(table, columns, rows, _schema(path, columns) if is_parquet else None)


def _schema(path: Path, columns: Sequence[str]) -> pa.Schema:
    """Of these columns; what else there is, an index of pandas, belongs to nothing that the study has."""
    there = pq.read_schema(path)
    fields = [there.field(place) for place, name in enumerate(there.names) if not is_pandas_index(name.strip())]
    named = [field.with_name(name) for field, name in zip(fields, columns, strict=True)]
    return pa.schema(named, there.metadata)


def problems_with(root: Path, content: Mapping[str, bytes]) -> list[Problem]:
    """What would be wrong with these files, by name, and with the study as a whole, if they were in place.

    A copy of the study's tables is read with the new ones; the files that they name are not looked at.
    """
    with tempfile.TemporaryDirectory(prefix="storyframes-tables-") as folder:
        for name in os.listdir(root):
            if Path(name).suffix.lower() in (".csv", ".parquet") and name not in content:
                (Path(folder) / name).symlink_to((root / name).absolute())
        for name, written in content.items():
            (Path(folder) / name).write_bytes(written)
        reading = read_study(Path(folder))
    tables = {Path(name).stem for name in content}
    wrong = [problem for problem in reading.problems if problem.table in ("study", *tables)]
    return wrong + [problem for problem in reading.session_problems if problem.table in tables]


def put_in_place(root: Path, content: Mapping[str, bytes]) -> None:
    """Write the tables, by their files' names, each in one step, in this order.

    Whoever might read one before still may.

    Raises:
        OSError: one cannot be written; those before it are.
    """
    for name, written in content.items():
        path = root / name
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        write_atomically(path, written)
        if mode is not None:
            path.chmod(mode)
