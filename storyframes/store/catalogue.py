"""The catalogue: one row per session and feature, compacted from the records beside the versions.

The records are the truth; the table is a snapshot of them that opens in one read. It is replaced as a whole, so a
reader that opened it (:class:`Snapshot`) sees the store as it was, whatever is published meanwhile. A row is a
:class:`~storyframes.store.record_status.FeatureStatus`, with the path and the arrays of the current version.

A catalogue may come from strangers: :func:`check_types` and :func:`check_rows` refuse what no writer of a store could
have written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storyframes.features import STORIES
from storyframes.spec import MAIN, TRACK_SIGN
from storyframes.store.layout import CATALOGUE, ID_PATTERN, VERSION_PATTERN, StoreError, current_path
from storyframes.store.record_status import BATCH, WHOLE_SESSION, FeatureStatus, VersionSummary, batches, scan
from storyframes.store.records import Current, RecordError, Status, StoredArray, check_quality
from storyframes.store.storage import Storage
from storyframes.store.study import read_forgotten
from storyframes.store.table_files import parse_pieces, parse_table, read_checked, read_table, replace_table
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
        StoreError: it is damaged, or a row is wrong.
        StorageError: it cannot be read.
    """
    content = read_table(storage, CATALOGUE)
    for table in () if content is None else parse_pieces(content, CATALOGUE, CHECKED):
        check_rows(table)
        yield table.filter(pc.is_valid(table["version"]))


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


# --- the catalogue as it was when a store was opened ---


