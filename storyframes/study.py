"""The study: a folder of tables, validated as a whole before any work.

Every row becomes a typed object or a problem; every problem is reported at once, with its table, row and column.
Ids and paths come from people's spreadsheets and end up in file names and command lines, so they are not trusted.

Needs pydantic (the extra ``storyframes[pipeline]``); reading features does not import this module.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import pandas as pd
import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from storyframes.features import STORIES
from storyframes.layout import ID_PATTERN


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a study.

    Attributes:
        table: the table's name.
        row: counted from 1 below the header; None where the table as a whole is meant.
        column: the column, or empty.
        value: what stands there, shortened; never a story's text.
        rule: what it breaks, and what to do.
    """

    table: str
    row: int | None
    column: str
    value: str
    rule: str

    def __str__(self) -> str:
        where = self.table + (f", row {self.row}" if self.row is not None else "")
        what = f", {self.column} = {self.value}" if self.column else ""
        return f"{where}{what}: {self.rule}"


class StudyError(Exception):
    """The study cannot be used; ``problems`` lists everything that is wrong."""

    def __init__(self, root: Path, problems: list[Problem]) -> None:
        self.root = root
        self.problems = problems
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{root}: {len(problems)} problem{'s' * (len(problems) != 1)}\n{lines}")


# --- The rows --------------------------------------------------------------------------------------------------------


def _safe_id(value: str) -> str:
    if not ID_PATTERN.fullmatch(value):
        raise ValueError("an id has letters, digits, '.', '_' and '-', at most 64, first a letter or a digit")
    return value


def _session_id(value: str) -> str:
    if value == STORIES:
        raise ValueError(f"'{STORIES}' is reserved: the feature store keeps the story texts' features there")
    return _safe_id(value)


