"""What the records of a store say now, for whoever shows all of it: read again are those that may have changed.

The catalogue is asked for the others, as far as it is proved what its rows were made of; nothing is written.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from storyframes.store.catalogue import ALL_SESSIONS, SEEN, WHOLE_SESSION, Entry, Known, read_entries, scan
from storyframes.store.layout import CATALOGUE, StoreError
from storyframes.store.record_index import see
from storyframes.store.records import Status, check_quality
from storyframes.store.storage import Storage
from storyframes.store.validation import InvalidError, parse_json

_COLUMNS = [
    "session_id", "feature", "status", "reason", "version", "created_at", "rows", "bytes", "stamps", "quality",
    "fingerprint",
]  # fmt: skip
_AT_ONCE = 2_000  # rows that are objects of Python's


@dataclass(frozen=True, slots=True)
class Version:
    """What is shown of a current version; the fields are those of :class:`storyframes.store.records.Current`."""

    version: str
    created_at: str
    rows: int
    nbytes: int
    caveats: list[str]
    quality: dict[str, float]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of one feature of one session, see :class:`storyframes.store.catalogue.Entry`."""

    session_id: str
    feature: str
    status: Status
    reason: str
    current: Version | None


def shown(storage: Storage, session_id: str = ALL_SESSIONS) -> Iterator[Entry | Shown]:
    """Every entry that :func:`storyframes.store.catalogue.scan` gives, in its order; a few are in memory at a time.

    Raises:
        StorageError: the store as a whole cannot be read.
    """
    known = Known.of(storage, believed=True) if session_id == ALL_SESSIONS and storage.info(CATALOGUE) else None
    if known is None or not known.is_proved:
        yield from scan(storage, session_id)
        return
    seen = see(storage)
    since = seen.since(known.marks, SEEN, frozenset(), WHOLE_SESSION)
    read: Iterator[Entry | Shown] = read_entries(storage, since.changed, seen.unreadable)
    unchanged: Iterator[Entry | Shown] = _unchanged(known, since.kept)
    yield from heapq.merge(unchanged, read, key=_place)


def _place(entry: Entry | Shown) -> str:
    return entry.session_id if entry.feature == WHOLE_SESSION else f"{entry.session_id}/{entry.feature}"


def _unchanged(known: Known, rows: Any) -> Iterator[Shown]:
    import pyarrow.compute as pc

    if not len(rows):
        return
    table = known.rows(rows, _COLUMNS)
    order = pc.sort_indices(pc.binary_join_element_wise(table["session_id"], table["feature"], "/"))
    for start in range(0, len(table), _AT_ONCE):
        for row in table.take(order.slice(start, _AT_ONCE)).to_pylist():
            yield _of_row(row)


def _of_row(row: dict[str, Any]) -> Shown:
    version = None
    if row["version"] is not None:
        try:
            check_quality(quality := parse_json(row["quality"] or ""))
        except InvalidError as error:
            where = f"{row['session_id']}/{row['feature']}"
            raise StoreError(f"{CATALOGUE}: {where}: {error}; 'storyframes index' writes it again") from None
        version = Version(
            row["version"], row["created_at"], row["rows"], row["bytes"], row["stamps"], quality, row["fingerprint"]
        )
    return Shown(row["session_id"], row["feature"], Status(row["status"]), row["reason"] or "", version)
