"""The catalogue: one row per (session, feature), compacted from the records beside the versions.

The records are the truth; the table is a snapshot of them that opens in one read. It is replaced as a whole, so a
reader that holds one sees the store as it was, whatever is published meanwhile.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from storyframes.durable import locked, write_atomically
from storyframes.layout import CATALOGUE, CHECKSUMS, StoreError, feature_folders
from storyframes.records import ATTEMPT, CURRENT, Attempt, Current, RecordError, Status, StoredArray

_LOCK = ".catalogue.lock"

_SCHEMA = pa.schema(
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

    @property
    def status(self) -> Status:
        if self.damage:
            return Status.FAILED
        return self.attempt.status if self.attempt else Status.DONE

    @property
    def reason(self) -> str:
        return self.damage or (self.attempt.reason if self.attempt else "")


def read_entry(folder: Path, session_id: str, feature: str) -> Entry | None:
    """The entry of one feature's folder, None where nothing was ever attempted to its end there."""
    try:
        current = Current.read(folder / CURRENT)
    except RecordError as error:
        return Entry(session_id, feature, None, None, damage=f"{error}; extract it again with --force")
    try:
        attempt = Attempt.read(folder / ATTEMPT)
    except RecordError:
        attempt = None  # only the reason of an older failure is lost
    if current and attempt and attempt.at <= current.created_at:
        attempt = None  # a publisher died between making the version current and removing this
    return Entry(session_id, feature, current, attempt) if current or attempt else None


def scan(root: Path) -> Iterator[Entry]:
    """Every entry of the store, from the records themselves."""
    for session_id, feature, folder in feature_folders(root):
        if entry := read_entry(folder, session_id, feature):
            yield entry


def to_frame(entries: Iterator[Entry] | list[Entry]) -> pd.DataFrame:
    """The catalogue of ``entries``: a column for each field of the table."""
    return _to_table(entries).to_pandas()


def compact(root: Path) -> list[Entry]:
    """Write the catalogue from the records; unchanged content leaves the file alone. Returns the entries.

    A lock keeps two compactions apart, so the last one to write has seen every version published before it began.
    """
    with locked(root / _LOCK):
        entries = list(scan(root))
        replace_table(root, CATALOGUE, _to_table(entries))
    return entries


def load(root: Path) -> pd.DataFrame:
    """The catalogue as it was last compacted; made from the records where it was never."""
    path = root / CATALOGUE
    if not path.exists():
        return to_frame(scan(root))
    try:
        return pq.read_table(path, page_checksum_verification=True).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{path} is damaged ({type(error).__name__}); 'storyframes index' writes it again") from None


def replace_table(root: Path, name: str, table: pa.Table, row_group_size: int | None = None) -> None:
    """Write ``table`` as the Parquet file ``name`` of the store, atomically, and note its checksum.

    The checksums are widened to both contents before the replacement and narrowed after it, so that being killed
    between the two leaves nothing that looks damaged.
    """
    content = to_parquet(table, row_group_size)
    digest = hashlib.sha256(content).hexdigest()
    path = root / name
    accepted = table_checksums(root)
    before = accepted.get(name, [])
    if path.exists() and before == [digest] and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
        return
    write_atomically(root / CHECKSUMS, _checksums_json({**accepted, name: sorted({*before, digest})}))
    write_atomically(path, content)
    write_atomically(root / CHECKSUMS, _checksums_json({**accepted, name: [digest]}))


def to_parquet(table: pa.Table, row_group_size: int | None = None) -> bytes:
    """``table`` as the bytes of a Parquet file: zstd, page checksums."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True, row_group_size=row_group_size)
    return buffer.getvalue()


def table_checksums(root: Path) -> dict[str, list[str]]:
    """The SHA-256 that each table of the store may have."""
    try:
        content = json.loads((root / CHECKSUMS).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _checksums_json(checksums: dict[str, list[str]]) -> bytes:
    return json.dumps(checksums, indent=1, sort_keys=True).encode() + b"\n"


def _to_table(entries: Iterator[Entry] | list[Entry]) -> pa.Table:
    return pa.Table.from_pylist([_row(entry) for entry in entries], schema=_SCHEMA)


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
            "stamps": current.stamps,
            "quality": json.dumps(current.quality),
            "fingerprint": current.fingerprint,
        }
    return row


def parse_arrays(text: str) -> dict[str, StoredArray]:
    """The ``arrays`` column of one row."""
    return {
        name: StoredArray(tuple(array["shape"]), array["dtype"], array["chunk_rows"])
        for name, array in json.loads(text).items()
    }
