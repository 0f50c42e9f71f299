"""Measured clocks, written into the study's tables clocks and tracks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.study import ChangedTables, TableChangeError


@dataclass(frozen=True)
class MeasuredClock:
    """A measured clock."""

    # session_id, track: of the recording that was measured
    session_id: str
    track: str
    clock: str
    # clock_s, session_s: the same moments on this clock and on the session's, seconds
    clock_s: tuple[float, ...]
    session_s: tuple[float, ...]
    error_s: float | None = None  # the standard error of session_s

    @property
    def rows(self) -> list[dict[str, str]]:
        """As rows of the table of clocks."""
        error = {} if self.error_s is None else {"error_s": f"{self.error_s:.6f}"}
        return [
            {
                "session_id": self.session_id,
                "clock": self.clock,
                "clock_s": f"{clock_s:.10g}",
                "session_s": f"{session_s:.10g}",
                **error,
            }
            for clock_s, session_s in zip(self.clock_s, self.session_s, strict=True)
        ]


def write_clocks(root: Path, measured: Sequence[MeasuredClock], *, replace: bool = False) -> None:
    """Add these clocks to the study's table of clocks, and the names of new ones to its table of tracks.

    Raises:
        TableChangeError: a table cannot be changed, has rows of one of them (unless ``replace``), or the study would
            not be valid; then nothing is changed.
        OSError: a table cannot be written.
    """
    changed = ChangedTables(root)
    clocks, tracks = changed.open("clocks"), changed.open("tracks")
    names = {(new.session_id, new.clock) for new in measured}
    existing = [row for row in clocks.rows if clocks.key_of(row, "clock") in names]
    if existing and not replace:
        session_id, clock = clocks.key_of(existing[0], "clock")
        raise TableChangeError(f"{clocks.name}: has rows for {clock} of {session_id} already: nothing is written")
    clocks.rows = [row for row in clocks.rows if clocks.key_of(row, "clock") not in names]
    clocks.add([row for new in measured for row in new.rows])
    named = {(new.session_id, new.track): new.clock for new in measured}
    unnamed = [
        row for row in tracks.rows if tracks.key_of(row, "track") in named and not (row.get("clock") or "").strip()
    ]
    if unnamed:
        if "clock" not in tracks.columns:
            tracks.columns.append("clock")
        for row in unnamed:
            row["clock"] = named[tracks.key_of(row, "track")]
        changed.take(tracks)  # first: a clock's name without rows is refused, so half of it is never read
    changed.take(clocks)
    # Clocks of other sessions may have no rows yet.
    changed.check("clocks", but="unknown clock")
    changed.put_in_place()
