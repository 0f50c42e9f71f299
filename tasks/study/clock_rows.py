"""Writing measured clocks into a study: its table clocks, and in tracks the names of clocks that are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.study.changed_tables import TableChangeError, open_table, problems_with, put_in_place
from tasks.study.problems import shortened


@dataclass(frozen=True)
class MeasuredClock:
    """A clock, as moments that both it and the session have.

    Attributes:
        session_id, track: whose recording was measured.
        clock: the clock's name.
        clock_s, session_s: the moments on both.
    """

    session_id: str
    track: str
    clock: str
    clock_s: tuple[float, ...]
    session_s: tuple[float, ...]

    @property
    def rows(self) -> list[dict[str, str]]:
        """As rows of the table of clocks."""
        return [
            {
                "session_id": self.session_id,
                "clock": self.clock,
                "clock_s": f"{here:.10g}",
                "session_s": f"{there:.10g}",
            }
            for here, there in zip(self.clock_s, self.session_s, strict=True)
        ]


def write_clocks(root: Path, measured: Sequence[MeasuredClock], *, replace: bool = False) -> None:
    """Add these clocks to the tables of the study at ``root``; in the table of tracks each gets its name.

    Args:
        root: the study's folder.
        measured: the clocks.
        replace: take the place of rows that are there for them.

    Raises:
        TableChangeError: a table cannot be changed, has rows of one of them (unless ``replace``), or the study would
            not be valid; then nothing is changed.
        OSError: a table cannot be written.
    """
    clocks, tracks = open_table(root, "clocks"), open_table(root, "tracks")
    names = {(one.session_id, one.clock) for one in measured}
    there = [row for row in clocks.rows if _key(row, "clock") in names]
    if there and not replace:
        session_id, clock = _key(there[0], "clock")
        raise TableChangeError(f"{clocks.name}: has rows for {clock} of {session_id} already: nothing is written")
    clocks.rows = [row for row in clocks.rows if _key(row, "clock") not in names]
    clocks.add([row for one in measured for row in one.rows])
    content = {clocks.name: clocks.content()}
    named = {(one.session_id, one.track): one.clock for one in measured}
    unnamed = [row for row in tracks.rows if _key(row, "track") in named and not (row.get("clock") or "").strip()]
    if unnamed:
        if "clock" not in tracks.columns:
            tracks.columns.append("clock")
        for row in unnamed:
            row["clock"] = named[_key(row, "track")]
        content = {tracks.name: tracks.content()} | content
    # Clocks of other sessions may have no rows yet.
    wrong = [one for one in problems_with(root, content) if one.kind != "unknown clock"]
    if wrong:
        shown = "\n".join(f"  {problem}" for problem in shortened(wrong))
        raise TableChangeError(f"with these clocks the study would not be valid; nothing is written:\n{shown}")
    put_in_place(root, content)  # a name without rows is refused by everybody, so nobody reads what is half written


def _key(row: Mapping[str, Any], column: str) -> tuple[str, str]:
    return (row.get("session_id") or "").strip(), (row.get(column) or "").strip()
