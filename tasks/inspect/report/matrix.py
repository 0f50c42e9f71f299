"""Sessions x features: how each stands, and whether it is what an extraction would give now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from storyframes.features import STORIES, in_order
from storyframes.store.record_status import WHOLE_SESSION, FeatureStatus
from storyframes.store.records import Status
from storyframes.tracks import MAIN, feature_and_track
from tasks.inspect.formatting import measured_rows, without_folders

if TYPE_CHECKING:
    from tasks.planning.wanted import Wanted


class CellState(StrEnum):
    """How one feature of one session stands."""

    DONE = "done"
    SKIPPED = "skipped"  # the session lacks the input
    FAILED = "failed"
    STALE = "stale"  # there is a version, but inputs, settings, model or extractor have changed since
    ABSENT = "absent"  # wanted, and never attempted to its end
    NOT_ASKED = "not asked for"


@dataclass(frozen=True)
class Cell:
    """One feature of one session.

    Attributes:
        rows: of the version that is there, 0 where none is.
        about_rows: how many there are, and where fewer than half are measurements how many are.
        reason: why it is not done, or why nobody can tell here whether it is stale.
        kept: an older version is there although the last attempt gave none.
        caveats: what users of the values must know.
    """

    state: CellState
    rows: int = 0
    reason: str = ""
    kept: bool = False
    caveats: tuple[str, ...] = ()
    about_rows: str = ""


@dataclass(frozen=True)
class Matrix:
    """Every session (the stories last) and feature; ``cells`` has all pairs."""

    sessions: tuple[str, ...]
    features: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    def counts(self) -> Counter[CellState]:
        """How many cells are in each state, without those that nobody asked for."""
        return Counter(cell.state for cell in self.cells.values() if cell.state is not CellState.NOT_ASKED)

    def row(self, session_id: str) -> list[tuple[str, Cell]]:
        return [(feature, self.cells[session_id, feature]) for feature in self.features]

    @property
    def tracks(self) -> dict[str, list[str]]:
        """The features of each track, without its name in theirs; in the order of :attr:`features`."""
        tracks: dict[str, list[str]] = {}
        for stored in self.features:
            feature, track = feature_and_track(stored)
            tracks.setdefault(track, []).append(feature)
        return tracks

    def by_track(self, session_id: str) -> dict[str, list[tuple[str, Cell]]]:
        """The cells of a session; of other tracks than its own files only those that were asked for or attempted."""
        found: dict[str, list[tuple[str, Cell]]] = {}
        for stored, cell in self.row(session_id):
            feature, track = feature_and_track(stored)
            if track == MAIN or cell.state is not CellState.NOT_ASKED:
                found.setdefault(track, []).append((feature, cell))
        return found


def build_matrix(session_ids: Iterable[str], entries: Iterable[FeatureStatus], wanted: Iterable[Wanted]) -> Matrix:
    """The matrix of a study.

    Args:
        session_ids: the study's sessions, in its order; what else the store has comes after them.
        entries: what the store knows.
        wanted: what an extraction would want now.
    """
    stored = {(entry.session_id, entry.feature): entry for entry in entries}
    asked = {(one.session_id, one.feature): one for one in wanted}
    named = {session for session, _ in (*stored, *asked)}
    sessions = list(dict.fromkeys([*session_ids, *sorted(named - {STORIES})]))
    if STORIES in named:
        sessions.append(STORIES)
    features = in_order({feature for _, feature in (*stored, *asked)} - {WHOLE_SESSION})
    keys = [(session, feature) for session in sessions for feature in features]
    cells = {key: _cell(stored.get(key) or stored.get((key[0], WHOLE_SESSION)), asked.get(key)) for key in keys}
    return Matrix(tuple(sessions), tuple(features), cells)


def _cell(entry: FeatureStatus | None, wanted: Wanted | None) -> Cell:
    if entry is None:
        return Cell(CellState.ABSENT, reason=without_folders(wanted.reason)) if wanted else Cell(CellState.NOT_ASKED)
    current = entry.current
    cell = Cell(CellState.DONE)
    if current:
        rows = measured_rows(current.rows, current.quality)
        cell = Cell(CellState.DONE, current.rows, caveats=tuple(current.caveats), about_rows=rows)
    if entry.status is not Status.DONE:
        state = CellState.SKIPPED if entry.status is Status.MISSING else CellState.FAILED
        return replace(cell, state=state, reason=without_folders(entry.reason), kept=current is not None)
    if wanted and not wanted.fingerprint:
        return replace(cell, reason=f"cannot be compared here: {without_folders(wanted.reason)}")
    if wanted and current and wanted.fingerprint != current.fingerprint:
        reason = "an input, a setting, a model or the extractor has changed since: extract again"
        return replace(cell, state=CellState.STALE, reason=reason)
    return cell
