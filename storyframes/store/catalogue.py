"""The catalogue: one row per session and feature, compacted from the records beside the versions.

The records are the truth; the table is a snapshot of them that opens in one read. It is replaced as a whole, so a
reader that opened it sees the store as it was, whatever is published meanwhile. A row is a
:class:`~storyframes.store.record_status.FeatureStatus`, with the path and the arrays of the current version.

A catalogue may come from strangers: :func:`check_types` and :func:`check_rows` refuse what no writer of a store could
have written.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storyframes.spec import MAIN, TRACK_SIGN
from storyframes.store.layout import CATALOGUE, ID_PATTERN, VERSION_PATTERN, StoreError
from storyframes.store.record_index import Difference, RecordIndex, is_before
from storyframes.store.record_status import (
    BATCH,
    WHOLE_SESSION,
    FeatureStatus,
    VersionSummary,
    batches,
    read_statuses,
    scan,
)
from storyframes.store.records import Status, StoredArray, check_quality
from storyframes.store.storage import Storage
from storyframes.store.study.forgotten import read_forgotten
from storyframes.store.table_files import is_proved, parse_pieces, parse_table, read_table, replace_table
from storyframes.store.validation import InvalidError, parse_json, shown

SEEN = "seen"
"""A column beside the schema's: the mark of the row's records in :mod:`storyframes.store.record_index`."""
CHECKED = ["session_id", "feature", "version", "path"]
"""The columns that :func:`check_rows` looks at."""
STATUS_COLUMNS = [
    "session_id", "feature", "status", "reason", "version", "created_at", "rows", "bytes", "stamps", "quality",
    "fingerprint",
]  # fmt: skip
"""The columns that :func:`status_of_row` reads."""
_KEYS = ["session_id", "feature"]
_ROW_GROUP = 8_192  # rows of the file that are read at the least
_REPAIR = "'storyframes index' writes it again"


SCHEMA = pa.schema(
    [
        ("session_id", pa.string()),
        ("feature", pa.string()),
        ("status", pa.string()),  # of the last attempt: done, missing, failed
        ("reason", pa.string()),  # why not done
        ("version", pa.string()),  # the current version, null where there is none
        ("path", pa.string()),  # of the current version's Zarr group, below the store
        ("created_at", pa.string()),
        ("rows", pa.int64()),  # of the feature's main array
        ("bytes", pa.int64()),
        ("arrays", pa.string()),  # JSON: {name: {shape, dtype, chunk_rows}}
        ("stamps", pa.list_(pa.string())),  # the caveats
        ("quality", pa.string()),  # JSON: {name: number}
        ("fingerprint", pa.string()),
    ]
)
"""The columns of the catalogue that are for readers."""


def compact(storage: Storage, published: Iterable[tuple[str, str]] = (), *, anew: bool = False) -> bool:
    """Bring the catalogue up to date with the records; where nothing changed, the file is left alone.

    A record is read unless it is certain to be the one that the catalogue's row was made from. Two compactions never
    undo each other: the one that writes last has listed the records after the other wrote. A row is dropped only where
    its records are gone, not where a listing leaves them out.

    Args:
        published: sessions and features to read whatever a listing shows, because it may lag behind.
        anew: read all records.

    Returns:
        Whether it was up to date already, so that no record was read.

    Raises:
        StorageError: the store cannot be read or written.
    """
    fresh = {f"{session_id}/{feature}" for session_id, feature in published}

    def table() -> pa.Table | None:
        return _updated(storage, StoredCatalogue.of(storage, trusted=not anew), fresh)

    return not replace_table(storage, CATALOGUE, table, row_group_size=_ROW_GROUP)


def current_statuses(storage: Storage) -> Iterator[FeatureStatus]:
    """The statuses that :func:`~storyframes.store.record_status.scan` gives now, in its order, a few at a time.

    Only records that may have changed since the catalogue was written are read; the other statuses are taken from its
    rows, as far as it is proved from which records these were made. Nothing is written.

    Raises:
        StorageError: the store as a whole cannot be read.
    """
    if storage.info(CATALOGUE) is None:
        yield from scan(storage)
        return
    stored = StoredCatalogue.of(storage, trusted=True)
    if not stored.is_proved:
        yield from scan(storage)
        return
    for table, difference, unreadable in _differences(storage, stored, [*STATUS_COLUMNS, SEEN]):
        changed = read_statuses(storage, difference.changed, unreadable)
        yield from heapq.merge(_statuses(table, difference.kept), changed, key=lambda status: status.sort_key)


@dataclass(frozen=True)
class StoredCatalogue:
    """The catalogue as it is stored, read piece by piece: of many sessions only a part is in memory at a time.

    Attributes:
        content: the Parquet file; empty where there is none.
        unproved: sessions and features of an unproved one, with null marks; None where it is proved.
        ends: the last session of each piece but the last, which has None; None alone where sessions are not in order.
    """

    content: bytes
    unproved: pa.Table | None = None
    ends: tuple[str | None, ...] = (None,)

    @classmethod
    def of(cls, storage: Storage, *, trusted: bool) -> StoredCatalogue:
        """The catalogue of a store; without its marks unless they are to be trusted and proved."""
        content = storage.read(CATALOGUE) or b""
        own = SCHEMA.append(pa.field(SEEN, pa.binary(16)))
        try:
            trusted = trusted and bool(content) and is_proved(storage, CATALOGUE, content)
            if trusted and pq.read_schema(pa.BufferReader(content)).equals(own):
                return cls._checked(content, in_order=storage.lists_in_order)
            table = parse_table(content, CATALOGUE, _KEYS) if content else SCHEMA.empty_table()
            keys = pa.table({key: pc.fill_null(table[key].cast(pa.string()), "") for key in _KEYS})
        except (StoreError, KeyError, pa.ArrowException):
            keys = SCHEMA.empty_table().select(_KEYS)
        return cls(content, _with_marks(keys, [None] * len(keys)))

    @classmethod
    def _checked(cls, content: bytes, *, in_order: bool) -> StoredCatalogue:
        """The catalogue once all its rows are checked.

        Raises:
            StoreError: one is wrong.
        """
        ends, before = [], ""
        for table in _whole_sessions(_checked_pieces(content)):
            sessions = pa.concat_arrays([pa.array([before]), *table["session_id"].chunks])
            paths = pc.binary_join_element_wise(sessions, "", "/")
            in_order = in_order and pc.all(pc.less_equal(paths[:-1], paths[1:])).as_py()
            ends.append(before := sessions[-1].as_py())
        return cls(content, ends=(*ends[:-1], None) if in_order else (None,))

    @property
    def is_proved(self) -> bool:
        """Whether its checksum and its rows were checked."""
        return self.unproved is None

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some of its columns, a table for each of ``ends``; of an unproved catalogue those that it has."""
        if self.unproved is not None:
            yield self.unproved
        elif len(self.ends) == 1:
            yield parse_table(self.content, CATALOGUE, columns)
        else:
            yield from _whole_sessions(parse_pieces(self.content, CATALOGUE, columns))

    def keys(self) -> list[tuple[str, str]]:
        """The session and the feature of each row."""
        columns = [[key for piece in self.pieces(_KEYS) for key in piece[name].to_pylist()] for name in _KEYS]
        return list(zip(*columns, strict=True))

    def rows(self, rows: np.ndarray) -> pa.Table:
        """Some of its rows, with all columns."""
        return parse_table(self.content, CATALOGUE).take(rows)


