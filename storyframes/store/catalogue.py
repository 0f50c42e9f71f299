"""The catalogue: one row per (session, feature), compacted from the records beside the versions.

The records are the truth; the table is a snapshot of them that opens in one read. It is replaced as a whole, so a
reader that holds one sees the store as it was, whatever is published meanwhile.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from storyframes.store.catalogue_rows import CHECKED, WHOLE_SESSION, check_rows
from storyframes.store.layout import CATALOGUE, CHECKSUMS, ID_PATTERN, StoreError, attempt_path, current_path
from storyframes.store.record_index import see
from storyframes.store.records import ATTEMPT, CURRENT, Attempt, Current, RecordError, Status
from storyframes.store.storage import Storage, StorageError
from storyframes.store.validation import InvalidError, are_names, parse_json

if TYPE_CHECKING:  # half a second to import, and whoever reads the records alone needs neither
    import numpy as np
    import pandas as pd
    import pyarrow as pa

_T = TypeVar("_T")
_KEYS = ["session_id", "feature"]
SEEN = "seen"  # a column beside the schema's: what the row's records were seen as, see storyframes.store.record_index
_ROWS_OF_A_GROUP = 8_192  # of the file: a group is the least that is read of it
_READ_AT_ONCE = 2_000  # features: so much of their records is in memory
_REMEMBERED = 20  # checksums of a table: as many writers may be about to replace it
_MOST_ROWS_PER_BYTE = 64  # of a table's file; one of few sessions and many windows has a byte and more for each row
ALL_SESSIONS = "*"


@cache
def schema() -> pa.Schema:
    """The columns of the catalogue that are for whoever reads it."""
    import pyarrow as pa

    return pa.schema(
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
            ("stamps", pa.list_(pa.string())),
            ("quality", pa.string()),  # JSON: {name: number}
            ("fingerprint", pa.string()),
        ]
    )


@dataclass(frozen=True)
class Entry:
    """What the store knows of one feature of one session."""

    session_id: str
    feature: str
    current: Current | None
    attempt: Attempt | None
    damage: str = ""

    def __repr__(self) -> str:
        what = f"{self.session_id}/{self.feature}: {self.status}{f' ({self.reason})' if self.reason else ''}"
        return f"Entry({what}{f', {self.current!r}' if self.current else ''})"

    @property
    def status(self) -> Status:
        if self.damage:
            return Status.FAILED
        return self.attempt.status if self.attempt else Status.DONE

    @property
    def reason(self) -> str:
        return self.damage or (self.attempt.reason if self.attempt else "")


def read_entry(storage: Storage, session_id: str, feature: str) -> Entry | None:
    """The entry of one feature, None where nothing was ever attempted to its end there.

    Raises:
        StorageError: a record of it is there and cannot be read.
    """
    paths = current_path(session_id, feature), attempt_path(session_id, feature)
    return _entry(session_id, feature, storage.read_many(paths))


def scan(storage: Storage, session_id: str = ALL_SESSIONS) -> Iterator[Entry]:
    """Every entry of the store (or of one session), from the records themselves.

    What cannot be read is an entry as well, failed, with the reason; one of a whole session has the feature ``*``.

    Args:
        storage: the store.
        session_id: the session, ``*`` for all; nothing else is listed then.

    Raises:
        StorageError: the store as a whole cannot be read.
    """
    if session_id != ALL_SESSIONS and not ID_PATTERN.fullmatch(session_id):
        return  # a name that nothing in a store has, and that may lead out of it
    unreadable: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for path in storage.records((CURRENT, ATTEMPT), session_id, unreadable.__setitem__):
        folder, name = path.rsplit("/", 1)
        if are_names(folder):
            names.setdefault(folder, []).append(name)
    yield from read_entries(storage, names, unreadable)


def read_entries(
    storage: Storage, names: Mapping[str, Iterable[str]], unreadable: Mapping[str, str]
) -> Iterator[Entry]:
    """The entries of these records, a few at a time, and of what the listing of them could not read.

    Args:
        storage: the store.
        names: of the records, by their folder.
        unreadable: what is not listed, and why.

    Raises:
        StorageError: the store as a whole cannot be read.
    """
    if "" in unreadable:
        raise StorageError(f"{storage.location}: {unreadable['']}")
    damage: dict[str, str] = {}
    for path, why in unreadable.items():
        folder = "/".join(path.split("/")[:2])
        if are_names(folder) or ID_PATTERN.fullmatch(folder):
            damage.setdefault(folder, why)
    for folders in _batches(sorted(names.keys() | damage.keys()), _READ_AT_ONCE):
        unread: dict[str, str] = {}
        paths = [f"{folder}/{name}" for folder in folders for name in names.get(folder, ())]
        contents = storage.read_many(paths, unread.__setitem__)
        for path, why in unread.items():
            damage.setdefault(path.rsplit("/", 1)[0], why)
        for folder in folders:
            session, _, feature = folder.partition("/")
            if not feature:
                yield Entry(session, WHOLE_SESSION, None, None, damage=damage[folder])
            elif entry := _entry(session, feature, contents, damage.get(folder, "")):
                yield entry


def _entry(session_id: str, feature: str, contents: Mapping[str, bytes | None], damage: str = "") -> Entry | None:
    path = current_path(session_id, feature)
    try:
        current = Current.parse_of(session_id, feature, contents.get(path), path)
    except RecordError as error:
        return Entry(session_id, feature, None, None, damage=f"{error}; the next extraction makes it again")
    path = attempt_path(session_id, feature)
    try:
        attempt = Attempt.parse_of(session_id, feature, contents.get(path), path)
    except RecordError:
        attempt = None  # only the reason of an older failure is lost
    if current and attempt and not _is_later(attempt, current):
        attempt = None  # a publisher died between making the version current and removing this
    return Entry(session_id, feature, current, attempt, damage) if current or attempt or damage else None


def _is_later(attempt: Attempt, current: Current) -> bool:
    """Whether the attempt was noted after the version was published: by the count, as clocks go wrong."""
    if attempt.sequence or current.sequence:
        return attempt.sequence > current.sequence
    return attempt.at > current.created_at  # records of before there was a count


def to_frame(entries: Iterator[Entry] | list[Entry]) -> pd.DataFrame:
    """The catalogue of ``entries``: a column for each field of the table."""
    return to_table(entries).to_pandas()


def compact(storage: Storage, published: Iterable[tuple[str, str]] = (), *, anew: bool = False) -> None:
    """Bring the catalogue up to date with the records; where nothing changed, the file is left alone.

    A record is read unless it is certain to be the one that the catalogue's row was made of. Two compactions never
    undo each other: the one that writes last has listed the records after the other wrote. And what the catalogue knew
    is forgotten only where its records are gone, not where a listing leaves them out.

    Args:
        storage: the store.
        published: sessions and features to read whatever a listing shows, because it may lag behind.
        anew: read all records.

    Raises:
        StorageError: the store cannot be read or written.
    """
    fresh = {f"{session_id}/{feature}" for session_id, feature in published}

    def table() -> pa.Table | None:
        return _brought_up_to_date(storage, Known.of(storage, believed=not anew), fresh)

    replace_table(storage, CATALOGUE, table, row_group_size=_ROWS_OF_A_GROUP)


@dataclass(frozen=True)
class Known:
    """What the catalogue says by now: of all its rows what they were made of, the rest where somebody needs it."""

    content: bytes
    marks: pa.Table
    is_proved: bool = False

    def rows(self, rows: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """Some rows of it, all columns where none are named."""
        return parse_table(self.content, CATALOGUE, columns).take(rows)

    @classmethod
    def of(cls, storage: Storage, *, believed: bool) -> Known:
        """Not what its rows were made of, unless that is to be believed and proved."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        content = storage.read(CATALOGUE) or b""
        own = schema().append(pa.field(SEEN, pa.binary(16)))
        try:
            believed = believed and bool(content) and is_proved(storage, CATALOGUE, content)
            if believed and pq.read_schema(pa.BufferReader(content)).equals(own):
                check_rows(parse_table(content, CATALOGUE, CHECKED))
                return cls(content, parse_table(content, CATALOGUE, [*_KEYS, SEEN]), is_proved=True)
            table = parse_table(content, CATALOGUE, _KEYS) if content else schema().empty_table()
            keys = table.select(_KEYS).cast(pa.schema([schema().field(key) for key in _KEYS]))
        except (StoreError, KeyError, pa.ArrowException):
            keys = schema().empty_table().select(_KEYS)
        return cls(content, _with_marks(keys, [None] * len(keys)))


