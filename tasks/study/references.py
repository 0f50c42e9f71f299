"""Checks between the rows of a study's tables; and the persons, clocks and tracks that the rows describe.

The checks of labels and curves are in ``label_rows``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from storyframes.spec import MAIN
from storyframes.times import ABSURD_PPM, Clock
from tasks.study.forgotten_ids import NAME, ForgottenIds
from tasks.study.labels import did_you_mean
from tasks.study.problems import Problem, shown_value
from tasks.study.rows import NO_FILE, TIMED_FILES, Person, Track, spoken_name
from tasks.study.table_rows import Placed, TableRows, named_rows, repeated

LONGEST_S = 86_400.0  # no recording is longer than a day; a later time was not counted from the recording's beginning
_FORGOTTEN = (
    f"is in the study's list of the forgotten, {NAME}: take the row out ('storyframes forget STUDY STORE --tables' "
    "does), or give a new recording another id"
)
_FILES = ("video", "audio", "transcript", "openface")


def check_references(tables: TableRows) -> None:
    """Check the tables sessions, phases, ratings, stories, surveys and participants against each other."""
    tables.check_unique("sessions", "session_id")
    tables.check_case("sessions", "session_id")
    for placed in tables.rows["sessions"]:
        if not any(getattr(placed.row, column) for column in TIMED_FILES):
            tables.problem("sessions", placed, "video", NO_FILE)
    tables.check_unique("stories", "story_id")
    tables.check_unique("participants", "participant_id")
    tables.check_unique("ratings", "session_id", "position")
    tables.check_unique("ratings", "session_id", "story_id")
    tables.check_unique("surveys", "participant_id", "timepoint", "scale")
    tables.check_known("phases", "session_id", "sessions", hint=True)
    tables.check_known("ratings", "session_id", "sessions", hint=True)
    tables.check_known("ratings", "story_id", "stories", hint=True)
    if tables.has("participants"):
        tables.check_known("sessions", "participant_id", "participants", hint=True)
    tables.check_known("surveys", "participant_id", _table_of_participants(tables), hint=True)
    _check_phases(tables)


def check_forgotten(tables: TableRows, forgotten: ForgottenIds) -> None:
    """Refuse rows about sessions, people and tracks that the study's owner has forgotten."""
    if not forgotten:
        return
    columns = {"session_id": forgotten.sessions, "participant_id": forgotten.people, "person_id": forgotten.people}
    for table, rows in tables.rows.items():
        for placed in rows:
            for column, names in columns.items():
                if getattr(placed.row, column, None) in names:
                    tables.problem(table, placed, column, _FORGOTTEN, "forgotten")
                    break
            else:
                track = getattr(placed.row, "session_id", None), getattr(placed.row, "track", None)
                if track in forgotten.tracks:
                    tables.problem(table, placed, "track", _FORGOTTEN, "forgotten")


def _table_of_participants(tables: TableRows) -> str:
    return "participants" if tables.has("participants") else "sessions"


def exclude(tables: TableRows, table: str, placed: Placed) -> None:
    """Exclude the row's session from the clips: its ``end_s`` is no second of a recording."""
    session_id = placed.row.session_id
    rule = (
        f"is later than any recording ends: {table} are in seconds from the recording's beginning; until this is "
        f"corrected, {session_id} gives no clips"
    )
    shown = shown_value(table, "end_s", placed.row.end_s)
    problem = Problem(table, placed.number, "end_s", shown, rule, placed.line, "absurd")
    tables.session_problems.append(problem)
    tables.excluded.setdefault(session_id, str(problem))


def _check_phases(tables: TableRows) -> None:
    for placed in tables.rows["phases"]:
        if placed.row.end_s > LONGEST_S:
            exclude(tables, "phases", placed)
    by_session: dict[str, list[Placed]] = {}
    for placed in tables.rows["phases"]:
        phase = placed.row
        if phase.session_id in tables.excluded:
            continue  # other faults of its times are reported when these are corrected
        if phase.end_s <= phase.start_s:
            tables.problem("phases", placed, "end_s", f"must be after start_s, which is {phase.start_s}", "backwards")
        else:
            by_session.setdefault(phase.session_id, []).append(placed)
    for phases in by_session.values():
        phases.sort(key=lambda placed: placed.row.start_s)
        for (number, _, before), placed in pairwise(phases):
            if placed.row.start_s < before.end_s:
                rule = f"overlaps row {number} ('{before.phase}' of {before.session_id} ends at {before.end_s})"
                tables.problem("phases", placed, "start_s", rule, "overlap")