def _whole_sessions(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, but a session that goes on in the next table is moved there."""
    begun: list[pa.Table] = []
    for table in tables:
        joined = pa.concat_tables([*begun, table])
        sessions = joined["session_id"]
        ended = pc.index(sessions, sessions[-1]).as_py() if len(joined) else 0
        begun = [joined.slice(ended)]
        if ended:
            yield joined.slice(0, ended)
    yield from begun


def _differences(
    storage: Storage, stored: StoredCatalogue, columns: Sequence[str], fresh: Set[str] = frozenset()
) -> Iterator[tuple[pa.Table, Difference, Mapping[str, str]]]:
    """What may have changed since the catalogue was written, piece by piece.

    Args:
        columns: to read of each piece, the marks among them.
        fresh: folders that changed, whatever is listed.

    Yields:
        A piece's rows, which of them are kept and what is to be read, and what of it cannot be listed.
    """
    waiting = set(fresh)
    indexes = RecordIndex.pieces(storage, stored.ends)
    for table, index, end in zip(stored.pieces(columns), indexes, stored.ends, strict=True):
        own = {folder for folder in waiting if is_before(folder, end)}
        waiting -= own
        yield table, index.since(table, SEEN, own, WHOLE_SESSION), index.unreadable


def _statuses(table: pa.Table, rows: np.ndarray) -> Iterator[FeatureStatus]:
    """The statuses of some rows of a table, sorted, a few in memory at a time."""
    chosen = table.select(STATUS_COLUMNS).take(rows)
    order = pc.sort_indices(pc.binary_join_element_wise(chosen["session_id"], chosen["feature"], "/"))
    for start in range(0, len(chosen), BATCH):
        yield from map(status_of_row, chosen.take(order.slice(start, BATCH)).to_pylist())


def _updated(storage: Storage, stored: StoredCatalogue, fresh: Set[str]) -> pa.Table | None:
    """The catalogue as the records are now, without what is forgotten; None where it is that already."""
    kept: list[np.ndarray] = []
    changed: dict[str, tuple[str, ...]] = {}
    new_marks: dict[str, bytes] = {}
    unreadable: dict[str, str] = {}
    count = 0
    for table, difference, unread in _differences(storage, stored, [*_KEYS, SEEN], fresh):
        kept.append(difference.kept + count)
        count += len(table)
        changed |= difference.changed | difference.unlisted
        new_marks |= difference.marks
        unreadable |= unread
    same = np.concatenate(kept)
    forgotten = read_forgotten(storage)
    if forgotten:  # a backup may have brought it back
        rows = stored.keys()
        same = np.array([row for row in same if not forgotten.has_feature(*rows[row])], np.int64)
        changed = {folder: names for folder, names in changed.items() if not forgotten.has_feature(*folder.split("/"))}
    if len(same) == count and not changed and not unreadable:
        return None
    marks: list[bytes | None] = []

    def read() -> Iterator[FeatureStatus]:
        for status in read_statuses(storage, changed, unreadable):
            marks.append(None if status.is_damaged else new_marks.get(f"{status.session_id}/{status.feature}"))
            yield status

    new = _with_marks(to_table(read()), marks)
    if not len(same):
        return new
    table = pa.concat_tables([stored.rows(same), new])
    return table.take(pc.sort_indices(pc.binary_join_element_wise(*(table[key] for key in _KEYS), "/")))


def _with_marks(table: pa.Table, marks: list[bytes | None]) -> pa.Table:
    return table.append_column(SEEN, pa.array(marks, pa.binary(16)))


def to_table(statuses: Iterable[FeatureStatus]) -> pa.Table:
    """The rows of these statuses, which were read from records."""
    rows = (list(map(_row, batch)) for batch in batches(statuses, BATCH))
    return pa.Table.from_batches((pa.RecordBatch.from_pylist(batch, SCHEMA) for batch in rows), SCHEMA)


def _row(status: FeatureStatus) -> dict[str, object]:
    row: dict[str, object] = {
        "session_id": status.session_id,
        "feature": status.feature,
        "status": str(status.status),
        "reason": status.reason or None,
    }
    if record := status.record:
        arrays = {name: {**vars(array), "shape": list(array.shape)} for name, array in record.arrays.items()}
        row |= {
            "version": record.version,
            "path": f"{status.session_id}/{status.feature}/{record.version}",
            "created_at": record.created_at,
            "rows": record.rows,
            "bytes": record.nbytes,
            "arrays": json.dumps(arrays),
            "stamps": record.caveats,
            "quality": json.dumps(record.quality),
            "fingerprint": record.fingerprint,
        }
    return row


def status_of_row(row: dict[str, Any]) -> FeatureStatus:
    """The status that a row of the catalogue keeps, of its :data:`STATUS_COLUMNS`; older catalogues lack some.

    Raises:
        StoreError: its ``status`` or ``quality`` is not what is written there.
    """
    current = None
    try:
        status = Status(row.get("status", Status.DONE))
        if row["version"] is not None:
            check_quality(quality := parse_json(row.get("quality", "{}") or ""))
            current = VersionSummary(
                version=row["version"],
                fingerprint=row.get("fingerprint") or "",
                created_at=row.get("created_at") or "",
                rows=row.get("rows") or 0,
                nbytes=row.get("bytes") or 0,
                caveats=row.get("stamps") or [],
                quality=quality,
            )
    except ValueError as error:
        where = f"{row['session_id']}/{row['feature']}"
        raise StoreError(f"{CATALOGUE}: {where}: {error}; {_REPAIR}") from None
    return FeatureStatus(row["session_id"], row["feature"], status, row.get("reason") or "", current)


def parse_arrays(text: str) -> dict[str, StoredArray]:
    """The ``arrays`` column of one row.

    Raises:
        StoreError: no array can be as it says.
    """
    try:
        return StoredArray.parse_all(parse_json(text or ""))
    except InvalidError as error:
        raise StoreError(f"{CATALOGUE}: {error}; {_REPAIR}") from None


def named_versions(storage: Storage) -> Iterator[pa.Table]:
    """The rows of the catalogue that name a version, of their columns :data:`CHECKED`, a few thousand at a time.

    Raises:
        StoreError: it is damaged.
        StorageError: it cannot be read.
    """
    content = read_table(storage, CATALOGUE)
    for table in () if content is None else _checked_pieces(content):
        yield table.filter(pc.is_valid(table["version"]))


def _checked_pieces(content: bytes) -> Iterator[pa.Table]:
    """The columns :data:`CHECKED` of a catalogue, a few thousand rows at a time.

    Raises:
        StoreError: it is damaged, or a row is wrong.
    """
    for table in parse_pieces(content, CATALOGUE, CHECKED):
        check_rows(table)
        yield table


def check_types(stored: pa.Schema) -> None:
    """See that a catalogue's columns are of the types that they are written with; older ones lack some.

    Raises:
        StoreError: one is not, or a column is lacking that every reader needs.
    """
    for field in SCHEMA:
        position = stored.get_field_index(field.name)
        if position < 0 and field.name in (*CHECKED, "arrays"):
            raise StoreError(f"{CATALOGUE} is not a catalogue (it has no column {field.name!r}); {_REPAIR}")
        if position >= 0 and _type_name(stored.field(position)) != _type_name(field):
            raise StoreError(
                f"{CATALOGUE} is not a catalogue ({field.name} is {stored.field(position).type}); {_REPAIR}"
            )


def _type_name(field: pa.Field) -> str:
    return str(field.type).replace("element:", "item:")  # Parquet's name of the values of a list, and Arrow's


def check_rows(table: pa.Table) -> None:
    """See that every row of a catalogue names a session, a feature, and a version of theirs at its path.

    Args:
        table: a catalogue, of its columns at least :data:`CHECKED`.

    Raises:
        StoreError: one is not.
    """
    try:
        if lacking := [name for name in CHECKED if name not in table.schema.names]:
            raise InvalidError(f"it has no column {lacking[0]!r}")
        if wrong := [name for name in CHECKED if table.schema.field(name).type != pa.string()]:
            raise InvalidError(f"the column {wrong[0]!r} is no text")
        _check_pattern(pc.unique(table["session_id"]), ID_PATTERN.pattern, "is no session")
        names = rf"{ID_PATTERN.pattern}({TRACK_SIGN}{ID_PATTERN.pattern})?|{re.escape(WHOLE_SESSION)}"
        features = pc.unique(table["feature"])
        _check_pattern(features, names, "is no feature")
        main = features.filter(pc.match_substring_regex(features, rf"(?i){TRACK_SIGN}{MAIN}\z"))
        _refuse(main, f"is a feature of the track {MAIN}, which is called without it")
        session, feature, version, path = (table[name].filter(table["version"].is_valid()) for name in CHECKED)
        _check_pattern(version, VERSION_PATTERN.pattern, "is no version")
        are_right = pc.equal(path, pc.binary_join_element_wise(session, feature, version, "/"))
        _refuse(path.filter(pc.invert(pc.fill_null(are_right, False))), "is not the path of its row")
    except InvalidError as error:
        raise StoreError(f"{CATALOGUE} is not a catalogue ({error}); {_REPAIR}") from None


def _check_pattern(values: Any, pattern: str, rule: str) -> None:
    """See that every value matches the whole of a pattern."""
    are_right = pc.fill_null(pc.match_substring_regex(values, rf"\A({pattern})\z"), False)
    _refuse(values.filter(pc.invert(are_right)), rule)


def _refuse(values: Any, rule: str) -> None:
    """Refuse the first of these values, if there is one."""
    if len(values):
        raise InvalidError(f"{shown(values[0].as_py())} {rule}")
