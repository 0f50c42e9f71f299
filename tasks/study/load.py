"""The study: a folder of tables, validated as a whole before any work.

Every row becomes a typed object or a problem; every problem is reported at once, with its table, row and column. A
problem of the tables makes the whole study unusable. A problem of one session (a missing file, phases that cannot be
seconds of a recording) affects that session alone: see :attr:`Study.excluded` and :meth:`Study.path`.

Needs pydantic (the extra ``storyframes[pipeline]``); reading features does not import this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from storyframes.config_file import ConfigFileError, read_toml
from storyframes.spec import MAIN
from storyframes.times import SESSION_CLOCK, Clock
from tasks.media.container import RecordingError, recording_files
from tasks.study.forgotten_ids import ForgottenIds, read_forgotten_ids
from tasks.study.label_rows import curves_of, labels_of, raters_of, schemes_of
from tasks.study.labels import Label, Scheme
from tasks.study.problems import Problem, StudyError, UnusableFileError
from tasks.study.references import (
    LONGEST_S,
    check_forgotten,
    check_references,
    clock_errors_of,
    clocks_of,
    persons_of,
    tracks_of,
)
from tasks.study.rows import (
    TABLES,
    Curve,
    Participant,
    Person,
    Phase,
    Rater,
    Rating,
    Row,
    Session,
    Story,
    Survey,
    Timepoint,
    Track,
    spoken_name,
)
from tasks.study.table_rows import NamedFile, TableRows

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "LONGEST_S",
    "NamedFile",
    "NamedPart",
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

SETTINGS_FILE = "storyframes.toml"
"""The configuration in a study's folder."""
_NOT_MOUNTED = "the folder of [recording] root is not there: mount it, or correct the key in the configuration"
_AS_ROWS = ("sessions", "phases", "ratings", "stories", "surveys", "participants")