def persons_of(tables: TableRows) -> tuple[Person, ...]:
    """The people of the sessions, in the table's order."""
    tables.check_unique("persons", "session_id", "person_id")
    tables.check_known("persons", "session_id", "sessions", hint=True)
    tables.check_known("persons", "participant_id", _table_of_participants(tables), hint=True)
    named = [placed for placed in tables.rows["persons"] if placed.row.transcript_name]
    for _, first, others in repeated(named, lambda row: (row.session_id, spoken_name(row.transcript_name))):
        rule = f"must be of one person of the session, but {named_rows(others)} the same"
        tables.problem("persons", first, "transcript_name", rule)
    return tuple(tables.of("persons"))


# --- clocks ----------------------------------------------------------------------------------------------------------


def clocks_of(tables: TableRows) -> dict[str, dict[str, Clock]]:
    """The valid clocks, by session and name."""
    tables.check_known("clocks", "session_id", "sessions", hint=True)
    rows: dict[tuple[str, str], list[Placed]] = {}
    for placed in tables.rows["clocks"]:
        rows.setdefault((placed.row.session_id, placed.row.clock), []).append(placed)
    clocks: dict[str, dict[str, Clock]] = {}
    for (session_id, name), moments in rows.items():
        moments.sort(key=lambda placed: placed.row.clock_s)
        if clock := _clock(tables, name, moments):
            clocks.setdefault(session_id, {})[name] = clock
    _check_used(tables, rows)
    return clocks


def clock_errors_of(tables: TableRows) -> dict[str, dict[str, float]]:
    """The largest ``error_s`` of each clock that has any, by session and name."""
    errors: dict[str, dict[str, float]] = {}
    for row in tables.of("clocks"):
        if row.error_s is not None:
            of_session = errors.setdefault(row.session_id, {})
            of_session[row.clock] = max(row.error_s, of_session.get(row.clock, 0.0))
    return errors


def _clock(tables: TableRows, name: str, moments: list[Placed]) -> Clock | None:
    for (_, _, before), placed in pairwise(moments):
        if placed.row.clock_s == before.clock_s:
            rule = f"occurs twice for the clock {name!r}: a clock has one session_s at each moment"
            tables.problem("clocks", placed, "clock_s", rule, "twice")
            return None
        if placed.row.session_s <= before.session_s:
            rule = (
                f"must increase with clock_s, but is {before.session_s} at clock_s = {before.clock_s} already: a clock "
                "never runs backwards"
            )
            tables.problem("clocks", placed, "session_s", rule, "backwards")
            return None
    rows = [placed.row for placed in moments]
    clock = Clock(name, tuple(row.clock_s for row in rows), tuple(row.session_s for row in rows))
    for placed, ppm in zip(moments[1:], clock.drifts_ppm, strict=True):
        if not abs(ppm) <= ABSURD_PPM:
            fast = "fast" if ppm > 0 else "slow"
            rule = (
                f"makes the clock {name!r} run {abs(ppm):.0f} ppm {fast} since the moment before, and no device is off "
                f"by more than {ABSURD_PPM:.0f} ppm: is the moment right, and of this recording?"
            )
            tables.problem("clocks", placed, "session_s", rule, "drift")
            return None
    return clock


def _check_used(tables: TableRows, clocks: Mapping[tuple[str, str], list[Placed]]) -> None:
    """Report clocks that no track names: they correct nothing, and nobody would see it."""
    named = tables.ids("tracks", "session_id", "clock")
    if named is None and tables.has("tracks") and tables.ids("tracks", "session_id") is None:
        return  # rows of it may have been lost
    for key, moments in clocks.items():
        if key not in (named or set()):
            rule = "is the clock of no track of this session: name it in the column 'clock' of the table 'tracks'"
            tables.problem("clocks", moments[0], "clock", rule, "unused")


