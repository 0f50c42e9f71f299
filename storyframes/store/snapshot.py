"""The catalogue as it was when a store was opened: small in memory, and quick to query for one session.

It stays as Parquet: a column is decoded when it is first needed, and a row becomes a Python object when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storyframes.features import STORIES
from storyframes.store.catalogue import (
    CHECKED,
    SCHEMA,
    STATUS_COLUMNS,
    check_rows,
    check_types,
    status_of_row,
    to_table,
)
from storyframes.store.layout import CATALOGUE, StoreError, current_path
from storyframes.store.record_status import FeatureStatus, scan
from storyframes.store.records import Current, RecordError
from storyframes.store.storage import Storage
from storyframes.store.table_files import parse_table, read_checked


class Snapshot(Mapping[tuple[str, str], tuple[str, str]]):
    """By session and feature, the path of the current version and the description of its arrays (JSON)."""

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