class StudyFileError(UnusableFileError, OSError):
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
        schemes: by name, the kinds of labels.
        declared: the schemes of the table ``schemes``; what others are follows from their values alone.
        labels: of the table ``ratings`` (scheme ``empathy``), then those of the table ``labels``.
        curves: files with a scheme's value at many moments.
        raters: by id.
        tracks: by session and name, the files of each device; ``main`` has those of the table of sessions.
        clocks: by session and name, how a device's seconds become the session's.
        clock_errors: by session and name, the standard error of those whose rows say it, seconds.
        persons: the people in the sessions.
        remarks: unusual forms of tables that can mean one thing only, and how they were read.
        digests: by table, the SHA-256 of the bytes that it was read from; empty of a study that is not read from files.
        recordings: the folder of ``[recording] root``, which has the files that the study's own folder lacks. It is
            written nowhere: no store, log, report or release says where recordings are.
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
    schemes: Mapping[str, Scheme] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    labels: tuple[Label, ...] = ()
    curves: tuple[Curve, ...] = ()
    raters: Mapping[str, Rater] = field(default_factory=dict)
    tracks: Mapping[str, Mapping[str, Track]] = field(default_factory=dict)
    clocks: Mapping[str, Mapping[str, Clock]] = field(default_factory=dict)
    clock_errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    persons: tuple[Person, ...] = ()
    remarks: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict, compare=False)
    recordings: Path | None = field(default=None, compare=False, repr=False)

    @cached_property
    def speakers(self) -> Mapping[str, Mapping[str, str]]:
        """By session and :func:`spoken_name`, the role or id that the store has in place of a transcript's speaker."""
        speakers: dict[str, dict[str, str]] = {}
        for person in self.persons:
            if person.transcript_name:
                name = spoken_name(person.transcript_name)
                speakers.setdefault(person.session_id, {})[name] = person.role or person.person_id
        return speakers

    @property
    def forgotten_ids(self) -> ForgottenIds:
        """The list of those whom the study's owner has forgotten.

        Raises:
            ForgottenListError: it is damaged.
        """
        return read_forgotten_ids(self.root)

    @property
    def ids_of_people(self) -> list[str]:
        """The ids of all people in the study, which releases must not contain.

        These are the participants, with or without a session, and the ids of persons that belong to one participant.
        An id that several participants share is a role.
        """
        participants_of: dict[str, set[str]] = {}
        for person in self.persons:
            if person.participant_id:
                participants_of.setdefault(person.person_id, set()).add(person.participant_id)
        return sorted(
            {session.participant_id for session in self.sessions.values()}
            | {participant.participant_id for participant in self.participants}
            | {survey.participant_id for survey in self.surveys}
            | {participant for participants in participants_of.values() for participant in participants}
            | {person for person, participants in participants_of.items() if len(participants) == 1}
        )

    def path(self, relative: str) -> Path:
        """A file that the tables name, or the files of a recording, as a path of this machine.

        Raises:
            StudyFileError: one does not exist, is no file, or leaves the study through a symbolic link.
        """
        folder = self.folder_of(relative)
        for name in recording_names(folder, relative):
            if fault := _file_fault(folder, name, self.folders):
                raise StudyFileError(f"{name}: {fault}")
        return folder / relative

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that files may be in: the study's own, and that of ``[recording] root``."""
        return (self.root,) if self.recordings is None else (self.root, self.recordings)

    def folder_of(self, relative: str) -> Path:
        """The folder that a path of the tables is relative to: the study's own if it has the file."""
        names = () if self.recordings is None else recording_names(self.root, relative)
        if self.recordings is None or any(os.path.lexists(self.root / name) for name in names):
            return self.root
        return self.recordings

    def require_recordings(self) -> None:
        """Check that the folder of ``[recording] root`` is there, before every file of it is reported as missing.

        Raises:
            StudyFileError: it is not.
        """
        if self.recordings is not None and not self.recordings.is_dir():
            raise StudyFileError(_NOT_MOUNTED)

    def table_path(self, table: str) -> Path:
        """The file of a table that the study has."""
        parquet = self.root / f"{table}.parquet"
        return parquet if parquet.is_file() else self.root / f"{table}.csv"

    def frame(self, table: str) -> pd.DataFrame:
        """The table sessions, phases, ratings, stories, surveys or participants, with its specified columns."""
        import pandas as pd  # a fifth of a second, which the registry of extractors and workers do without

        rows: Iterable[Row] = self.sessions.values() if table == "sessions" else getattr(self, table)
        return pd.DataFrame([row.model_dump() for row in rows], columns=list(TABLES[table].model_fields))

    def clock(self, session_id: str, track: str | None) -> Clock:
        """The clock of a track's recording; of the session itself (``None`` or ``main``) the session's own.

        Raises:
            KeyError: the session has no such track.
        """
        if track is None or track == MAIN:
            return SESSION_CLOCK
        name = self.tracks[session_id][track].clock
        return SESSION_CLOCK if name is None else self.clocks[session_id][name]


@dataclass(frozen=True)
class NamedPart:
    """The end of a phase or a label, in seconds of a recording: of a track's, or (``None``) of the session's."""

    table: str
    row: int
    line: int | None
    session_id: str
    track: str | None
    end_s: float


@dataclass(frozen=True)
class Reading:
    """A study as it was read, valid or not."""

    study: Study  # of the valid rows
    problems: list[Problem]  # of the tables: with any of them the study cannot be used
    session_problems: list[Problem]  # why a session is in :attr:`Study.excluded`
    # the files that each row names, those of sessions first; also of rows with other faults
    files: list[list[NamedFile]]
    parts: list[NamedPart]  # of recordings that phases and labels name


def load_study(root: Path, *, with_forgotten: bool = False, recordings: Path | None = None) -> Study:
    """Read and validate the tables of the study at ``root``; the files that they name are checked when they are used.

    Args:
        with_forgotten: allow rows about those whom the study's owner has forgotten.
        recordings: ``[recording] root`` of the configuration; None takes that of the study's own ``storyframes.toml``.

    Raises:
        StudyError: with every problem found.
        ForgottenListError: the list of the forgotten cannot be read.
    """
    reading = read_study(root, with_forgotten=with_forgotten, recordings=recordings)
    if reading.problems:
        raise StudyError(root, reading.problems)
    return reading.study


