"""What has to agree between the rows of sessions, phases, ratings, stories, surveys and participants."""

from __future__ import annotations

from itertools import pairwise

from tasks.study.problems import Problem, shown_value
from tasks.study.rows import Phase
from tasks.study.table_rows import TableRows, named_rows, repeated

LONGEST_S = 86_400.0  # no recording is longer than a day; what lies beyond it was not counted from its beginning


def check_references(tables: TableRows) -> None:
    """Add the problems that no row has by itself."""
    tables.check_unique("sessions", "session_id")
    _check_case(tables)
    tables.check_unique("stories", "story_id")
    tables.check_unique("participants", "participant_id")
    tables.check_unique("ratings", "session_id", "position")
    tables.check_unique("ratings", "session_id", "story_id")
    tables.check_unique("surveys", "participant_id", "timepoint", "scale")
    tables.check_known("phases", "session_id", "sessions")
    tables.check_known("ratings", "session_id", "sessions")
    tables.check_known("ratings", "story_id", "stories")
    if tables.has("participants"):
        tables.check_known("sessions", "participant_id", "participants")
    tables.check_known("surveys", "participant_id", people(tables))
    _check_phases(tables)


def people(tables: TableRows) -> str:
    """The table that says who takes part."""
    return "participants" if tables.has("participants") else "sessions"


def exclude(
    tables: TableRows, table: str, place: tuple[int, int | None], session_id: str, column: str, at_s: float
) -> None:
    """This session gives no clips: a time of its is no second of a recording."""
    rule = (
        f"is later than any recording ends: {table} are in seconds from the recording's beginning; until this is "
        f"mended, {session_id} gives no clips"
    )
    problem = Problem(table, place[0], column, shown_value(table, column, at_s), rule, place[1], "absurd")
    tables.session_problems.append(problem)
    tables.excluded.setdefault(session_id, str(problem))


def _check_case(tables: TableRows) -> None:
    """Ids that differ in case only are one folder on many file systems."""
    ids = [row.session_id for row in tables.of("sessions")]
    for _, same in repeated(name.lower() for name in ids):
        number, line, row = tables.rows["sessions"][same[0]]
        others = [tables.rows["sessions"][place][0] for place in same[1:] if ids[place] != row.session_id]
        if others:
            rule = f"must differ in more than case, but {named_rows(others)} the same letters"
            tables.problem("sessions", (number, line), "session_id", row.session_id, rule, "case")


def _check_phases(tables: TableRows) -> None:
    by_session: dict[str, list[tuple[int, int | None, Phase]]] = {}
    for number, line, phase in tables.rows["phases"]:
        if phase.end_s > LONGEST_S:
            exclude(tables, "phases", (number, line), phase.session_id, "end_s", phase.end_s)
    for number, line, phase in tables.rows["phases"]:
        if phase.session_id in tables.excluded:
            continue  # what else is wrong with its times shows when these are mended
        if phase.end_s <= phase.start_s:
            rule = f"must be after start_s, which is {phase.start_s}"
            tables.problem("phases", (number, line), "end_s", phase.end_s, rule, "backwards")
        else:
            by_session.setdefault(phase.session_id, []).append((number, line, phase))
    for phases in by_session.values():
        phases.sort(key=lambda item: item[2].start_s)
        for (before_number, _, before), (number, line, phase) in pairwise(phases):
            if phase.start_s < before.end_s:
                rule = f"overlaps row {before_number} ('{before.phase}' of {before.session_id} ends at {before.end_s})"
                tables.problem("phases", (number, line), "start_s", phase.start_s, rule, "overlap")
