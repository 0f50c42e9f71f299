"""What the commands read of a store's people, and the tables that they write."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from storyframes import FeatureStore
from storyframes.store import StoreError
from storyframes_dyads.synchrony_tables import SESSIONS_OWN, Clocks, TrackClock
from storyframes_dyads.turns import RULE, RULE_COLUMN, PersonSummary, Turn, TurnEvent

if TYPE_CHECKING:
    from tasks.forgetting import Asked, Trace
    from tasks.study import Study

TURN_TABLES = ("persons", "turns", "events")
_MARKS = ({"backchannels", "interruptions"}, {"interrupts", "latency_s"}, {"kind", "start_s"})
"""Columns by which each of these is known."""
EARLIER_RULES = (
    "was made by earlier rules for turns, which took overlaps of exactly 0.2 s or 1 s for others by how they were "
    f"rounded (its column {RULE_COLUMN!r} is not {RULE}): 'storyframes dyads turns STORE --speech FEATURE --out "
    "FOLDER' makes it again"
)


def track_clocks(store: FeatureStore) -> Clocks:
    """The clocks of tracks as the clip index says; none without an index."""
    try:
        about = store.clips().attrs
    except StoreError:
        return {}
    errors = about.get("clock_errors", {})
    return {
        session: {
            track: SESSIONS_OWN
            if moments == SESSIONS_OWN.moments
            else TrackClock(moments, errors.get(session, {}).get(track, math.nan))
            for track, moments in tracks.items()
        }
        for session, tracks in about.get("clocks", {}).items()
    }


def groups_of(store: FeatureStore) -> dict[str, str]:
    """By session of the clip index, its group of people who met in sessions of the study, directly or by way of others.

    The index has it (``split_group``) of all persons of the study's tables, and of sessions of one recording.
    """
    try:
        clips = store.clips().drop_duplicates("session_id")
    except StoreError:
        return {}
    group = clips.get("split_group", clips["participant_id"])  # indexes of the first format have the latter alone
    return {str(session): str(name) for session, name in zip(clips["session_id"], group, strict=True) if pd.notna(name)}


def turn_tables(
    results: Mapping[str, tuple[list[PersonSummary], list[Turn], list[TurnEvent]]],
) -> dict[str, pd.DataFrame]:
    """By name, the tables of persons, turns and events: a row each, with its session and the version of the rules."""
    tables = {}
    for position, name in enumerate(TURN_TABLES):
        rows = [
            {"session_id": session, **asdict(row), RULE_COLUMN: RULE}
            for session, parts in results.items()
            for row in parts[position]
        ]
        tables[name] = pd.DataFrame(rows)
    return tables


def is_of_earlier_rules(table: pd.DataFrame) -> bool:
    """Whether it is one of the tables of turns, and not made by the current rules."""
    is_of_turns = any(marks <= set(table.columns) for marks in _MARKS)
    return is_of_turns and (RULE_COLUMN not in table or set(table[RULE_COLUMN].astype(str)) != {str(RULE)})


def find_outdated(study: Study) -> Iterator[str]:
    """A sentence for each table of turns below the study's folder that earlier rules made."""
    for persons in sorted(study.root.rglob("persons.csv")):
        paths = [persons.with_name(f"{name}.csv") for name in TURN_TABLES]
        if persons.parent == study.root or not all(path.is_file() for path in paths):
            continue
        for path in paths:
            with suppress(OSError, ValueError):  # not a table that these commands wrote
                if is_of_earlier_rules(pd.read_csv(path)):
                    yield f"{path.relative_to(study.root)}: {EARLIER_RULES}"


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write CSV files, readable by their owner alone, into a new folder.

    Raises:
        OSError: it cannot be made, or a file not be written.
    """
    folder.mkdir(mode=0o700, parents=True)
    for name, table in tables.items():
        with open(folder / f"{name}.csv", "x", opener=partial(os.open, mode=0o600), newline="") as file:
            table.to_csv(file, index=False, lineterminator="\n")


def find_forgotten(asked: Asked) -> Iterator[Trace]:
    """The rows of forgotten sessions in the tables of turns and of synchrony."""

    yield from asked.table_traces(tuple(f"{name}.csv" for name in TURN_TABLES), "tables of turns")
    yield from asked.table_traces(("sessions.csv", "windows.csv", "study.csv"), "tables of synchrony")
