"""From a table's cells to its rows: each cell is valid by its table's model, or a problem says why not."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from pydantic import ValidationError

from storyframes.store.layout import ID_PATTERN
from tasks.study.labels import did_you_mean, listed
from tasks.study.problems import Problem, shown_value
from tasks.study.rows import NO_FILE, NUMBER_COLUMNS, PATH_COLUMNS, TABLES, TIMED_FILES, Participant, is_box_file
from tasks.study.strict_tables import (
    NumberForm,
    Table,
    is_empty,
    read_table,
    with_slashes,
)

_WITH_TEXT = "stories"
_WITH_FILES = ("sessions", "tracks", "curves")


class Placed(NamedTuple):
    """A row of a table, or what was made of it, with its place."""

    number: int  # as a spreadsheet shows it: the header is row 1
    line: int | None  # of the file, where the row begins; None in Parquet
    row: Any  # the row; of a row with faults its cells


@dataclass(frozen=True)
class NamedFile:
    """A file that a row of a table names."""

    # row, line: where it is named
    row: int
    line: int | None
    column: str  # video, audio, transcript, openface, region, or path (of a curve)
    relative: str  # its path in the study
    table: str = "sessions"  # sessions, tracks or curves
    # session_id, track: as the row has them; the table of sessions has no track
    session_id: str = ""
    track: str | None = None

    def problem(self, rule: str, *, is_of_file: bool = True) -> Problem:
        """A problem with this file, or, where the file itself can be used, with what its row says."""
        shown = shown_value(self.table, self.column, self.relative)
        return Problem(self.table, self.row, self.column, shown, rule, self.line, is_of_file=is_of_file)


@dataclass
class TableRows:
    """The rows and the problems of one study, collected table by table."""

    root: Path  # the study's folder
    problems: list[Problem] = field(default_factory=list)  # of the tables
    session_problems: list[Problem] = field(default_factory=list)  # why sessions are in ``excluded``
    remarks: list[str] = field(default_factory=list)  # unusual forms that were read all the same
    excluded: dict[str, str] = field(default_factory=dict)  # sessions that give no clips, with the reason
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by table, the columns that nothing reads
    files: list[list[NamedFile]] = field(default_factory=list)  # the files that each row names
    paths: dict[str, Path] = field(default_factory=dict)  # by table, its file
    digests: dict[str, str] = field(default_factory=dict)  # by table, the SHA-256 of the bytes that were read
    decimal_commas: set[str] = field(default_factory=set)  # tables whose numbers have decimal commas
    # by table, the valid rows
    rows: dict[str, list[Placed]] = field(default_factory=lambda: {table: [] for table in TABLES})
    # by table, the cells of the other rows
    faulty: dict[str, list[Placed]] = field(default_factory=lambda: {table: [] for table in TABLES})
    _raw: dict[str, Table] = field(default_factory=dict)
    _ids: dict[tuple[str, ...], set[tuple[str, ...]] | None] = field(default_factory=dict)

    def problem(
        self, table: str, placed: Placed, column: str, rule: str, kind: str = "", *, private: bool = False
    ) -> None:
        """Report the value of a row in this column; of a private value only the length is shown."""
        row = placed.row
        value = row.get(column, "") if isinstance(row, dict) else getattr(row, column)
        value = "" if value is None else value
        shown = f"({len(str(value))} characters)" if private else shown_value(table, column, value)
        self.problems.append(Problem(table, placed.number, column, shown, rule, placed.line, kind))

    def table_problem(self, table: str, rule: str) -> None:
        """Report a table as a whole."""
        self.problems.append(Problem(table, None, "", "", rule))

    def of(self, table: str) -> list[Any]:
        """The valid rows of a table."""
        return [placed.row for placed in self.rows[table]]

    def has(self, table: str) -> bool:
        """Whether the study has this table, readable or not."""
        return table in self.paths or any(problem.table == table and problem.row is None for problem in self.problems)

    # --- the files ---

    def find_tables(self) -> bool:
        """Find the tables' files; False where the study's folder cannot be listed."""
        if not self.root.is_dir():
            self.table_problem("study", "is not a folder")
            return False
        try:
            names_of_files = sorted(os.listdir(self.root))
        except OSError as error:
            self.table_problem("study", f"the folder cannot be listed: {error.strerror}")
            return False
        for table in TABLES:
            names = [name for name in names_of_files if name.lower() in (f"{table}.csv", f"{table}.parquet")]
            if len(names) > 1:
                both = "both as .csv and as .parquet" if len(names) == 2 else f"as {', '.join(names)}"
                self.table_problem(table, f"exists {both}: keep one")
            elif names and (fault := self._table_fault(names[0])):
                self.table_problem(table, f"{names[0]} {fault}")
            elif names:
                self.paths[table] = self.root / names[0]
            elif table == "sessions":
                self.table_problem(table, "there is no sessions.csv or sessions.parquet: every study has one")
        return True

    def _table_fault(self, name: str) -> str:
        if name != name.lower():
            return f"is not read: name it {name.lower()}"
        path = self.root / name
        if path.is_symlink() and not path.exists():
            return "is a link to nothing"
        return "" if path.is_file() else "is not a file"

    # --- one table ---

    def read(self, table: str) -> None:
        if table not in self.paths:
            return
        raw = self._raw[table] = read_table(self.paths[table], has_text=table == _WITH_TEXT)
        self.digests[table] = raw.sha256
        for fault in raw.faults:
            self.problems.append(Problem(table, fault.number, "", "", fault.rule, fault.line, fault.kind))
        if not raw.columns:
            return
        made = _made_columns(table, raw)
        absent = self._check_columns(table, raw, made)
        model = TABLES[table]
        read = set(raw.columns) if model is Participant else set(model.model_fields)
        columns = [(index, name) for index, name in enumerate(raw.columns) if name and name in read]
        self.remarks += [f"{table}: {remark}" for remark in raw.remarks]
        kept, empty = raw.without_empty_rows()
        if empty:
            rows = f"{len(empty)} empty rows are" if len(empty) > 1 else "an empty row is"
            self.remarks.append(f"{table}: {rows} left out, from row {empty[0]} on")
        numbers = self._number_form(table, raw)
        slashes: list[int] = []
        for number, line, values in kept:
            cells = {name: value for index, name in columns if not is_empty(value := values[index])}
            if made and (file := named_by(cells)):
                cells |= dict.fromkeys(made, PurePosixPath(str(cells[file]).strip()).stem)
            for column in PATH_COLUMNS:
                if column in cells and (path := with_slashes(self.root, cells[column])) != cells[column]:
                    cells[column] = path
                    slashes.append(number)
            if numbers.commas:
                cells |= {name: numbers.read(cells[name]) for name in NUMBER_COLUMNS & {*cells}}
            self._read_row(table, Placed(number, line, cells), absent, made)
        if slashes:
            self.remarks.append(f"{table}: paths with \\ between their folders, from row {slashes[0]} on: read as /")

    def _number_form(self, table: str, raw: Table) -> NumberForm:
        """How the table's numbers are written; decimal commas and doubts become remarks."""
        form = raw.number_form(NUMBER_COLUMNS | {"value"} if table == "labels" else NUMBER_COLUMNS)
        if form.doubt:
            self.remarks.append(f"{table}: {form.doubt}")
        if form.commas:
            self.decimal_commas.add(table)
            self.remarks.append(
                f"{table}: numbers with a decimal comma, from row {form.first_comma} on: read as a point"
            )
        return form

    def _read_row(self, table: str, placed: Placed, absent: set[str], made: tuple[str, ...]) -> None:
        cells = placed.row
        try:
            row = TABLES[table].model_validate(cells)
        except ValidationError as error:
            wrong = set()
            for fault in error.errors(include_url=False, include_context=False, include_input=False):
                column, rule = str(fault["loc"][0]), _rule(fault["msg"])
                wrong.add(column)
                if column in made:
                    if column == made[0]:
                        file = named_by(cells)
                        rule = f"gives the session its name, but {rule}: name it in a column session_id"
                        self.problem(table, placed, file or TIMED_FILES[0], rule if file else NO_FILE)
                elif column not in absent:
                    self.problem(table, placed, column, rule)
            self.faulty[table].append(placed)
            self._note_files(table, placed, {name: cells[name] for name in cells if name not in wrong})
        else:
            self.rows[table].append(placed._replace(row=row))
            self._note_files(table, placed, vars(row))

    def _check_columns(self, table: str, raw: Table, made: tuple[str, ...]) -> set[str]:
        """The required columns that are missing."""
        fields = TABLES[table].model_fields
        absent = {name for name, info in fields.items() if info.is_required() and name not in (*raw.columns, *made)}
        if table == "sessions" and not {*TIMED_FILES} & {*raw.columns}:
            absent.add(TIMED_FILES[0])
        for name in fields:
            if name in absent:
                self.table_problem(table, f"the column {name!r} is missing")
        if made:
            named = [name for name in TIMED_FILES if name in raw.columns]
            self.remarks.append(
                f"{table}: a session is named after its {' or '.join(named)}, and counts as a participant of its own: "
                "where one person is in several, give the columns session_id and participant_id"
            )
        unread = []
        for number, column in enumerate(raw.columns, start=1):
            if column in fields or not column:
                continue
            close = difflib.get_close_matches(column, fields, n=1, cutoff=0.75)
            if close and close[0] not in raw.columns:
                self.table_problem(table, f"the column {column!r} is unknown: is {close[0]!r} meant?")
            elif TABLES[table] is not Participant:
                unread.append(column if re.fullmatch(r"[\w .-]{1,40}", column) else f"column {number}")
        if unread:
            self.unread[table] = tuple(unread)
        return absent

    def _note_files(self, table: str, placed: Placed, cells: Mapping[str, Any]) -> None:
        if table in _WITH_FILES:
            owner = str(cells.get("session_id") or ""), cells.get("track")
            self.files.append(
                [
                    NamedFile(placed.number, placed.line, column, str(path).strip(), table, *owner)
                    for column in PATH_COLUMNS
                    if (path := cells.get(column)) and (column != "region" or is_box_file(str(path)))
                ]
            )

    # --- between rows ---

    def ids(self, table: str, *columns: str) -> set[tuple[str, ...]] | None:
        """The values of these columns, also in rows with other faults, so that one fault is reported once.

        Empty where the study has no such table, None where rows of it may have been lost.
        """
        key = (table, *columns)
        if key not in self._ids:
            self._ids[key] = self._find_ids(table, columns)
        return self._ids[key]

    def _find_ids(self, table: str, columns: tuple[str, ...]) -> set[tuple[str, ...]] | None:
        raw = self._raw.get(table)
        if raw is None:
            return None if self.has(table) else set()
        if not raw.columns or any(fault.kind not in ("fields", "nested") for fault in raw.faults):
            return None
        made = _made_columns(table, raw)
        if made:
            return {tuple(str(getattr(row, column)) for column in columns) for row in self.of(table)}
        fields = TABLES[table].model_fields
        if any(fields[column].is_required() for column in columns if column not in raw.columns):
            return None
        if not {*columns} <= {*raw.columns}:
            return set()
        indices = [raw.columns.index(column) for column in columns]
        rows = [row.values for row in raw.rows] + [fault.values for fault in raw.faults]
        return {tuple(str(values[index]).strip() for index in indices) for values in rows if len(values) > max(indices)}

    def check_unique(self, table: str, *columns: str) -> None:
        """Report rows with the same values in these columns, of which the last is named."""
        for _, first, others in repeated(self.rows[table], attrgetter(*columns)):
            rule = f"must be unique, but {named_rows(others)} the same {' and '.join(columns)}"
            self.problem(table, first, columns[-1], rule, f"unique {columns}")

    def check_case(self, table: str, *columns: str) -> None:
        """Report names that differ in case only in the last of these columns: one folder on many file systems."""
        *owner, column = columns
        for _, first, others in repeated(
            self.rows[table], lambda row: (*(getattr(row, name) for name in owner), getattr(row, column).lower())
        ):
            different = [other for other in others if getattr(other.row, column) != getattr(first.row, column)]
            if different:
                rule = f"must differ in more than case, but {named_rows(different)} the same letters"
                self.problem(table, first, column, rule, "case")

    def check_known(
        self, table: str, columns: tuple[str, ...] | str, other: str, *, hint: bool = False, cure: str = ""
    ) -> None:
        """Report rows whose last column has a value that another table does not have (of two columns: in this session).

        Args:
            columns: one, or ``session_id`` and another.
            other: the table that should have the value, in columns of the same names.
            hint: ask whether a similar name is meant.
            cure: what else may help.
        """
        columns = (columns,) if isinstance(columns, str) else columns
        existing = self.ids(other, *columns)
        if existing is None:
            return
        valid = [placed._replace(row=vars(placed.row)) for placed in self.rows[table]]
        for placed in valid + self.faulty[table]:
            name = tuple(str(placed.row.get(column) or "").strip() for column in columns)
            if not name[-1] or name in existing or not all(map(ID_PATTERN.fullmatch, name)):
                continue
            if len(name) > 1 and name[:1] not in (self.ids("sessions", columns[0]) or set()):
                continue  # that there is no such session is said already
            alternatives = {value for *owner, value in existing if tuple(owner) == name[:-1]}
            of_session = " for this session" if len(name) > 1 else ""
            rule = f"is not in the table '{other}'{of_session}" + (did_you_mean(name[-1], alternatives) if hint else "")
            if cure:
                rule += f" {cure}" if rule.endswith("?") else f": {cure}"
            named = placed._replace(row={columns[-1]: name[-1]})
            self.problem(table, named, columns[-1], rule, f"unknown {columns[-1]}" if hint else "")