# --- tracks ----------------------------------------------------------------------------------------------------------


def tracks_of(tables: TableRows) -> dict[str, dict[str, Track]]:
    """The tracks by session and name; ``main`` has the files of the table of sessions."""
    tables.check_known("tracks", "session_id", "sessions", hint=True)
    cure = "'storyframes sync' measures clocks that have no rows, by their sound"
    tables.check_known("tracks", ("session_id", "clock"), "clocks", hint=True, cure=cure)
    tables.check_known("tracks", ("session_id", "person_id"), "persons", hint=True)
    tables.check_unique("tracks", "session_id", "track")
    tables.check_case("tracks", "session_id", "track")
    tracks = {
        row.session_id: {
            MAIN: Track(row.session_id, MAIN, **{column: getattr(row, column) for column in (*_FILES, "language")})
        }
        for row in tables.of("sessions")
    }
    regions: list[Placed] = []
    for placed in tables.rows["tracks"]:
        row = placed.row
        if row.track.lower() == MAIN:
            rule = f"is the track of the table 'sessions', whose files belong to {MAIN!r}: name this one otherwise"
            tables.problem("tracks", placed, "track", rule, "main")
        elif row.region is not None:
            regions.append(placed)
        elif row.of is not None:
            rule = "is the track that this one is a region of, but there is no region: give x,y,w,h or a table of boxes"
            tables.problem("tracks", placed, "of", rule, "no region")
        elif not any(getattr(row, column) for column in _FILES):
            rule = f"has no file: give one of {', '.join(_FILES)}, or the region of a picture"
            tables.problem("tracks", placed, "track", rule, "empty")
        else:
            cells = row.model_dump(exclude={"track"})
            tracks.setdefault(row.session_id, {})[row.track] = Track(name=row.track, **cells)
    names = {(placed.row.session_id, placed.row.track) for placed in regions}
    for placed in regions:
        if (placed.row.session_id, placed.row.of) in names:
            rule = "is a region itself: name the track that has the video, and give fractions of its whole picture"
            tables.problem("tracks", placed, "of", rule, "chained")
        else:
            _add_region(tables, placed, tracks)
    return tracks


def _add_region(tables: TableRows, placed: Placed, tracks: dict[str, dict[str, Track]]) -> None:
    """Add a track that is a region of another one's picture, which has that one's video and clock."""
    row = placed.row
    of_session = tracks.get(row.session_id, {})
    of = row.of or MAIN
    for column, rule in (
        ("video", "a region has the pictures of the track in 'of', so it names no video"),
        ("clock", "a region has the clock of the track in 'of', so it names none"),
    ):
        if getattr(row, column) is not None:
            tables.problem("tracks", placed, column, rule, f"region with {column}")
            return
    if of not in of_session:
        track_ids = tables.ids("tracks", "session_id", "track")
        if row.session_id in tracks and track_ids is not None and (row.session_id, of) not in track_ids:
            rule = f"is no track of this session{did_you_mean(of, {*of_session})}"
            tables.problem("tracks", placed, "of", rule, "unknown track")
        return  # what is wrong with that row is reported already
    parent = of_session[of]
    if parent.video is None:
        column = "of" if row.of else "region"
        tables.problem("tracks", placed, column, f"is of the track {of!r}, which has no video", "no picture")
        return
    cells = row.model_dump(exclude={"track"}) | {"video": parent.video, "clock": parent.clock, "of": of}
    of_session[row.track] = Track(name=row.track, **cells)


def check_track_of(tables: TableRows, table: str) -> None:
    """Report rows of a table that name a track which their session does not have."""
    tracks = tables.ids("tracks", "session_id", "track")
    sessions = tables.ids("sessions", "session_id")
    if tracks is None or sessions is None:
        return
    for placed in tables.rows[table]:
        session_id, track = placed.row.session_id, placed.row.track
        if track and (session_id,) in sessions and (session_id, track) not in tracks:
            alternatives = {MAIN, *(name for owner, name in tracks if owner == session_id)}
            rule = f"is no track of this session{did_you_mean(track, alternatives)}"
            tables.problem(table, placed, "track", rule, "unknown track")
