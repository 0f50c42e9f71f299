"""What was given away of a store: releases and exports, with their dates and sessions (``given.json``).

Nothing brings back what left the store: whoever withdraws is at least told where it went.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from storyframes.store.layout import GIVEN, StoreError
from storyframes.store.records import RecordError, now, seal, unseal
from storyframes.store.storage import Storage

_LOG = logging.getLogger("storyframes")
_MOST = 1_000


def note_given(storage: Storage, what: str, name: str, sessions: Collection[str]) -> None:
    """Note that a release or an export was made; a store that cannot be written is left as it is.

    Args:
        what: ``release`` or ``export``.
        name: of its folder, without the path to it.
        sessions: those that it has.
    """

    def change(content: bytes | None) -> bytes | None:
        try:
            before = (unseal(content, GIVEN) or {}).get("given", [])
        except RecordError:
            before = []
        entry = {"at": now(), "what": what, "name": name, "sessions": sorted(sessions)}
        return seal({"given": [*before, entry][-_MOST:]})

    try:
        storage.update(GIVEN, change)
    except (OSError, ImportError) as error:  # another user's store, or a system that writes none
        _LOG.info("that the store was given away cannot be noted in it: %s", error)


def given_away(storage: Storage) -> list[dict[str, Any]]:
    """The releases and exports of a store: when, what, the folder's name, and the sessions.

    Raises:
        StoreError: the list is damaged.
        StorageError: the store cannot be read.
    """
    try:
        entries = (unseal(storage.read(GIVEN), GIVEN) or {}).get("given", [])
    except RecordError:
        raise StoreError(
            f"{storage.location}/{GIVEN} is damaged, so which releases and exports were made is not known: remove it"
        ) from None
    return [entry for entry in entries if {"at", "what", "name", "sessions"} <= entry.keys()]


def without_sessions(content: bytes | None, sessions: Collection[str]) -> tuple[int, bytes | None]:
    """How many entries name one of these sessions, and the file without their names; None where none does."""
    try:
        entries = (unseal(content, GIVEN) or {}).get("given", [])
    except RecordError:
        return 0, None
    named = [entry for entry in entries if {*entry.get("sessions", ())} & {*sessions}]
    for entry in named:
        kept = [name for name in entry["sessions"] if name not in sessions]
        entry["forgotten"] = entry.get("forgotten", 0) + len(entry["sessions"]) - len(kept)
        entry["sessions"] = kept
    return len(named), seal({"given": entries}) if named else None