def _relative_path(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\\" in value:
        raise ValueError("a path is relative to the study folder and never leaves it")
    if any(ord(character) < 32 for character in value):
        raise ValueError("a path has no control characters")
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Id = Annotated[str, AfterValidator(_safe_id)]
SessionId = Annotated[str, AfterValidator(_session_id)]
StudyPath = Annotated[str, AfterValidator(_relative_path)]
Seconds = Annotated[float, Field(ge=0), AfterValidator(_finite)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, str_strip_whitespace=True)


class Timepoint(StrEnum):
    """When a survey was taken."""

    PRE = "pre"
    MID = "mid"
    POST = "post"


class Session(_Row):
    """One recorded conversation; paths are relative to the study."""

    session_id: SessionId
    participant_id: Id
    video: StudyPath
    audio: StudyPath | None = None
    transcript: StudyPath | None = None
    openface: StudyPath | None = None
    recorded_at: datetime | None = None


class Phase(_Row):
    """One part of a session, in seconds of the recording: start_s <= t < end_s."""

    session_id: SessionId
    phase: Id
    start_s: Seconds
    end_s: Seconds


class Rating(_Row):
    """How much empathy the participant felt for one of the session's stories."""

    session_id: SessionId
    story_id: Id
    position: int = Field(ge=1, le=3)
    empathy: int = Field(ge=1, le=5)


class Story(_Row):
    """One story that sessions tell."""

    story_id: Id
    text: str = Field(min_length=1)


class Survey(_Row):
    """One score of one participant."""

    participant_id: Id
    timepoint: Timepoint
    scale: Id
    score: Annotated[float, AfterValidator(_finite)]


class Participant(_Row):
    """One participant, with whatever else the study knows."""

    model_config = ConfigDict(extra="allow", frozen=True, str_strip_whitespace=True)

    participant_id: Id


_TABLES: dict[str, type[_Row]] = {
    "sessions": Session,
    "phases": Phase,
    "ratings": Rating,
    "stories": Story,
    "surveys": Survey,
    "participants": Participant,
}
_PATH_COLUMNS = ("video", "audio", "transcript", "openface")
_PRIVATE_COLUMNS = {("stories", "text")}


@dataclass(frozen=True)
class Study:
    """A valid study.

    Attributes:
        root: its folder.
        sessions: by session_id, in the table's order.
        phases, ratings, stories, surveys, participants: the rows; empty where the study has no such table.
    """

    root: Path
    sessions: Mapping[str, Session]
    phases: tuple[Phase, ...] = ()
    ratings: tuple[Rating, ...] = ()
    stories: tuple[Story, ...] = ()
    surveys: tuple[Survey, ...] = ()
    participants: tuple[Participant, ...] = ()

    def path(self, relative: str) -> Path:
        """A path of the tables as a path of this machine."""
        return self.root / relative

    def table_path(self, table: str) -> Path:
        """The file of a table that the study has."""
        parquet = self.root / f"{table}.parquet"
        return parquet if parquet.is_file() else self.root / f"{table}.csv"

    def frame(self, table: str) -> pd.DataFrame:
        """A table as a DataFrame with the columns of its specification."""
        rows: Iterable[_Row] = self.sessions.values() if table == "sessions" else getattr(self, table)
        return pd.DataFrame([row.model_dump() for row in rows], columns=list(_TABLES[table].model_fields))


def load_study(root: Path, *, check_files: bool = True) -> Study:
    """Read and validate the study at ``root``.

    Args:
        root: the study's folder.
        check_files: also ask that the files named in the tables exist.

    Raises:
        StudyError: with every problem found.
    """
    if not root.is_dir():
        raise StudyError(root, [Problem("study", None, "", "", "is not a folder")])
    loader = _Loader(root.resolve())
    for table in _TABLES:
        loader.read(table)
    loader.check_references()
    if check_files:
        loader.check_files()
    if loader.problems:
        raise StudyError(root, sorted(loader.problems, key=lambda p: (list(_TABLES).index(p.table), p.row or 0)))
    rows = {table: tuple(row for _, row in loader.rows[table]) for table in _TABLES}
    return Study(loader.root, {row.session_id: row for row in rows.pop("sessions")}, **rows)


@dataclass
class _Loader:
    """Gathers the rows and the problems of one study."""

    root: Path
    problems: list[Problem] = field(default_factory=list)
    rows: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    # Every id that a table names, also in rows with other faults: one fault is not reported all over again.
    named: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def problem(self, table: str, row: int | None, column: str, value: object, rule: str) -> None:
        shown = f"({len(str(value))} characters)" if (table, column) in _PRIVATE_COLUMNS else repr(_short(value))
        self.problems.append(Problem(table, row, column, shown if column else "", rule))

    # --- one table ---

    def read(self, table: str) -> None:
        self.rows[table] = []
        raw = self._read_raw(table)
        if raw is None:
            return
        model = _TABLES[table]
        if not self._check_columns(table, list(raw.columns), model):
            return
        for column in ("session_id", "story_id", "participant_id"):
            if column in raw:
                self.named[table, column] = {str(value).strip() for value in raw[column]}
        for number, values in enumerate(raw.to_dict("records"), start=1):
            present = {column: value for column, value in values.items() if not _is_empty(value)}
            try:
                self.rows[table].append((number, model.model_validate(present)))
            except ValidationError as error:
                for fault in error.errors(include_url=False, include_context=False):
                    column = str(fault["loc"][0])
                    self.problem(table, number, column, values.get(column, ""), _rule(fault["msg"]))

    def _read_raw(self, table: str) -> pd.DataFrame | None:
        there = [path for suffix in (".csv", ".parquet") if (path := self.root / f"{table}{suffix}").is_file()]
        if len(there) > 1:
            self.problem(table, None, "", "", "is there both as .csv and as .parquet: keep one")
            return None
        if not there:
            if table == "sessions":
                self.problem(table, None, "", "", "there is no sessions.csv or sessions.parquet: every study has one")
            return None
        try:
            if there[0].suffix == ".parquet":
                return pd.read_parquet(there[0]).astype(object)
            return pd.read_csv(there[0], dtype=str, keep_default_na=False, encoding="utf-8-sig", index_col=False)
        except (pa.ArrowException, pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            self.problem(table, None, "", "", f"{there[0].name} cannot be read: {reason}")
            return None

    def _check_columns(self, table: str, columns: list[str], model: type[_Row]) -> bool:
        known = model.model_fields
        absent = [name for name, info in known.items() if info.is_required() and name not in columns]
        for name in absent:
            self.problem(table, None, "", "", f"the column {name!r} is missing")
        for column in columns:
            close = difflib.get_close_matches(column, known, n=1, cutoff=0.75)
            if column not in known and close and close[0] not in columns:
                self.problem(table, None, "", "", f"the column {column!r} is unknown: is {close[0]!r} meant?")
        return not absent

    # --- between tables ---

    def check_references(self) -> None:
        self._check_unique("sessions", "session_id")
        self._check_unique("stories", "story_id")
        self._check_unique("participants", "participant_id")
        self._check_unique("ratings", "session_id", "position")
        self._check_unique("ratings", "session_id", "story_id")
        self._check_unique("surveys", "participant_id", "timepoint", "scale")
        self._check_known("phases", "session_id", "sessions")
        self._check_known("ratings", "session_id", "sessions")
        self._check_known("ratings", "story_id", "stories")
        if self.rows["participants"]:
            self._check_known("sessions", "participant_id", "participants")
            self._check_known("surveys", "participant_id", "participants")
        else:
            self._check_known("surveys", "participant_id", "sessions")
        self._check_phases()

    def _check_unique(self, table: str, *columns: str) -> None:
        keys = [(number, tuple(str(getattr(row, column)) for column in columns)) for number, row in self.rows[table]]
        counts = Counter(key for _, key in keys)
        for number, key in keys:
            if counts[key] > 1:
                same = [str(other) for other, other_key in keys if other_key == key and other != number]
                rule = f"must be unique, but row {', '.join(same)} has the same {' and '.join(columns)}"
                self.problem(table, number, columns[-1], key[-1], rule)

    def _check_known(self, table: str, column: str, other: str) -> None:
        known = self.named.get((other, column), set())
        for number, row in self.rows[table]:
            value = getattr(row, column)
            if value not in known:
                self.problem(table, number, column, value, f"is not in the table '{other}'")

    def _check_phases(self) -> None:
        by_session: dict[str, list[tuple[int, Phase]]] = {}
        for number, phase in self.rows["phases"]:
            if phase.end_s <= phase.start_s:
                self.problem("phases", number, "end_s", phase.end_s, f"must be after start_s, which is {phase.start_s}")
            else:
                by_session.setdefault(phase.session_id, []).append((number, phase))
        for phases in by_session.values():
            phases.sort(key=lambda item: item[1].start_s)
            for (before_number, before), (number, phase) in pairwise(phases):
                if phase.start_s < before.end_s:
                    rule = (
                        f"overlaps row {before_number} ('{before.phase}' of {before.session_id} ends at {before.end_s})"
                    )
                    self.problem("phases", number, "start_s", phase.start_s, rule)

    # --- files ---

    def check_files(self) -> None:
        for number, session in self.rows["sessions"]:
            for column in _PATH_COLUMNS:
                if (relative := getattr(session, column)) and (fault := self._file_fault(relative)):
                    self.problem("sessions", number, column, relative, fault)

    def _file_fault(self, relative: str) -> str:
        try:
            path = (self.root / relative).resolve(strict=True)
        except FileNotFoundError:
            return "the file does not exist"
        except (OSError, RuntimeError) as error:
            return f"the file cannot be reached ({type(error).__name__})"
        if not path.is_relative_to(self.root):
            return "leaves the study folder through a symbolic link"
        return "" if path.is_file() else "is not a file"


def _is_empty(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value)) or value is pd.NaT


def _short(value: object, limit: int = 60) -> str:
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _rule(message: str) -> str:
    return "a value is required" if message == "Field required" else message.removeprefix("Value error, ")
