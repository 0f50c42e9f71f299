"""Changing a study's CSV tables: made anew with everything else as it was, checked, and put in place in one step."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from storyframes.store.durable import write_atomically
from tasks.study.load import read_study
from tasks.study.problems import Problem
from tasks.study.rows import TABLES
from tasks.study.strict_tables import read_table

_UNNAMED = "\n"  # begins what columns without a name are called here: no name has it


class TableChangeError(Exception):
    """The table cannot be changed as it is; the message names it and says what to do."""


@dataclass
class ChangedTable:
    """A table as it stands in its file, to be changed.

    Attributes:
        table: its name.
        columns: as the file has them, those without a name numbered; of a table that is not there yet none.
        rows: the cells of each row.
    """

    table: str
    columns: list[str]
    rows: list[dict[str, str]]

    def add(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Put rows behind the others; columns that the file does not have come last, in the specification's order."""
        order = [name for name in TABLES[self.table].model_fields if any(name in row for row in rows)]
        self.columns += [name for name in order if name not in self.columns]
        self.rows += [dict(row) for row in rows]

    def content(self) -> bytes:
        """The table as CSV."""
        written = io.StringIO(newline="")
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow("" if name.startswith(_UNNAMED) else name for name in self.columns)
        writer.writerows([row.get(name, "") for name in self.columns] for row in self.rows)
        return written.getvalue().encode()


def open_table(root: Path, table: str) -> ChangedTable:
    """The table of the study at ``root``, empty where there is none.

    Raises:
        TableChangeError: it is Parquet, a link, or not as a table should be.
    """
    if (root / f"{table}.parquet").exists():
        raise TableChangeError(f"{table}.parquet: only a CSV table can be changed: save it as {table}.csv")
    path = root / f"{table}.csv"
    if path.is_symlink():
        raise TableChangeError(f"{table}.csv: is a link, which would be replaced by a file: make it one")
    if not path.exists():
        return ChangedTable(table, [], [])
    there = read_table(path)
    if there.faults or there.remarks:
        fault = there.faults[0].rule if there.faults else there.remarks[0]
        raise TableChangeError(f"{table}.csv: {fault}: mend it before it is changed")
    columns = [name or f"{_UNNAMED}{place}" for place, name in enumerate(there.columns)]
    return ChangedTable(table, columns, [dict(zip(columns, row.values, strict=True)) for row in there.rows])


def problems_with(root: Path, content: Mapping[str, bytes]) -> list[Problem]:
    """What would be wrong with these tables, and with the study as a whole, if they were in place.

    A copy of the study's tables is read with the new ones; the files that they name are not looked at.
    """
    with tempfile.TemporaryDirectory(prefix="storyframes-tables-") as folder:
        for name in os.listdir(root):
            if Path(name).suffix.lower() in (".csv", ".parquet") and name not in _names(content):
                (Path(folder) / name).symlink_to((root / name).absolute())
        for table, written in content.items():
            (Path(folder) / f"{table}.csv").write_bytes(written)
        reading = read_study(Path(folder))
    wrong = [problem for problem in reading.problems if problem.table in ("study", *content)]
    return wrong + [problem for problem in reading.session_problems if problem.table in content]


def _names(tables: Iterable[str]) -> set[str]:
    return {f"{table}.csv" for table in tables}


def put_in_place(root: Path, content: Mapping[str, bytes]) -> None:
    """Write the tables, each in one step, in this order; whoever might read one before still may.

    Raises:
        OSError: one cannot be written; those before it are.
    """
    for table, written in content.items():
        path = root / f"{table}.csv"
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        write_atomically(path, written)
        if mode is not None:
            path.chmod(mode)
