"""Changing a study's tables: a new file with everything else unchanged is checked, and put in place in one step.

``ChangedTables.name_transcripts`` writes the paths of transcripts into the tables sessions and tracks,
``ChangedTables.add_recordings`` new rows.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storyframes.spec import MAIN
from storyframes.store.storage.files import write_atomically
from storyframes.store.storage.scratch import scratch_folder
from tasks.study.csv_text import csv_bytes
from tasks.study.forgotten_ids import NAME, read_forgotten_ids
from tasks.study.labels import listed
from tasks.study.load import read_study, recording_names
from tasks.study.problems import Problem, shortened
from tasks.study.rows import NUMBER_COLUMNS, PATH_COLUMNS, TABLES
from tasks.study.strict_tables import as_words, is_empty, is_pandas_index, read_table, with_slashes
from tasks.study.table_rows import named_by

_UNNAMED = "\n"  # the beginning of the names that columns without a name have here: no other name has it


class TableChangeError(Exception):
    """The table cannot be changed; the message names it and says what to do.

    Attributes:
        problems: those of the study that it would be.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


@dataclass
class ChangedTable:
    """A table as its file has it, to be changed."""

    table: str
    columns: list[str]  # as the file has them, those without a name numbered; empty for a new table
    rows: list[dict[str, Any]]  # the cells of each row: text, and in Parquet the file's values
    schema: pa.Schema | None = None  # of a Parquet file; None for a CSV file, and for a new table

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.table}.csv" if self.schema is None else f"{self.table}.parquet"

    def add(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Append rows; new columns come last, in the specification's order."""
        order = [name for name in TABLES[self.table].model_fields if any(name in row for row in rows)]
        self.columns += [name for name in order if name not in self.columns]
        self.rows += [dict(row) for row in rows]

    @staticmethod
    def key_of(row: Mapping[str, Any], column: str) -> tuple[str, str]:
        """The session of a row and what its other column names, without blanks around them."""
        return (row.get("session_id") or "").strip(), (row.get(column) or "").strip()

    def content(self) -> bytes:
        """The bytes of the file."""
        if self.schema is not None:
            return self._as_parquet(self.schema)
        cells = ([row.get(name, "") for name in self.columns] for row in self.rows)
        return csv_bytes(_unnumbered(self.columns), cells)

    def _as_parquet(self, schema: pa.Schema) -> bytes:
        cells = {name: [row.get(name) for row in self.rows] for name in self.columns}
        named = _with_added_cells(schema, cells)
        written = io.BytesIO()
        pq.write_table(named.rename_columns(_unnumbered(named.column_names)), written)
        return written.getvalue()


def _numbered(columns: Sequence[str]) -> list[str]:
    return [name or f"{_UNNAMED}{index}" for index, name in enumerate(columns)]


def _unnumbered(columns: Sequence[str]) -> list[str]:
    return ["" if name.startswith(_UNNAMED) else name for name in columns]


def open_table(root: Path, table: str) -> ChangedTable:
    """The table of the study at ``root``, empty where the study has none.

    Raises:
        TableChangeError: it is a link, or has a fault or an unusual form.
    """
    path = root / f"{table}.parquet"
    is_parquet = os.path.lexists(path)
    if not is_parquet:
        path = root / f"{table}.csv"
    if path.is_symlink():
        raise TableChangeError(f"{path.name}: is a link, which would be replaced by a file: make it one")
    if not path.exists():
        return ChangedTable(table, [], [])
    content = read_table(path)
    if content.faults or content.remarks:
        fault = content.faults[0].rule if content.faults else content.remarks[0]
        cure = (
            "correct it"
            if content.faults
            else "save it as CSV UTF-8 with commas between the columns and decimal points"
        )
        raise TableChangeError(f"{path.name}: {fault.removeprefix(f'{path.name}: ')}: {cure} before it is changed")
    columns = _numbered(content.columns)
    rows = [dict(zip(columns, row.values, strict=True)) for row in content.rows]
    return ChangedTable(table, columns, rows, _schema(path, columns) if is_parquet else None)


def _schema(path: Path, columns: Sequence[str]) -> pa.Schema:
    """The types of these columns, without an index of pandas, which the study does not have."""
    schema = pq.read_schema(path)
    fields = [schema.field(index) for index, name in enumerate(schema.names) if not is_pandas_index(name.strip())]
    named = [field.with_name(name) for field, name in zip(fields, columns, strict=True)]
    return pa.schema(named, schema.metadata)


def _with_added_cells(schema: pa.Schema, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """A table of these columns, each of its own type, or of the next type that can represent all cells.

    Args:
        schema: the types of the existing columns; pandas' metadata is left out, because it counts rows.
        columns: their cells; existing cells unchanged, new ones as text, None for an empty cell.
    """
    arrays, fields = [], []
    for name, cells in columns.items():
        existing = schema.field(name) if name in schema.names else None
        array = _column(name, cells, existing.type if existing else pa.null())
        arrays.append(array)
        fields.append(existing.with_type(array.type).with_nullable(True) if existing else pa.field(name, array.type))
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
    for type_, read in ((kind, int), (kind, float), (pa.float64(), float)):
        if (array := _as_numbers(name, cells, type_, read)) is not None:
            return array
    return pa.array([None if cell is None else str(as_words(cell)) for cell in cells], pa.string())


def _as_numbers(
    name: str, cells: Sequence[Any], kind: pa.DataType, read: Callable[[Any], int | float]
) -> pa.Array | None:
    """The cells as numbers of this type; None where a cell would change."""
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


def problems_with(root: Path, content: Mapping[str, bytes], *, of_all: bool = False) -> list[Problem]:
    """The problems of these tables (by file name), and of the study as a whole, if they were in place.

    A copy of the study's tables is read with the new ones; the files that they name are not checked.

    Args:
        root: the study's folder.
        content: the tables, by file name.
        of_all: also give the problems of the other tables.
    """
    with scratch_folder("tables") as folder:
        for name in os.listdir(root):
            if Path(name).suffix.lower() in (".csv", ".parquet") and name not in content:
                (folder / name).symlink_to((root / name).absolute())
        for name, written in content.items():
            (folder / name).write_bytes(written)
        reading = read_study(folder)
    tables = {Path(name).stem for name in content}
    wrong = [problem for problem in reading.problems if of_all or problem.table in ("study", *tables)]
    return wrong + [problem for problem in reading.session_problems if problem.table in tables]


def put_in_place(root: Path, content: Mapping[str, bytes]) -> None:
    """Write the tables, by their files' names, each in one step, in this order, with the permissions of the old files.

    Raises:
        OSError: one cannot be written; those before it are.
    """
    for name, written in content.items():
        path = root / name
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        write_atomically(path, written)
        if mode is not None:
            path.chmod(mode)


class ChangedTables:
    """Tables of one study that are changed together: checked with the rest of the study before they are put in place.

    Attributes:
        root: the study's folder.
        content: the changed tables by their files' names, in the order in which they are put in place.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.content: dict[str, bytes] = {}

    def open(self, table: str) -> ChangedTable:
        """The table of this name, empty where the study has none; see :meth:`take`.

        Raises:
            TableChangeError: it is a link, or has a fault or an unusual form.
        """
        return open_table(self.root, table)

    def take(self, table: ChangedTable) -> None:
        """Add a table as it is now."""
        self.content[table.name] = table.content()

    def check(self, what: str, but: str = "") -> None:
        """Check the study with these tables in place, before they are.

        Args:
            what: is new in them, for the message.
            but: a kind of problem that is allowed.

        Raises:
            TableChangeError: the study would not be valid.
        """
        problems = problems_with(self.root, self.content)
        if wrong := [problem for problem in problems if not but or problem.kind != but]:
            wrong = shortened(wrong)
            shown = "\n".join(f"  {problem}" for problem in wrong)
            rule = f"with these {what} the study would not be valid; nothing is written"
            raise TableChangeError(f"{rule}:\n{shown}", wrong)

    def put_in_place(self) -> None:
        """Write the tables, each in one step, with the permissions of the old files.

        Raises:
            OSError: one cannot be written; those before it are.
        """
        put_in_place(self.root, self.content)

    def name_transcripts(self, paths: Mapping[tuple[str, str], str], *, is_dry: bool = False) -> int:
        """Write paths of transcripts into empty cells of the tables sessions and tracks; other cells stay as they are.

        Args:
            paths: by session and track (``main``: the session's own), relative to the study.
            is_dry: write nothing, only say what would be written.

        Returns:
            The number of cells that were empty.

        Raises:
            TableChangeError: a table cannot be changed, or the study would not be valid; then nothing is changed.
            OSError: a table cannot be written.
        """
        named = 0
        for name in ("tracks", "sessions"):
            table = self.open(name)
            rows = [(row, path) for row in table.rows if (path := paths.get(_recording(row, name)))]
            empty = [(row, path) for row, path in rows if is_empty(row.get("transcript"))]
            for row, path in empty:
                row["transcript"] = path
            if empty:
                table.columns += ["transcript"] if "transcript" not in table.columns else []
                self.take(table)
                named += len(empty)
        self.check("transcripts")
        if not is_dry:
            self.put_in_place()
        return named

    def files_named(self) -> dict[str, str]:
        """The session of each file that the tables tracks and sessions name or join, however its path is written.

        Raises:
            TableChangeError: a table cannot be changed.
        """
        cells = {
            PurePosixPath(str(with_slashes(self.root, row[column])).strip()).as_posix(): _recording(row, name)[0]
            for name in ("tracks", "sessions")
            for row in self.open(name).rows
            for column in PATH_COLUMNS
            if not is_empty(row.get(column))
        }
        return {file: cells[cell] for cell in cells for file in recording_names(self.root, cell)} | cells

    def add_recordings(self, rows: Mapping[str, Sequence[Mapping[str, str]]]) -> list[str]:
        """Add rows to the tables tracks and sessions, where no row has their session or track, or one of their files.

        A session is the one of the row that names one of its files, whatever its id is there. Sessions, people and
        tracks that are forgotten are left out.

        Args:
            rows: by table, as they are made from the names of files.

        Returns:
            Remarks on what is left out.

        Raises:
            TableChangeError: a table cannot be changed, or the study would not be valid; then nothing is changed.
            OSError: a table cannot be written.
        """
        tables = {name: self.open(name) for name in ("tracks", "sessions")}
        keys = {_recording(row, name) for name, table in tables.items() for row in table.rows}
        named, forgotten = self.files_named(), read_forgotten_ids(self.root)
        made = [row for of_table in rows.values() for row in of_table]
        owners = {row["session_id"]: named[path] for row in made for path in _files(self.root, row) if path in named}
        gone = {row["session_id"] for row in rows["sessions"] if row["participant_id"] in forgotten.people}
        gone |= {row["session_id"] for row in rows["sessions"] if any(map(forgotten.has_file, _files(self.root, row)))}
        gone |= {name for name in (row["session_id"] for row in made) if owners.get(name, name) in forgotten.sessions}
        of_forgotten, unused = 0, []
        for name, table in tables.items():
            new = []
            for made_row in rows[name]:
                row = {**made_row, "session_id": owners.get(made_row["session_id"], made_row["session_id"])}
                paths, key = _files(self.root, row), _recording(row, name)
                added = [path for path in paths if path not in named]
                if made_row["session_id"] in gone or key in forgotten.tracks or any(map(forgotten.has_file, paths)):
                    of_forgotten += len(added)
                elif key in keys or len(added) < len(paths):
                    unused += added
                else:
                    new.append(row)
            if new and table.columns and "session_id" not in table.columns:
                raise TableChangeError(
                    f"{table.name}: has no column session_id: give it session_id and participant_id before recordings "
                    "are added"
                )
            if new:
                table.add(new)
                self.take(table)
        self.check("recordings")
        self.put_in_place()
        return [
            *([f"of sessions whose rows stay as they are, left out: {listed(unused, 5)}"] if unused else []),
            *([f"{of_forgotten} files of the forgotten, left out ({NAME}): remove them"] if of_forgotten else []),
        ]


def _files(root: Path, row: Mapping[str, str]) -> list[str]:
    """The files that a row names, also those that it joins."""
    cells = [row[column] for column in PATH_COLUMNS if row.get(column)]
    return list(dict.fromkeys(file for cell in cells for file in (cell, *recording_names(root, cell))))


def _recording(row: Mapping[str, Any], table: str) -> tuple[str, str]:
    """The session and the track of a row; a session without an id is named after its file."""
    if table == "tracks":
        return ChangedTable.key_of(row, "track")
    files = {name: value for name, value in row.items() if not is_empty(value)}
    session_id = files.get("session_id") or (PurePosixPath(str(files[by])).stem if (by := named_by(files)) else "")
    return str(session_id).strip(), MAIN