def load_stories(path: Path) -> list[Story]:
    """Read and validate the table of stories alone.

    Raises:
        StudyError: with every problem found.
    """
    tables = TableRows(path.parent, paths={"stories": path})
    tables.read("stories")
    tables.check_unique("stories", "story_id")
    if tables.problems:
        raise StudyError(path.parent, in_order(tables.problems))
    return tables.of("stories")


def read_study(root: Path, *, with_forgotten: bool = False, recordings: Path | None = None) -> Reading:
    """Read the tables of the study at ``root``, and collect all problems; see :func:`load_study`.

    Raises:
        ForgottenListError: the list of the forgotten cannot be read.
    """
    tables = TableRows(root.resolve())
    if tables.find_tables():
        for table in TABLES:
            tables.read(table)
        check_references(tables)
        if not with_forgotten:
            check_forgotten(tables, read_forgotten_ids(tables.root))
    schemes = schemes_of(tables)
    study = Study(
        tables.root,
        {row.session_id: row for row in tables.of("sessions")},
        **{table: tuple(tables.of(table)) for table in _AS_ROWS if table != "sessions"},
        schemes=schemes,
        declared=frozenset(row.scheme for row in tables.of("schemes")),
        raters=raters_of(tables),
        persons=persons_of(tables),
        clocks=clocks_of(tables),
        clock_errors=clock_errors_of(tables),
        tracks=tracks_of(tables),
        labels=labels_of(tables, schemes),
        curves=curves_of(tables, schemes),
        excluded=tables.excluded,
        unread=tables.unread,
        remarks=tuple(tables.remarks),
        digests=tables.digests,
        recordings=Path(os.path.realpath(recordings)) if recordings else recordings_root(tables.root),
    )
    parts = [
        NamedPart(table, number, line, row.session_id, getattr(row, "track", None), row.end_s)
        for table in ("phases", "labels")
        for number, line, row in tables.rows[table]
        if row.end_s is not None and row.session_id not in tables.excluded
    ]
    return Reading(study, in_order(tables.problems), tables.session_problems, tables.files, parts)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems, sorted by table and row."""
    order = {table: position for position, table in enumerate(TABLES)}
    return sorted(problems, key=lambda problem: (order.get(problem.table, -1), problem.row or 0))


def recordings_root(root: Path) -> Path | None:
    """``[recording] root`` of the configuration in a study's folder; a relative path is relative to this folder.

    A configuration that cannot be read names none: what is given it as ``--config`` refuses it.
    """
    with suppress(OSError, ConfigFileError, AttributeError, ValueError):
        named = read_toml(root / SETTINGS_FILE).get("recording", {}).get("root")
        return Path(os.path.realpath(root / named)) if named and isinstance(named, str) else None
    return None


def recording_names(root: Path, relative: str) -> list[str]:
    """The files of a recording that a study's table names, each relative to the study's folder."""
    if "+" not in relative:
        return [relative]
    try:
        return [file.relative_to(root).as_posix() for file in recording_files(root / relative)]
    except (RecordingError, ValueError):
        return [relative]  # the check of its row refuses it


def _file_fault(folder: Path, relative: str, folders: tuple[Path, ...]) -> str:
    """Why a file below ``folder`` cannot be used; empty if it can, and is inside one of the folders."""
    try:
        path = (folder / relative).resolve(strict=True)
        if not any(path.is_relative_to(allowed.resolve()) for allowed in folders):
            if len(folders) > 1:
                return "leaves the study folder and that of [recording] root through a symbolic link"
            return (
                "leaves the study folder through a symbolic link: [recording] root of the configuration can name the "
                "folder that it leads to"
            )
        return "" if path.is_file() else "is not a file"
    except FileNotFoundError:
        if not folder.is_dir() and folder != folders[0]:
            return _NOT_MOUNTED
        if os.path.islink(folder / relative):
            return (
                "the file does not exist: it is a link to nothing ('datalad get' fetches a file of a DataLad data set)"
            )
        return "the file does not exist"
    except (OSError, RuntimeError, ValueError) as error:
        return f"the file cannot be reached ({type(error).__name__})"
