"""The study's tables with imported labels: checked as a whole, with faults named by the rows of the imported files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from storyframes_labels.annotation_file import ImportFaultError
from storyframes_labels.curve_files import CurveFile, write_curves
from tasks.study import (
    ChangedTables,
    Scheme,
    Study,
    Table,
    TableChangeError,
)

_ROWS = re.compile(r"\brows? \d+(?:, \d+)*")
_FIRST_ROW = 2  # below the header


def changed_tables(
    root: Path,
    added: Mapping[str, Sequence[Mapping[str, str]]],
    answered: Mapping[str, Scheme],
    origins: Sequence[str],
) -> ChangedTables:
    """The tables with these rows and answers, checked as a part of the study.

    Args:
        added: the rows, by table.
        answered: declared schemes with new answers.
        origins: where in the files each row of the table labels comes from.

    Raises:
        ImportFaultError: a table cannot be changed, or the study would not be valid.
    """
    changed, first = ChangedTables(root), 0
    try:
        for name, rows in added.items():
            if not rows and not (name == "schemes" and answered):
                continue
            table = changed.open(name)
            if name == "labels":
                first = len(table.rows) + _FIRST_ROW
            if name == "schemes":
                rows = [*rows, *_keep_answers(table.rows, table.columns, answered)]
            table.add(rows)
            changed.take(table)
    except TableChangeError as error:
        raise ImportFaultError(str(error)) from None
    try:
        changed.check("labels")
    except TableChangeError as error:
        lines = "\n".join(f"  {line}" for line in _in_the_files(error, first, origins))
        raise ImportFaultError(
            f"with these labels the study would not be valid; nothing is written:\n{lines}"
        ) from None
    return changed


def _keep_answers(
    of_table: Sequence[dict[str, Any]], columns: list[str], answered: Mapping[str, Scheme]
) -> list[dict[str, str]]:
    """Write the answers into the rows of their schemes; the rows of schemes that have none, as that of ratings."""
    rows = {str(row.get("scheme") or "").strip(): row for row in of_table}
    for name, scheme in answered.items():
        if name in rows:
            cells = answers(scheme)
            columns += [column for column in cells if column not in columns]
            rows[name] |= cells
    return [scheme_row(scheme) for name, scheme in answered.items() if name not in rows]


def _in_the_files(error: TableChangeError, first: int, origins: Sequence[str]) -> Iterator[str]:
    """The problems with the rows of the imported files; ``first`` is the first new row of the table labels."""

    def named(number: re.Match[str]) -> str:
        index = int(number[0]) - first
        return f"({origins[index]})" if 0 <= index < len(origins) else number[0]

    for problem in error.problems:
        rule = _ROWS.sub(lambda rows: re.sub(r"\d+", named, rows[0]), problem.rule)
        if problem.table != "labels":
            yield str(problem)
        elif problem.row is None or problem.row < first:
            yield str(replace(problem, rule=rule))
        else:
            yield f"{origins[problem.row - first]}: {problem.column} = {problem.value}: {rule}"


def write_tables(changed: ChangedTables, curves: Sequence[CurveFile]) -> None:
    """Write the tables and, before them, the curves' files."""
    try:
        write_curves(changed.root, curves)
        changed.put_in_place()  # schemes first: one without labels is a valid study
    except OSError:
        for curve in curves:
            (changed.root / curve.row["path"]).unlink(missing_ok=True)
        raise


def new_persons(study: Study, rows: Sequence[Mapping[str, str]], but: str | None) -> list[dict[str, str]]:
    """The persons of these rows whom the study does not know, who are no participants yet.

    Args:
        but: whom the user names: a person of the study, or a mistake.
    """
    known = {(person.session_id, person.person_id) for person in study.persons}
    named = dict.fromkeys((row["session_id"], row["person_id"]) for row in rows if row.get("person_id"))
    return [
        {"session_id": session, "person_id": person}
        for session, person in named
        if (session, person) not in known and person != but
    ]


def scheme_row(scheme: Scheme) -> dict[str, str]:
    limits = {"min": scheme.minimum, "max": scheme.maximum}
    cells = {name: str(Table.as_words(limit)) for name, limit in limits.items() if limit is not None}
    labels = "|".join(scheme.labels)
    return {"scheme": scheme.name, "type": scheme.type, **cells, "labels": labels, **answers(scheme)}


def answers(scheme: Scheme) -> dict[str, str]:
    """The cells of a scheme that say which values are missing."""
    cells = {"missing": "|".join(scheme.missing), "not_missing": "|".join(scheme.not_missing)}
    return {name: cell for name, cell in cells.items() if cell}
