"""The study: a folder of tables, validated as a whole before any work.

Every row becomes a typed object or a problem; every problem is reported at once, with its table, row and column. What
is wrong with the tables concerns everybody. What is wrong with one session (a file that is not there, phases that
cannot be seconds of a recording) is that session's alone: see :attr:`Study.excluded` and :meth:`Study.path`.

Needs pydantic (the extra ``storyframes[pipeline]``); reading features does not import this module.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from storyframes.store.layout import ID_PATTERN
from tasks.study.problems import Problem, StudyError, shown_value
from tasks.study.rows import (
    PATH_COLUMNS,
    TABLES,
    Participant,
    Phase,
    Rating,
    Row,
    Session,
    Story,
    Survey,
    Timepoint,
)
from tasks.study.strict_tables import Table, is_empty, read_table

__all__ = [
    "NamedFile",
    "Participant",
    "Phase",
    "Problem",
    "Rating",
    "Reading",
    "Session",
    "Story",
    "Study",
    "StudyError",
    "StudyFileError",
    "Survey",
    "Timepoint",
    "load_study",
    "read_study",
]

LONGEST_S = 86_400.0  # no recording is longer than a day; a phase beyond it was not counted from its beginning
_WITH_TEXT = "stories"
_ROWS_NAMED = 5  # of the rows that are the same


class StudyFileError(OSError):
    """A file that the tables name cannot be used; the message names it and says why."""


@dataclass(frozen=True)
class Study:
    """A valid study.

    Attributes:
        root: its folder.
        sessions: by session_id, in the table's order.
        phases, ratings, stories, surveys, participants: the rows; empty where the study has no such table.
        excluded: sessions that give no clips, with the reason.
        unread: by table, the columns that nothing reads.
    """

    root: Path
    sessions: Mapping[str, Session]
    phases: tuple[Phase, ...] = ()
    ratings: tuple[Rating, ...] = ()
    stories: tuple[Story, ...] = ()
    surveys: tuple[Survey, ...] = ()
    participants: tuple[Participant, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def path(self, relative: str) -> Path:
        """A file that the tables name, as a path of this machine.

        Raises:
            StudyFileError: it is not there, is no file, or leaves the study through a symbolic link.
        """
        if fault := _file_fault(self.root, relative):
            raise StudyFileError(f"{relative}: {fault}")
        return self.root / relative

    def table_path(self, table: str) -> Path:
        """The file of a table that the study has."""
        parquet = self.root / f"{table}.parquet"
        return parquet if parquet.is_file() else self.root / f"{table}.csv"

    def frame(self, table: str) -> pd.DataFrame:
        """A table as a DataFrame with the columns of its specification."""
        rows: Iterable[Row] = self.sessions.values() if table == "sessions" else getattr(self, table)
        return pd.DataFrame([row.model_dump() for row in rows], columns=list(TABLES[table].model_fields))


@dataclass(frozen=True)
class NamedFile:
    """A file that a row of the table of sessions names.

    Attributes:
        row, line: where.
        column: video, audio, transcript or openface.
        relative: its path in the study.
    """

    row: int
    line: int | None
    column: str
    relative: str

    def problem(self, rule: str) -> Problem:
        """What is wrong with this file."""
        return Problem(
            "sessions", self.row, self.column, shown_value("sessions", self.column, self.relative), rule, self.line
        )


@dataclass(frozen=True)
class Reading:
    """What could be read of a study, sound or not.

    Attributes:
        study: of the rows that are right.
        problems: of the tables: with a single one of them the study cannot be used.
        session_problems: why a session is in :attr:`Study.excluded`.
        files: all that are named, by row; also in rows with other faults.
    """

    study: Study
    problems: list[Problem]
    session_problems: list[Problem]
    files: list[list[NamedFile]]


def load_study(root: Path) -> Study:
    """Read and validate the tables of the study at ``root``; the files that they name are looked at when they are used.

    Raises:
        StudyError: with every problem found.
    """
    reading = read_study(root)
    if reading.problems:
        raise StudyError(root, reading.problems)
    return reading.study


def read_study(root: Path) -> Reading:
    """Read the tables of the study at ``root`` and say everything that is wrong with them."""
    loader = _Loader(root.resolve())
    if loader.find_tables():
        for table in TABLES:
            loader.read(table)
        loader.check_references()
    rows = {table: tuple(row for _, _, row in loader.rows[table]) for table in TABLES}
    study = Study(
        loader.root,
        {row.session_id: row for row in rows.pop("sessions")},
        **rows,
        excluded=loader.excluded,
        unread=loader.unread,
    )
    return Reading(study, in_order(loader.problems), loader.session_problems, loader.files)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By table and row."""
    places = {table: place for place, table in enumerate(TABLES)}
    return sorted(problems, key=lambda problem: (places.get(problem.table, -1), problem.row or 0))


