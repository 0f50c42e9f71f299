"""The Parquet tables of a store: read with a check of their checksum, and replaced as a whole.

``checksums.json`` has the SHA-256s that each table may have, so that one flipped bit is noticed when a table is opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from storyframes.store.layout import CHECKSUMS, StoreError
from storyframes.store.storage import Storage
from storyframes.store.validation import InvalidError, parse_json

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_REMEMBERED = 20  # checksums of a table: as many writers may be about to replace it
_READ_ALONE = 2**20  # bytes of a file for which no thread is started: rarely, one aborts a process that ends
_MOST_ROWS_PER_BYTE = 64  # of a table's file; one of few sessions and many windows has a byte and more for each row


def read_table(storage: Storage, name: str) -> bytes | None:
    """The bytes of a table of the store, compared with its checksum; None where there is no table.

    Raises:
        StoreError: it, or the checksum, is damaged.
        StorageError: it cannot be read.
    """
    return read_checked(storage, name)[0]


def read_checked(storage: Storage, name: str) -> tuple[bytes | None, bool]:
    """The same, and whether the table has a checksum with which it was compared."""
    before: tuple[bytes | None, bytes | None] | None = None
    while True:  # a writer notes the new checksum before it writes the table
        checksums, content = storage.read_many([CHECKSUMS, name]).values()  # at once where they are far
        if content is None or checksums is None or _matches(checksums, name, content):
            return content, checksums is not None
        if (checksums, content) == before:
            raise StoreError(
                f"{name} is damaged, or {CHECKSUMS} is (it has another checksum there); 'storyframes index' writes "
                "both again"
            )
        before = checksums, content


def parse_table(content: bytes, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A table of the store as Arrow has it; of ``columns``, those that exist.

    Raises:
        StoreError: it is damaged.
    """
    with _reading(name):
        file = _open(content)
        table = file.read(columns, use_threads=len(content) > _READ_ALONE)
        table.validate(full=True)  # among others, texts that are not UTF-8
    return table


def parse_pieces(content: bytes, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The same, a few thousand rows after the other, as they were written; none of a table without rows.

    Raises:
        StoreError: it is damaged.
    """
    with _reading(name):
        file = _open(content)
        for number in range(file.metadata.num_row_groups):
            table = file.read_row_group(number, columns, use_threads=False)
            table.validate(full=True)
            yield table


def _open(content: bytes) -> pq.ParquetFile:
    import pyarrow as pa  # which is not needed to compare a table with its checksum
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    if file.metadata.num_rows > len(content) * _MOST_ROWS_PER_BYTE:
        raise InvalidError(f"{file.metadata.num_rows} rows in {len(content)} bytes")
    return file


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except InvalidError as error:
        raise StoreError(f"{name} is damaged ({error}); 'storyframes index' writes it again") from None
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        damage = type(error).__name__
        raise StoreError(f"{name} is damaged ({damage}); 'storyframes index' writes it again") from None


def stored_table(storage: Storage, name: str, columns: Sequence[str] | None = None) -> pa.Table | None:
    """The table ``name`` of the store, or some of its columns; None where it has none.

    Raises:
        StoreError: it is damaged.
        StorageError: it cannot be read.
    """
    content = read_table(storage, name)
    return None if content is None else parse_table(content, name, columns)


def to_parquet(table: pa.Table, row_group_size: int | None = None) -> bytes:
    """``table`` as the bytes of a Parquet file: zstd, page checksums."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True, row_group_size=row_group_size)
    return buffer.getvalue()


def replace_table(
    storage: Storage, name: str, table: Callable[[], pa.Table | None], row_group_size: int | None = None
) -> str:
    """Write the Parquet file ``name`` of the store, and note its checksum.

    The new checksum is noted before the table is replaced, and the last ones stay beside it: another writer may be at
    the same point, and a writer that is killed between the two leaves nothing that looks damaged.

    Args:
        table: makes the table, None to leave the present one; called again where another writer was faster.

    Returns:
        The checksum of what was made; empty where the present table was left.
    """
    noted = ""

    def change(before: bytes | None) -> bytes | None:
        nonlocal noted
        noted = ""
        if (made := table()) is None:
            return None
        content = to_parquet(made, row_group_size)
        noted = _sha256(content)
        _note_checksum(storage, name, noted)
        return None if content == before else content

    storage.update(name, change)
    if noted:
        _note_checksum(storage, name, noted)
    return noted


def table_checksums(storage: Storage) -> dict[str, list[str]]:
    """The SHA-256s that each table of the store may have."""
    return _parse_checksums(storage.read(CHECKSUMS))


def is_proved(storage: Storage, name: str, content: bytes) -> bool:
    """Whether a table of the store has a checksum, and matches it."""
    checksums = storage.read(CHECKSUMS)
    return checksums is not None and _matches(checksums, name, content)


def _note_checksum(storage: Storage, name: str, sha256: str) -> None:
    def update(before: bytes | None) -> bytes | None:
        checksums = _parse_checksums(before)
        noted = checksums.get(name, [])
        if sha256 in noted:
            return None
        after = {**checksums, name: [*noted, sha256][-_REMEMBERED:]}
        return json.dumps(after, indent=1, sort_keys=True).encode() + b"\n"

    storage.update(CHECKSUMS, update)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _matches(checksums: bytes, name: str, content: bytes) -> bool:
    return _sha256(content) in _parse_checksums(checksums).get(name, [])


def _parse_checksums(data: bytes | None) -> dict[str, list[str]]:
    """The noted checksums by table; none where the file is damaged."""
    try:
        content = parse_json(data or b"")
        return {str(name): [str(sha256) for sha256 in noted] for name, noted in content.items()}
    except (ValueError, AttributeError, TypeError):
        return {}