class Snapshot(Mapping[tuple[str, str], tuple[str, str]]):
    """By session and feature, the path of the current version and the description of its arrays (JSON).

    It stays as Parquet: a column is decoded when it is first needed, and a row becomes a Python object when asked for.
    """

    def __init__(self, content: pa.Table | bytes) -> None:
        self._content = content
        table = self._columns(CHECKED)
        stored = pq.read_schema(pa.BufferReader(content)) if isinstance(content, bytes) else content.schema
        check_types(stored)
        check_rows(table)
        self._rows = np.flatnonzero(table["version"].is_valid().to_numpy())
        sessions, session_of = _coded(table["session_id"], self._rows)
        order = np.argsort(session_of, kind="stable")  # a session's rows become one block
        self._rows, session_of = self._rows[order], session_of[order]
        ends = np.cumsum(np.bincount(session_of, minlength=len(sessions))).tolist()
        blocks = zip([0, *ends], ends, strict=False)
        self._blocks = {name: block for name, block in zip(sessions, blocks, strict=True) if block[0] < block[1]}
        self._features, self._feature_of = _coded(table["feature"], self._rows)
        self._codes = {name: code for code, name in enumerate(self._features)}
        self._paths = _taken(table["path"], self._rows)
        self._arrays_taken: Any = None

    @classmethod
    def of(cls, storage: Storage) -> Snapshot:
        """The catalogue as it was last compacted; read from the records where it never was.

        Raises:
            StoreError: it is damaged, or has a feature whose folder was copied from another.
            StorageError: it cannot be read.
        """
        content, is_checked = read_checked(storage, CATALOGUE)
        if content is None:
            return cls(to_table(scan(storage)))
        if not is_checked:  # so the whole file has to be read to know that it is sound
            parse_table(content, CATALOGUE)
        snapshot = cls(content)
        snapshot._check_copies(storage)
        return snapshot

    def _check_copies(self, storage: Storage) -> None:
        """Check that features whose versions have one name are not copies of one folder, which older code accepted.

        A version's name is a time and a random number, so two features rarely share one; the records of these are read.
        """
        names = pc.list_element(pc.split_pattern(self._paths, "/"), 2)
        counts = pc.value_counts(names)
        shared = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        if not len(shared):
            return
        paths = self._paths.filter(pc.is_in(names, value_set=pa.array(shared))).to_pylist()
        copies = [path.split("/") for path in paths]
        contents = storage.read_many([current_path(session, feature) for session, feature, _ in copies])
        for session, feature, _ in copies:
            path = current_path(session, feature)
            try:
                Current.parse_of(session, feature, contents[path], path)
            except RecordError as error:
                raise StoreError(f"{error}; 'storyframes index' leaves it out, the next extraction makes it") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Snapshot, (self._content,)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for session_id in self._blocks:
            for feature in self.features(session_id):
                yield session_id, feature

    def __contains__(self, key: object) -> bool:
        return self._row(key) is not None

    def __getitem__(self, key: tuple[str, str]) -> tuple[str, str]:
        row = self._row(key)
        if row is None:
            raise KeyError(key)
        return self._paths[row].as_py(), self._arrays[row].as_py()

    @property
    def sessions(self) -> list[str]:
        """The sessions that have a feature, and ``stories`` if it has one."""
        return list(self._blocks)

    def features(self, session_id: str) -> list[str]:
        """The features of a session, as the store calls them."""
        start, stop = self._blocks.get(session_id, (0, 0))
        return [self._features[code] for code in self._feature_of[start:stop].tolist()]

    def path(self, session_id: str, feature: str) -> str | None:
        """The path of the current version, which no other version ever has; None where the feature has none."""
        row = self._row((session_id, feature))
        return None if row is None else self._paths[row].as_py()

    def attempted(self) -> list[str]:
        """The features that were ever attempted of a session, as the store calls them."""
        table = self._columns(["session_id", "feature"])
        return pc.unique(table["feature"].filter(pc.not_equal(table["session_id"], STORIES))).to_pylist()

    def counts(self) -> dict[str, int]:
        """The number of sessions that have each feature."""
        counts = np.bincount(self._feature_of, minlength=len(self._features))
        for feature in self.features(STORIES):
            counts[self._codes[feature]] -= 1
        return {name: count for name, count in zip(self._features, counts.tolist(), strict=True) if count}

    def frame(self) -> pd.DataFrame:
        """The table: a row for each session and feature that was ever attempted."""
        return self._columns(SCHEMA.names).to_pandas()

    def statuses(self, session_id: str) -> list[FeatureStatus]:
        """The status of each feature of a session that was ever attempted; no other rows are in memory.

        Raises:
            StoreError: a row is not what is written there.
        """
        chosen = pc.field("session_id") == session_id
        if isinstance(self._content, pa.Table):
            table = self._columns(STATUS_COLUMNS).filter(chosen)
        else:
            stored = set(pq.read_schema(pa.BufferReader(self._content)).names)
            columns = [name for name in STATUS_COLUMNS if name in stored]
            file = pa.BufferReader(self._content)
            table = pq.read_table(file, columns=columns, filters=chosen, page_checksum_verification=True)
        return [status_of_row(row) for row in table.to_pylist()]

    def _row(self, key: Any) -> int | None:
        session_id, feature = key
        start, stop = self._blocks.get(session_id, (0, 0))
        code = self._codes.get(feature)
        for row in range(start, stop):
            if self._feature_of[row] == code:
                return row
        return None

    def _columns(self, names: Sequence[str]) -> pa.Table:
        if isinstance(self._content, bytes):
            return parse_table(self._content, CATALOGUE, names)
        return self._content.select([name for name in names if name in self._content.schema.names])

    @property
    def _arrays(self) -> Any:
        # Not functools.cached_property: its lock, held by a thread while the process forks, is never free in the child.
        if self._arrays_taken is None:
            self._arrays_taken = _taken(self._columns(["arrays"])["arrays"], self._rows)
        return self._arrays_taken


def _taken(column: pa.ChunkedArray, rows: np.ndarray) -> pa.Array:
    """These rows of a column in one piece, which gives single values quickly."""
    taken = column.take(rows)
    return pa.concat_arrays(taken.chunks) if taken.num_chunks else pa.array([], column.type)


def _coded(column: pa.ChunkedArray, rows: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The distinct values of these rows, and the number of each row's value."""
    coded = _taken(column, rows).dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