def _brought_up_to_date(storage: Storage, known: Known, fresh: Set[str]) -> pa.Table | None:
    """The catalogue as the records are now; None where it is that already."""
    import pyarrow as pa
    import pyarrow.compute as pc

    seen = see(storage)
    since = seen.since(known.marks, SEEN, fresh, WHOLE_SESSION)
    changed = since.changed | since.unlisted
    if len(since.kept) == len(known.marks) and not changed and not seen.unreadable:
        return None
    new_marks: list[bytes | None] = []

    def read() -> Iterator[Entry]:
        for entry in read_entries(storage, changed, seen.unreadable):
            new_marks.append(None if entry.damage else since.marks.get(f"{entry.session_id}/{entry.feature}"))
            yield entry

    new = _with_marks(to_table(read()), new_marks)
    if not len(since.kept):
        return new
    table = pa.concat_tables([known.rows(since.kept), new])
    return table.take(pc.sort_indices(pc.binary_join_element_wise(*(table[key] for key in _KEYS), "/")))


def _with_marks(table: pa.Table, marks: list[bytes | None]) -> pa.Table:
    import pyarrow as pa

    return table.append_column(SEEN, pa.array(marks, pa.binary(16)))


def load(storage: Storage) -> pd.DataFrame:
    """The catalogue as it was last compacted; made from the records where it was never.

    Raises:
        StoreError: it is damaged.
        StorageError: it cannot be read.
    """
    content = read_table(storage, CATALOGUE)
    return to_frame(scan(storage)) if content is None else read_parquet(content, CATALOGUE, schema().names)