def _made_columns(table: str, raw: Table) -> tuple[str, ...]:
    """The columns that are made from the recordings' names, where the table of sessions has only columns of files.

    A column that nothing reads prevents this: it may be the participant under another name.
    """
    fields = TABLES["sessions"].model_fields
    made = ("session_id", "participant_id")
    names = [name for name in raw.columns if name]
    is_smallest = table == "sessions" and {*TIMED_FILES} & {*names} and all(name in fields for name in names)
    return made if is_smallest and not {*made} & {*names} else ()


def named_by(cells: Mapping[str, Any]) -> str | None:
    """The column of the file whose name a session gets."""
    return next((column for column in TIMED_FILES if column in cells), None)


def repeated(rows: Iterable[Placed], key: Callable[[Any], Hashable]) -> Iterator[tuple[Any, Placed, list[Placed]]]:
    """Each key that several rows have, with the first of them and the others."""
    by_key: dict[Hashable, list[Placed]] = {}
    for placed in rows:
        by_key.setdefault(key(placed.row), []).append(placed)
    return ((value, same[0], same[1:]) for value, same in by_key.items() if len(same) > 1)


def named_rows(rows: list[Placed]) -> str:
    """The first rows by number, the others counted."""
    named = listed([str(placed.number) for placed in rows])
    return f"row {named} has" if len(rows) == 1 else f"rows {named} have"


def _rule(message: str) -> str:
    return "a value is required" if message == "Field required" else message.removeprefix("Value error, ")
