"""The catalogue: one row per session and feature, compacted from the records beside the versions.

The records are the truth; the table is a snapshot of them that opens in one read. It is replaced as a whole, so a
reader that opened it sees the store as it was, whatever is published meanwhile. A row is a
:class:`~storyframes.store.record_status.FeatureStatus`, with the path and the arrays of the current version.

A catalogue may come from strangers: :func:`check_types` and :func:`check_rows` refuse what no writer of a store could
have written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storyframes.spec import MAIN, TRACK_SIGN
from storyframes.store.layout import CATALOGUE, ID_PATTERN, VERSION_PATTERN, StoreError
from storyframes.store.record_status import BATCH, WHOLE_SESSION, FeatureStatus, VersionSummary, batches, scan
from storyframes.store.records import Status, StoredArray, check_quality
from storyframes.store.storage import Storage
from storyframes.store.study.forgotten import read_forgotten
from storyframes.store.table_files import parse_pieces, parse_table, read_table, replace_table
from storyframes.store.validation import InvalidError, parse_json, shown

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


def compact(storage: Storage, published: Iterable[tuple[str, str]] = ()) -> bool:
    """Make the catalogue of all records; where it says the same as before, the file is left alone.

    Two compactions never undo each other: the one that writes last has listed the records after the other wrote. A row
    is dropped only where its records are gone, not where a listing, which may lag behind, leaves them out. What is
    forgotten has no row, though a backup may have brought its records back.

    Args:
        published: sessions and features to read whatever a listing shows.

    Returns:
        Whether the catalogue was up to date already.

    Raises:
        StorageError: the store cannot be read or written.
    """
    before = storage.read(CATALOGUE)
    listed_by_others = [f"{session_id}/{feature}" for session_id, feature in published]

    def table() -> pa.Table:
        forgotten = read_forgotten(storage)
        statuses = scan(storage, also=[*listed_by_others, *_folders(storage.read(CATALOGUE))])
        return to_table(status for status in statuses if not forgotten.has_feature(status.session_id, status.feature))

    sha256 = replace_table(storage, CATALOGUE, table, row_group_size=_ROW_GROUP)
    return before is not None and hashlib.sha256(before).hexdigest() == sha256


def _folders(content: bytes | None) -> list[str]:
    """The folders that a catalogue has rows of; none of a damaged one, which is made again."""
    try:
        table = parse_table(content, CATALOGUE, _KEYS) if content else SCHEMA.empty_table()
        return pc.binary_join_element_wise(*(table[key].cast(pa.string()) for key in _KEYS), "/").to_pylist()
    except (StoreError, KeyError, pa.ArrowException):
        return []


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


@lru_cache(1024)
def parse_arrays(text: str) -> Mapping[str, StoredArray]:
    """The ``arrays`` column of one row; equal texts are parsed once.

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
