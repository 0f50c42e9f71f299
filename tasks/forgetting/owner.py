"""Rows and files that are the study owner's: they are named, and changed only where the owner asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storyframes.store.layout import ZARR_JSON
from tasks.forgetting.scope import ForgetError, Scope
from tasks.study.changed_tables import TableChangeError, open_table, problems_with
from tasks.study.load import read_study, recording_names, recordings_root
from tasks.study.rows import PATH_COLUMNS, TABLES
from tasks.study.strict_tables import is_empty


@dataclass(frozen=True)
class Remaining:
    """What the study itself still has of the forgotten.

    Attributes:
        rows: by table, the rows as a spreadsheet numbers them.
        files: the existing files that these rows name, and those that are named after a session, each with its path in
            the study or below ``[recording] root``.
        tables: by file name, the tables without these rows.
    """

    rows: dict[str, list[int]]
    files: dict[Path, str]
    tables: dict[str, bytes]


def remaining(root: Path, scope: Scope) -> Remaining:
    """What the study itself still has of the forgotten.

    Raises:
        ForgetError: a table cannot be read.
    """
    rows: dict[str, list[int]] = {}
    tables: dict[str, bytes] = {}
    ours: set[str] = set()
    others: set[str] = set()
    for name in TABLES:
        try:
            table = open_table(root, name)
        except TableChangeError as error:
            raise ForgetError(str(error)) from None
        kept = []
        for number, row in enumerate(table.rows, start=2):
            is_about = _is_about(row, scope)
            (ours if is_about else others).update(_paths(root, row))
            if is_about:
                rows.setdefault(name, []).append(number)
            else:
                kept.append(row)
        if len(kept) < len(table.rows):
            table.rows = kept
            tables[table.name] = table.content()
    ours |= set(_named_after(root, scope))  # rows that were taken out before named them
    folders = [root, *filter(None, [recordings_root(root)])]
    named = ((folder / path, path) for path in sorted(ours - others) for folder in folders)
    files = {path: name for path, name in named if path.is_file()}
    return Remaining(rows, files, tables)


def _named_after(root: Path, scope: Scope) -> Iterator[str]:
    """The files of the study's folder that are named after the forgotten, without those in feature stores."""
    for folder, folders, files in os.walk(root):
        if ZARR_JSON in files:
            folders.clear()
        else:
            names = [name for name in files if scope.names_file(name)]
            yield from (Path(folder, name).relative_to(root).as_posix() for name in names)


def _is_about(row: dict[str, object], scope: Scope) -> bool:
    cells = {name: str(row.get(name) or "").strip() for name in ("session_id", "participant_id", "person_id", "track")}
    is_of_person = cells["participant_id"] in scope.ids.people or cells["person_id"] in scope.ids.people
    is_of_track = (cells["session_id"], cells["track"]) in scope.ids.tracks
    return cells["session_id"] in scope.ids.sessions or is_of_person or is_of_track


def _paths(root: Path, row: dict[str, object]) -> Iterator[str]:
    for name in PATH_COLUMNS:
        if not is_empty(row.get(name)):
            yield from recording_names(root, str(row[name]).strip())


def check_without(root: Path, found: Remaining) -> None:
    """Check that the tables without the rows have no fault that they do not have now.

    Raises:
        ForgetError: they would have one.
    """
    before = {(problem.table, problem.rule) for problem in read_study(root, with_forgotten=True).problems}
    after = problems_with(root, found.tables, of_all=True)
    wrong = [problem for problem in after if (problem.table, problem.rule) not in before]
    if wrong:
        raise ForgetError(
            f"--tables: without these rows the tables would not be valid, so nothing was changed: {wrong[0]}. Take out "
            "these rows yourself, or forget the --participant as a whole"
        )