def read_table(storage: Storage, name: str) -> bytes | None:
    """A table of the store, compared with its checksum; None where there is none.

    Raises:
        StoreError: it, or the checksum, is damaged.
        StorageError: it cannot be read.
    """
    before: tuple[bytes | None, bytes | None] | None = None
    while True:  # a writer notes the new checksum before it writes the table
        checksums = storage.read(CHECKSUMS)
        content = storage.read(name)
        if content is None or checksums is None or _matches(checksums, name, content):
            return content
        if (checksums, content) == before:
            raise StoreError(
                f"{name} is damaged, or {CHECKSUMS} is (it has another checksum there); 'storyframes index' writes "
                "both again"
            )
        before = checksums, content


def read_parquet(content: bytes, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A table of the store; ``columns`` are those wanted, as far as they are there.

    Raises:
        StoreError: it is damaged.
    """
    return parse_table(content, name, columns).to_pandas()


def parse_table(content: bytes, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A table of the store, as Arrow has it; ``columns`` are those wanted, as far as they are there.

    Raises:
        StoreError: it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        if file.metadata.num_rows > len(content) * _MOST_ROWS_PER_BYTE:
            raise InvalidError(f"{file.metadata.num_rows} rows in {len(content)} bytes")
        table = file.read(columns)
        table.validate(full=True)  # among others, texts that are none
    except InvalidError as error:
        raise StoreError(f"{name} is damaged ({error}); 'storyframes index' writes it again") from None
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        damage = type(error).__name__
        raise StoreError(f"{name} is damaged ({damage}); 'storyframes index' writes it again") from None
    return table


def replace_table(
    storage: Storage, name: str, table: Callable[[], pa.Table | None], row_group_size: int | None = None
) -> None:
    """Write the Parquet file ``name`` of the store, and note its checksum.

    The new checksum is noted before the table is replaced, and the last ones stay beside it: another writer may be at
    the same point, and being killed between the two leaves nothing that looks damaged.

    Args:
        storage: the store.
        name: the file.
        table: makes the table, None to leave the one that is there; called again where another writer was faster.
        row_group_size: rows of a row group.
    """
    noted = ""

    def change(before: bytes | None) -> bytes | None:
        nonlocal noted
        noted = ""
        if (made := table()) is None:
            return None
        content = to_parquet(made, row_group_size)
        noted = _sha256(content)
        _accept(storage, name, noted)
        return None if content == before else content

    storage.update(name, change)
    if noted:
        _accept(storage, name, noted)


def _accept(storage: Storage, name: str, sha256: str) -> None:
    def update(before: bytes | None) -> bytes | None:
        checksums = _parse_checksums(before)
        there = checksums.get(name, [])
        if sha256 in there:
            return None
        after = {**checksums, name: [*there, sha256][-_REMEMBERED:]}
        return json.dumps(after, indent=1, sort_keys=True).encode() + b"\n"

    storage.update(CHECKSUMS, update)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def to_parquet(table: pa.Table, row_group_size: int | None = None) -> bytes:
    """``table`` as the bytes of a Parquet file: zstd, page checksums."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True, row_group_size=row_group_size)
    return buffer.getvalue()


def table_checksums(storage: Storage) -> dict[str, list[str]]:
    """The SHA-256 that each table of the store may have."""
    return _parse_checksums(storage.read(CHECKSUMS))


def is_proved(storage: Storage, name: str, content: bytes) -> bool:
    """Whether a table of the store has a checksum, and is as it says."""
    checksums = storage.read(CHECKSUMS)
    return checksums is not None and _matches(checksums, name, content)


def _matches(checksums: bytes, name: str, content: bytes) -> bool:
    return _sha256(content) in _parse_checksums(checksums).get(name, [])


def _parse_checksums(data: bytes | None) -> dict[str, list[str]]:
    """What is noted, by table; nothing where it is damaged."""
    try:
        content = parse_json(data or b"")
        return {str(name): [str(one) for one in noted] for name, noted in content.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def to_table(entries: Iterable[Entry]) -> pa.Table:
    """The catalogue of ``entries``, as Arrow has it."""
    import pyarrow as pa

    batches = _batches(map(_row, entries), _READ_AT_ONCE)
    return pa.Table.from_batches((pa.RecordBatch.from_pylist(rows, schema()) for rows in batches), schema())


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def _row(entry: Entry) -> dict[str, object]:
    row: dict[str, object] = {
        "session_id": entry.session_id,
        "feature": entry.feature,
        "status": str(entry.status),
        "reason": entry.reason or None,
    }
    if current := entry.current:
        arrays = {name: {**vars(array), "shape": list(array.shape)} for name, array in current.arrays.items()}
        row |= {
            "version": current.version,
            "path": f"{entry.session_id}/{entry.feature}/{current.version}",
            "created_at": current.created_at,
            "rows": current.rows,
            "bytes": current.nbytes,
            "arrays": json.dumps(arrays),
            "stamps": current.caveats,
            "quality": json.dumps(current.quality),
            "fingerprint": current.fingerprint,
        }
    return row