def _file_fault(root: Path, relative: str) -> str:
    try:
        path = (root / relative).resolve(strict=True)
        if not path.is_relative_to(root.resolve()):
            return "leaves the study folder through a symbolic link"
        return "" if path.is_file() else "is not a file"
    except FileNotFoundError:
        return "the file does not exist"
    except (OSError, RuntimeError) as error:
        return f"the file cannot be reached ({type(error).__name__})"


@dataclass
class _Loader:
    """Gathers the rows and the problems of one study."""

    root: Path
    problems: list[Problem] = field(default_factory=list)
    session_problems: list[Problem] = field(default_factory=list)
    excluded: dict[str, str] = field(default_factory=dict)
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)
    files: list[list[NamedFile]] = field(default_factory=list)
    paths: dict[str, Path] = field(default_factory=dict)
    # (row, line, object), and the cells of the rows that became none.
    rows: dict[str, list[tuple[int, int | None, Any]]] = field(default_factory=lambda: {table: [] for table in TABLES})
    faulty: dict[str, list[tuple[int, int | None, dict[str, Any]]]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )
    # Every id that a table names, also in rows with other faults: one fault is not reported all over again. None where
    # rows may have been lost.
    named: dict[tuple[str, str], set[str] | None] = field(default_factory=dict)

    def problem(
        self, table: str, row: tuple[int | None, int | None], column: str, value: object, rule: str, kind: str = ""
    ) -> None:
        shown = shown_value(table, column, value) if column else ""
        self.problems.append(Problem(table, row[0], column, shown, rule, row[1], kind))

    def _table_problem(self, table: str, rule: str) -> None:
        self.problem(table, (None, None), "", "", rule)

    # --- which tables there are ---

    def find_tables(self) -> bool:
        """Whether there is a folder with a table of sessions."""
        if not self.root.is_dir():
            self._table_problem("study", "is not a folder")
            return False
        try:
            there = sorted(os.listdir(self.root))
        except OSError as error:
            self._table_problem("study", f"the folder cannot be listed: {error.strerror}")
            return False
        for table in TABLES:
            names = [name for name in there if name.lower() in (f"{table}.csv", f"{table}.parquet")]
            if len(names) > 1:
                both = "both as .csv and as .parquet" if len(names) == 2 else f"as {', '.join(names)}"
                self._table_problem(table, f"is there {both}: keep one")
            elif names and (fault := self._table_fault(names[0])):
                self._table_problem(table, f"{names[0]} {fault}")
            elif names:
                self.paths[table] = self.root / names[0]
            elif table == "sessions":
                self._table_problem(table, "there is no sessions.csv or sessions.parquet: every study has one")
            for column in ("session_id", "story_id", "participant_id"):
                self.named[table, column] = None if names else set()
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
        raw = read_table(self.paths[table], has_text=table == _WITH_TEXT)
        for fault in raw.faults:
            self.problem(table, (fault.number, fault.line), "", "", fault.rule, fault.kind)
        if not raw.columns:
            return
        absent = self._check_columns(table, raw)
        self._note_ids(table, raw)
        model = TABLES[table]
        wanted = None if model is Participant else set(model.model_fields)
        places = [(place, name) for place, name in enumerate(raw.columns) if name and (not wanted or name in wanted)]
        for number, line, values in raw.rows:
            cells = {name: value for place, name in places if not is_empty(value := values[place])}
            try:
                row = model.model_validate(cells)
            except ValidationError as error:
                wrong = set()
                for one in error.errors(include_url=False, include_context=False, include_input=False):
                    column = str(one["loc"][0])
                    wrong.add(column)
                    if column not in absent:
                        self.problem(table, (number, line), column, cells.get(column, ""), _rule(one["msg"]))
                self.faulty[table].append((number, line, cells))
                if table == "sessions":
                    self._note_files(number, line, {name: cells[name] for name in cells if name not in wrong})
            else:
                self.rows[table].append((number, line, row))
                if table == "sessions":
                    self._note_files(number, line, vars(row))

    def _check_columns(self, table: str, raw: Table) -> set[str]:
        """The columns that should be there and are not."""
        known = TABLES[table].model_fields
        absent = {name for name, info in known.items() if info.is_required() and name not in raw.columns}
        for name in known:
            if name in absent:
                self._table_problem(table, f"the column {name!r} is missing")
        unread = []
        for place, column in enumerate(raw.columns, start=1):
            if column in known or not column:
                continue
            close = difflib.get_close_matches(column, known, n=1, cutoff=0.75)
            if close and close[0] not in raw.columns:
                self._table_problem(table, f"the column {column!r} is unknown: is {close[0]!r} meant?")
            elif TABLES[table] is not Participant:
                unread.append(column if re.fullmatch(r"[\w .-]{1,40}", column) else f"column {place}")
        if unread:
            self.unread[table] = tuple(unread)
        return absent

    def _note_ids(self, table: str, raw: Table) -> None:
        if any(fault.kind not in ("fields", "nested") for fault in raw.faults):
            return  # rows may have been lost: what they named is not known
        for column in ("session_id", "story_id", "participant_id"):
            if column in raw.columns:
                place = raw.columns.index(column)
                every = [row.values for row in raw.rows] + [fault.values for fault in raw.faults]
                self.named[table, column] = {str(values[place]).strip() for values in every if len(values) > place}

    def _note_files(self, number: int, line: int | None, cells: Mapping[str, Any]) -> None:
        named = [(column, cells.get(column)) for column in PATH_COLUMNS]
        self.files.append([NamedFile(number, line, column, str(path).strip()) for column, path in named if path])

    # --- between tables ---

    def check_references(self) -> None:
        self._check_unique("sessions", "session_id")
        self._check_case()
        self._check_unique("stories", "story_id")
        self._check_unique("participants", "participant_id")
        self._check_unique("ratings", "session_id", "position")
        self._check_unique("ratings", "session_id", "story_id")
        self._check_unique("surveys", "participant_id", "timepoint", "scale")
        self._check_known("phases", "session_id", "sessions")
        self._check_known("ratings", "session_id", "sessions")
        self._check_known("ratings", "story_id", "stories")
        if self.named["participants", "participant_id"] != set():
            self._check_known("sessions", "participant_id", "participants")
            self._check_known("surveys", "participant_id", "participants")
        else:
            self._check_known("surveys", "participant_id", "sessions")
        self._check_phases()

    def _check_unique(self, table: str, *columns: str) -> None:
        keys = (tuple(str(getattr(row, column)) for column in columns) for _, _, row in self.rows[table])
        for key, same in _repeated(keys):
            number, line, _ = self.rows[table][same[0]]
            others = _named_rows([self.rows[table][place][0] for place in same[1:]])
            rule = f"must be unique, but {others} the same {' and '.join(columns)}"
            self.problem(table, (number, line), columns[-1], key[-1], rule, f"unique {columns}")

    def _check_case(self) -> None:
        """Ids that differ in case only are one folder on many file systems."""
        ids = [row.session_id for _, _, row in self.rows["sessions"]]
        for _, same in _repeated(name.lower() for name in ids):
            number, line, row = self.rows["sessions"][same[0]]
            others = [self.rows["sessions"][place][0] for place in same[1:] if ids[place] != row.session_id]
            if others:
                rule = f"must differ in more than case, but {_named_rows(others)} the same letters"
                self.problem("sessions", (number, line), "session_id", row.session_id, rule, "case")

    def _check_known(self, table: str, column: str, other: str) -> None:
        known = self.named.get((other, column))
        if known is None:
            return
        for number, line, row in self.rows[table]:
            if (value := getattr(row, column)) not in known:
                self.problem(table, (number, line), column, value, f"is not in the table '{other}'")
        for number, line, cells in self.faulty[table]:
            value = str(cells.get(column, "")).strip()
            if ID_PATTERN.fullmatch(value) and value not in known:
                self.problem(table, (number, line), column, value, f"is not in the table '{other}'")

    def _check_phases(self) -> None:
        by_session: dict[str, list[tuple[int, int | None, Phase]]] = {}
        for number, line, phase in self.rows["phases"]:
            if phase.end_s > LONGEST_S:
                self._exclude(number, line, phase)
        for number, line, phase in self.rows["phases"]:
            if phase.session_id in self.excluded:
                continue  # what else is wrong with its times shows when these are mended
            if phase.end_s <= phase.start_s:
                rule = f"must be after start_s, which is {phase.start_s}"
                self.problem("phases", (number, line), "end_s", phase.end_s, rule, "backwards")
            else:
                by_session.setdefault(phase.session_id, []).append((number, line, phase))
        for phases in by_session.values():
            phases.sort(key=lambda item: item[2].start_s)
            for (before_number, _, before), (number, line, phase) in pairwise(phases):
                if phase.start_s < before.end_s:
                    rule = (
                        f"overlaps row {before_number} ('{before.phase}' of {before.session_id} ends at {before.end_s})"
                    )
                    self.problem("phases", (number, line), "start_s", phase.start_s, rule, "overlap")

    def _exclude(self, number: int, line: int | None, phase: Phase) -> None:
        rule = (
            "is later than any recording ends: phases are in seconds from the recording's beginning; until this is "
            f"mended, {phase.session_id} gives no clips"
        )
        problem = Problem("phases", number, "end_s", shown_value("phases", "end_s", phase.end_s), rule, line, "absurd")
        self.session_problems.append(problem)
        self.excluded.setdefault(phase.session_id, str(problem))


def _repeated(keys: Iterable[Hashable]) -> Iterator[tuple[Any, list[int]]]:
    """Each key that is there more than once, with its places."""
    places: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return ((key, same) for key, same in places.items() if len(same) > 1)


def _named_rows(rows: list[int]) -> str:
    """The first rows by number, the others counted."""
    named = ", ".join(map(str, rows[:_ROWS_NAMED]))
    more = f" and {len(rows) - _ROWS_NAMED} more" if len(rows) > _ROWS_NAMED else ""
    return f"row {named} has" if len(rows) == 1 else f"rows {named}{more} have"


def _rule(message: str) -> str:
    return "a value is required" if message == "Field required" else message.removeprefix("Value error, ")
