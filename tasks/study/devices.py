"""Tracks, clocks and persons: their rows checked against each other, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping

from storyframes.times import ABSURD_PPM, Clock
from tasks.study.labels import did_you_mean
from tasks.study.references import people
from tasks.study.rows import ClockRow, TrackRow
from tasks.study.table_rows import TableRows, named_rows, repeated
from tasks.study.tracks import MAIN, Person, Track, spoken_name

_FILES = ("video", "audio", "transcript", "openface")
Placed = tuple[int, int | None, ClockRow]


def persons_of(tables: TableRows) -> tuple[Person, ...]:
    """The people of the sessions, in the table's order."""
    tables.check_unique("persons", "session_id", "person_id")
    tables.check_known("persons", "session_id", "sessions", hint=True)
    tables.check_known("persons", "participant_id", people(tables), hint=True)
    named = [(number, line, row) for number, line, row in tables.rows["persons"] if row.transcript_name]
    for _, same in repeated((row.session_id, spoken_name(row.transcript_name)) for *_, row in named):
        number, line, row = named[same[0]]
        others = named_rows([named[place][0] for place in same[1:]])
        rule = f"must be of one person of the session, but {others} the same"
        tables.problem("persons", (number, line), "transcript_name", row.transcript_name, rule)
    return tuple(Person(**row.model_dump()) for row in tables.of("persons"))


def clocks_of(tables: TableRows) -> dict[str, dict[str, Clock]]:
    """The clocks that are right, by session and name."""
    tables.check_known("clocks", "session_id", "sessions", hint=True)
    rows: dict[tuple[str, str], list[Placed]] = {}
    for number, line, row in tables.rows["clocks"]:
        rows.setdefault((row.session_id, row.clock), []).append((number, line, row))
    clocks: dict[str, dict[str, Clock]] = {}
    for (session_id, name), of_clock in rows.items():
        of_clock.sort(key=lambda placed: placed[2].clock_s)
        if clock := _clock(tables, name, of_clock):
            clocks.setdefault(session_id, {})[name] = clock
    _check_used(tables, rows)
    return clocks


def _clock(tables: TableRows, name: str, rows: list[Placed]) -> Clock | None:
    before = rows[0][2]
    for number, line, row in rows[1:]:
        if row.clock_s == before.clock_s:
            rule = f"is there twice for the clock {name!r}: it has one session_s at each moment"
            tables.problem("clocks", (number, line), "clock_s", row.clock_s, rule, "twice")
            return None
        if row.session_s <= before.session_s:
            rule = (
                f"must increase with clock_s, but is {before.session_s} at clock_s = {before.clock_s} already: a clock "
                "never runs backwards"
            )
            tables.problem("clocks", (number, line), "session_s", row.session_s, rule, "backwards")
            return None
        before = row
    clock = Clock(name, tuple(row.clock_s for _, _, row in rows), tuple(row.session_s for _, _, row in rows))
    for (number, line, row), ppm in zip(rows[1:], clock.drifts_ppm, strict=True):
        if not abs(ppm) <= ABSURD_PPM:
            fast = "fast" if ppm > 0 else "slow"
            rule = (
                f"makes the clock {name!r} run {abs(ppm):.0f} ppm {fast} since the moment before, and no device is off "
                f"by more than {ABSURD_PPM:.0f} ppm: is the moment right, and of this recording?"
            )
            tables.problem("clocks", (number, line), "session_s", row.session_s, rule, "drift")
            return None
    return clock


def _check_used(tables: TableRows, clocks: Mapping[tuple[str, str], list[Placed]]) -> None:
    """A clock that no track names corrects nothing, which nobody would see."""
    named = tables.ids("tracks", "session_id", "clock")
    if named is None and tables.has("tracks") and tables.ids("tracks", "session_id") is None:
        return  # rows of it may have been lost
    for (session_id, name), rows in clocks.items():
        if (session_id, name) not in (named or set()):
            number, line, _ = rows[0]
            rule = "is the clock of no track of this session: name it in the column 'clock' of the table 'tracks'"
            tables.problem("clocks", (number, line), "clock", name, rule, "unused")


def tracks_of(tables: TableRows) -> dict[str, dict[str, Track]]:
    """The tracks by session and name; ``main`` is that of the session's own columns."""
    tables.check_known("tracks", "session_id", "sessions", hint=True)
    cure = "'storyframes sync' measures clocks that have no rows, by their sound"
    tables.check_known("tracks", ("session_id", "clock"), "clocks", hint=True, cure=cure)
    tables.check_known("tracks", ("session_id", "person_id"), "persons", hint=True)
    tables.check_unique("tracks", "session_id", "track")
    tracks = {
        row.session_id: {MAIN: Track(row.session_id, MAIN, **{column: getattr(row, column) for column in _FILES})}
        for row in tables.of("sessions")
    }
    _check_case(tables)
    for number, line, row in tables.rows["tracks"]:
        if row.track.lower() == MAIN:
            rule = f"is the track of the table 'sessions', whose files belong to {MAIN!r}: name this one otherwise"
            tables.problem("tracks", (number, line), "track", row.track, rule, "main")
        elif not any(getattr(row, column) for column in _FILES):
            rule = f"has no file: give one of {', '.join(_FILES)}"
            tables.problem("tracks", (number, line), "track", row.track, rule, "empty")
        else:
            tracks.setdefault(row.session_id, {})[row.track] = _track(row)
    return tracks


def _track(row: TrackRow) -> Track:
    cells = row.model_dump()
    return Track(cells.pop("session_id"), cells.pop("track"), **cells)


def _check_case(tables: TableRows) -> None:
    """Tracks of one session that differ in case only would be one folder on many file systems."""
    placed = tables.rows["tracks"]
    for _, same in repeated((row.session_id, row.track.lower()) for _, _, row in placed):
        number, line, row = placed[same[0]]
        others = [placed[place][0] for place in same[1:] if placed[place][2].track != row.track]
        if others:
            rule = f"must differ in more than case, but {named_rows(others)} the same letters"
            tables.problem("tracks", (number, line), "track", row.track, rule, "case")


def check_track_of(tables: TableRows, table: str) -> None:
    """Rows of a table that name a track which their session does not have."""
    known = tables.ids("tracks", "session_id", "track")
    sessions = tables.ids("sessions", "session_id")
    if known is None or sessions is None:
        return
    for number, line, row in tables.rows[table]:
        if (
            (row.session_id,) in sessions
            and row.track
            and row.track != MAIN
            and (row.session_id, row.track) not in known
        ):
            there = {MAIN, *(name for session_id, name in known if session_id == row.session_id)}
            rule = f"is no track of this session{did_you_mean(row.track, there)}"
            tables.problem(table, (number, line), "track", row.track, rule, "unknown track")
