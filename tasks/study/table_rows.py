"""From a table's cells to its rows: each is as its model wants it, or a problem says why."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from storyframes.store.layout import ID_PATTERN
from tasks.study.labels import did_you_mean
from tasks.study.problems import Problem, shown_value
from tasks.study.rows import NUMBER_COLUMNS, PATH_COLUMNS, TABLES, Participant
from tasks.study.spreadsheet_habits import decimal_commas, with_decimal_point, with_slashes, without_empty_rows
from tasks.study.strict_tables import Table, is_empty, read_table

_WITH_TEXT = "stories"
_WITH_FILES = ("sessions", "tracks", "curves")
_ROWS_NAMED = 5  # of the rows that are the same

Place = tuple[int | None, int | None]  # row, and line of the file
Placed = tuple[int, int | None, Any]  # row, line, and what stands there


@dataclass(frozen=True)
class NamedFile:
    """A file that a row of a table names.

    Attributes:
        row, line: where.
        column: video, audio, transcript, openface, or path (of a curve).
        relative: its path in the study.
        table: sessions, tracks or curves.
        session_id, track: whose it is, as the row says it; the table of sessions has no track.
    """

    row: int
    line: int | None
    column: str
    relative: str
    table: str = "sessions"
    session_id: str = ""
    track: str | None = None

    def problem(self, rule: str) -> Problem:
        """What is wrong with this file."""
        shown = shown_value(self.table, self.column, self.relative)
        return Problem(self.table, self.row, self.column, shown, rule, self.line)


@dataclass
class TableRows:
    """The rows and the problems of one study, as they are found."""

    root: Path
    problems: list[Problem] = field(default_factory=list)
    session_problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    excluded: dict[str, str] = field(default_factory=dict)
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)
    files: list[list[NamedFile]] = field(default_factory=list)
    paths: dict[str, Path] = field(default_factory=dict)
    decimal_commas: set[str] = field(default_factory=set)  # tables whose numbers have them
    rows: dict[str, list[Placed]] = field(default_factory=lambda: {table: [] for table in TABLES})
    # The cells of the rows that became none.
    faulty: dict[str, list[Placed]] = field(default_factory=lambda: {table: [] for table in TABLES})
    _raw: dict[str, Table] = field(default_factory=dict)
    _ids: dict[tuple[str, ...], set[tuple[str, ...]] | None] = field(default_factory=dict)

    def problem(
        self, table: str, place: Place, column: str, value: object, rule: str, kind: str = "", *, private: bool = False
    ) -> None:
        shown = ""
        if column:
            shown = f"({len(str(value))} characters)" if private else shown_value(table, column, value)
        self.problems.append(Problem(table, place[0], column, shown, rule, place[1], kind))

    def table_problem(self, table: str, rule: str) -> None:
        self.problem(table, (None, None), "", "", rule)

    def of(self, table: str) -> list[Any]:
        """The rows of a table that are right."""
        return [row for _, _, row in self.rows[table]]

    def has(self, table: str) -> bool:
        """Whether the study has this table, readable or not."""
        return table in self.paths or any(one.table == table and one.row is None for one in self.problems)

    # --- which tables there are ---

    def find_tables(self) -> bool:
        """Whether there is a folder with a table of sessions."""
        if not self.root.is_dir():
            self.table_problem("study", "is not a folder")
            return False
        try:
            there = sorted(os.listdir(self.root))
        except OSError as error:
            self.table_problem("study", f"the folder cannot be listed: {error.strerror}")
            return False
        for table in TABLES:
            names = [name for name in there if name.lower() in (f"{table}.csv", f"{table}.parquet")]
            if len(names) > 1:
                both = "both as .csv and as .parquet" if len(names) == 2 else f"as {', '.join(names)}"
                self.table_problem(table, f"is there {both}: keep one")
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
        for fault in raw.faults:
            self.problem(table, (fault.number, fault.line), "", "", fault.rule, fault.kind)
        if not raw.columns:
            return
        made = _made_columns(table, raw)
        absent = self._check_columns(table, raw, made)
        model = TABLES[table]
        wanted = None if model is Participant else set(model.model_fields)
        places = [(place, name) for place, name in enumerate(raw.columns) if name and (not wanted or name in wanted)]
        self.remarks += [f"{table}: {remark}" for remark in raw.remarks]
        kept, empty = without_empty_rows(raw)
        if empty:
            rows = f"{len(empty)} empty rows are" if len(empty) > 1 else "an empty row is"
            self.remarks.append(f"{table}: {rows} left out, from row {empty[0]} on")
        has_commas = self._find_decimal_commas(table, raw)
        slashes: list[int] = []
        for number, line, values in kept:
            cells = {name: value for place, name in places if not is_empty(value := values[place])}
            if made and "video" in cells:
                cells |= dict.fromkeys(made, PurePosixPath(str(cells["video"]).strip()).stem)
            for column in PATH_COLUMNS:
                if column in cells and (path := with_slashes(self.root, cells[column])) != cells[column]:
                    cells[column] = path
                    slashes.append(number)
            if has_commas:
                cells |= {name: with_decimal_point(cells[name]) for name in NUMBER_COLUMNS & {*cells}}
            self._read_row(table, number, line, cells, absent, made)
        if slashes:
            self.remarks.append(f"{table}: paths with \\ between their folders, from row {slashes[0]} on: read as /")

    def _find_decimal_commas(self, table: str, raw: Table) -> bool:
        """Whether the table's numbers have decimal commas, which is said."""
        columns = NUMBER_COLUMNS | {"value"} if table == "labels" else NUMBER_COLUMNS
        if not (found := decimal_commas(raw, columns)):
            return False
        self.decimal_commas.add(table)
        self.remarks.append(f"{table}: numbers with a decimal comma, from row {found[1]} on: read as a point")
        return True

    def _read_row(
        self, table: str, number: int, line: int | None, cells: dict[str, Any], absent: set[str], made: tuple[str, ...]
    ) -> None:
        try:
            row = TABLES[table].model_validate(cells)
        except ValidationError as error:
            wrong = set()
            for one in error.errors(include_url=False, include_context=False, include_input=False):
                column, rule = str(one["loc"][0]), _rule(one["msg"])
                wrong.add(column)
                if column in made:
                    if "video" in cells and column == made[0]:
                        rule = f"gives the session its name, but {rule}: name it in a column session_id"
                        self.problem(table, (number, line), "video", cells["video"], rule)
                elif column not in absent:
                    self.problem(table, (number, line), column, cells.get(column, ""), rule)
            self.faulty[table].append((number, line, cells))
            self._note_files(table, number, line, {name: cells[name] for name in cells if name not in wrong})
        else:
            self.rows[table].append((number, line, row))
            self._note_files(table, number, line, vars(row))

    def _check_columns(self, table: str, raw: Table, made: tuple[str, ...]) -> set[str]:
        """The columns that should be there and are not."""
        known = TABLES[table].model_fields
        absent = {name for name, info in known.items() if info.is_required() and name not in (*raw.columns, *made)}
        for name in known:
            if name in absent:
                self.table_problem(table, f"the column {name!r} is missing")
        if made:
            self.remarks.append(
                f"{table}: a session is named after its video, and counts as a participant of its own: where one "
                "person is in several, give the columns session_id and participant_id"
            )
        unread = []
        for place, column in enumerate(raw.columns, start=1):
            if column in known or not column:
                continue
            close = difflib.get_close_matches(column, known, n=1, cutoff=0.75)
            if close and close[0] not in raw.columns:
                self.table_problem(table, f"the column {column!r} is unknown: is {close[0]!r} meant?")
            elif TABLES[table] is not Participant:
                unread.append(column if re.fullmatch(r"[\w .-]{1,40}", column) else f"column {place}")
        if unread:
            self.unread[table] = tuple(unread)
        return absent

    def _note_files(self, table: str, number: int, line: int | None, cells: Mapping[str, Any]) -> None:
        if table in _WITH_FILES:
            named = [(column, cells.get(column)) for column in PATH_COLUMNS]
            whose = str(cells.get("session_id") or ""), cells.get("track")
            files = [
                NamedFile(number, line, column, str(path).strip(), table, *whose) for column, path in named if path
            ]
            self.files.append(files)

    # --- between rows ---

    def ids(self, table: str, *columns: str) -> set[tuple[str, ...]] | None:
        """What the table names in these columns, also in rows with other faults: one fault is not reported all over
        again. Empty where there is no such table, None where rows of it may have been lost.
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
        places = [raw.columns.index(column) for column in columns]
        every = [row.values for row in raw.rows] + [fault.values for fault in raw.faults]
        return {tuple(str(values[place]).strip() for place in places) for values in every if len(values) > max(places)}

    def check_unique(self, table: str, *columns: str) -> None:
        keys = (tuple(str(getattr(row, column)) for column in columns) for _, _, row in self.rows[table])
        self.check_keys(table, columns, keys)

    def check_keys(self, table: str, columns: tuple[str, ...], keys: Iterable[Hashable]) -> None:
        """Rows with the same key; the last of the columns is the one that is named."""
        for _, same in repeated(keys):
            number, line, row = self.rows[table][same[0]]
            others = named_rows([self.rows[table][place][0] for place in same[1:]])
            rule = f"must be unique, but {others} the same {' and '.join(columns)}"
            self.problem(table, (number, line), columns[-1], getattr(row, columns[-1]), rule, f"unique {columns}")

    def check_known(
        self, table: str, columns: tuple[str, ...] | str, other: str, *, hint: bool = False, cure: str = ""
    ) -> None:
        """Rows whose last column (of this session, where it is the second) names what another table does not have.

        Args:
            table: whose rows.
            columns: what they name.
            other: the table that should have it, in columns of the same names.
            hint: ask whether a similar name is meant.
            cure: a sentence about what else may help.
        """
        columns = (columns,) if isinstance(columns, str) else columns
        known = self.ids(other, *columns)
        if known is None:
            return
        placed = [(number, line, vars(row)) for number, line, row in self.rows[table]]
        for number, line, cells in placed + self.faulty[table]:
            name = tuple(str(cells.get(column) or "").strip() for column in columns)
            if not name[-1] or name in known or not all(map(ID_PATTERN.fullmatch, name)):
                continue
            if len(name) > 1 and name[:1] not in (self.ids("sessions", columns[0]) or set()):
                continue  # that there is no such session is said already
            there = {one[-1] for one in known if one[:-1] == name[:-1]}
            of_session = " for this session" if len(name) > 1 else ""
            rule = f"is not in the table '{other}'{of_session}" + (did_you_mean(name[-1], there) if hint else "")
            if cure:
                rule += f" {cure}" if rule.endswith("?") else f": {cure}"
            self.problem(table, (number, line), columns[-1], name[-1], rule, f"unknown {columns[-1]}" if hint else "")


def _made_columns(table: str, raw: Table) -> tuple[str, ...]:
    """The columns that are made from the videos' names, where the table of sessions names nothing but files.

    Not where it has columns that nothing reads: one of them may be the participant under another name.
    """
    known = TABLES["sessions"].model_fields
    made = ("session_id", "participant_id")
    names = [name for name in raw.columns if name]
    is_smallest = table == "sessions" and "video" in names and all(name in known for name in names)
    return made if is_smallest and not {*made} & {*names} else ()


def repeated(keys: Iterable[Hashable]) -> Iterator[tuple[Any, list[int]]]:
    """Each key that is there more than once, with its places."""
    places: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return ((key, same) for key, same in places.items() if len(same) > 1)


def named_rows(rows: list[int]) -> str:
    """The first rows by number, the others counted."""
    named = ", ".join(map(str, rows[:_ROWS_NAMED]))
    more = f" and {len(rows) - _ROWS_NAMED} more" if len(rows) > _ROWS_NAMED else ""
    return f"row {named} has" if len(rows) == 1 else f"rows {named}{more} have"


def _rule(message: str) -> str:
    return "a value is required" if message == "Field required" else message.removeprefix("Value error, ")
