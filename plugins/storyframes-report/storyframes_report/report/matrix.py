"""Sessions x features: the state of each, and whether a new extraction would change it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from storyframes import MAIN, STORIES, FeatureName
from storyframes.store import FeatureStatus

if TYPE_CHECKING:
    from tasks.planning import ExpectedVersion


class CellState(StrEnum):
    """The state of one feature of one session."""

    DONE = "done"
    NO_INPUT = "no input"  # the session lacks the input by nature: nothing to repair
    FAILED = "failed"
    STALE = "stale"  # has a version, but inputs, settings, model or extractor have changed since
    NOT_EXTRACTED = "not extracted"  # requested, and no attempt has ended
    NOT_ASKED = "not asked for"


@dataclass(frozen=True)
class Cell:
    """One feature of one session."""

    state: CellState
    rows: int = 0  # of the current version, 0 without one
    reason: str = ""  # why it is not done, or why it cannot be compared with a new extraction here
    kept: bool = False  # the last attempt failed, and an older version is current
    caveats: tuple[str, ...] = ()
    measured: float | None = None  # the share of the rows that are measurements; None where it is not recorded
    version: str = ""  # the current one's name; empty without one
    about_rows: str = ""  # the number of rows; where fewer than half are measurements, also the number of these


@dataclass(frozen=True)
class Matrix:
    """Every session (the stories last) and feature; ``cells`` has all pairs."""

    sessions: tuple[str, ...]
    features: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    def counts(self) -> Counter[CellState]:
        """The number of cells in each state, without those that were not requested."""
        return Counter(cell.state for cell in self.cells.values() if cell.state is not CellState.NOT_ASKED)

    def row(self, session_id: str) -> list[tuple[str, Cell]]:
        return [(feature, self.cells[session_id, feature]) for feature in self.features]

    @property
    def tracks(self) -> dict[str, list[str]]:
        """The features of each track in the order of :attr:`features`, without the track in their names."""
        tracks: dict[str, list[str]] = {}
        for stored in self.features:
            feature, track = FeatureName(stored).feature, FeatureName(stored).track
            tracks.setdefault(track, []).append(feature)
        return tracks

    def by_track(self, session_id: str) -> dict[str, list[tuple[str, Cell]]]:
        """The cells of a session by track; of other tracks than ``main`` only those requested or attempted."""
        tracks: dict[str, list[tuple[str, Cell]]] = {}
        for stored, cell in self.row(session_id):
            feature, track = FeatureName(stored).feature, FeatureName(stored).track
            if track == MAIN or cell.state is not CellState.NOT_ASKED:
                tracks.setdefault(track, []).append((feature, cell))
        return tracks


def build_matrix(
    session_ids: Iterable[str], entries: Iterable[FeatureStatus], expected: Iterable[ExpectedVersion]
) -> Matrix:
    """The matrix of a study's sessions, then of the store's others, with the versions that an extraction would make."""
    stored = {(entry.session_id, entry.feature): entry for entry in entries}
    requested = {(version.session_id, version.feature): version for version in expected}
    every = {session for session, _ in (*stored, *requested)}
    sessions = list(dict.fromkeys([*session_ids, *sorted(every - {STORIES})]))
    if STORIES in every:
        sessions.append(STORIES)
    features = FeatureName.in_order({feature for _, feature in (*stored, *requested)} - {FeatureStatus.WHOLE_SESSION})
    keys = [(session, feature) for session in sessions for feature in features]
    cells = {
        key: _cell(stored.get(key) or stored.get((key[0], FeatureStatus.WHOLE_SESSION)), requested.get(key))
        for key in keys
    }
    return Matrix(tuple(sessions), tuple(features), cells)


def _cell(entry: FeatureStatus | None, expected: ExpectedVersion | None) -> Cell:
    if entry is None:
        return (
            Cell(CellState.NOT_EXTRACTED, reason=without_folders(expected.reason))
            if expected
            else Cell(CellState.NOT_ASKED)
        )
    current = entry.current
    cell = Cell(CellState.DONE)
    if current:
        share = current.measured_share
        caveats = tuple(current.caveats)
        cell = Cell(
            CellState.DONE, current.rows, "", False, caveats, share, current.version, about_rows=current.measured_rows
        )
    if entry.status != "done":
        state = CellState.NO_INPUT if entry.status == "missing" else CellState.FAILED
        return replace(cell, state=state, reason=without_folders(entry.reason), kept=current is not None)
    if expected and not expected.fingerprint:
        return replace(cell, reason=f"cannot be compared here: {without_folders(expected.reason)}")
    if expected and current and expected.fingerprint != current.fingerprint:
        reason = "an input, a setting, a model or the extractor has changed since: extract again"
        return replace(cell, state=CellState.STALE, reason=reason)
    return cell


def without_folders(text: str) -> str:
    """``text`` with the names of files instead of their paths, for pages that are passed on."""
    return re.sub(r"(?<![\w:/.])/(?:[^\s'\"/]+/)+(?=[^\s'\"/])", "", text)
