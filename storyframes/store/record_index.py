"""An index of the states of all records of a store, so that those which did not change need not be read again.

The catalogue keeps the mark of each of its rows' records. Marks are compared, never trusted alone: a record of which
the storage cannot say for certain that it is the same (:meth:`storyframes.store.storage.Storage.states`) is read.
"""

from __future__ import annotations

import hashlib
import itertools
from array import array
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from storyframes.store.records import ATTEMPT, CURRENT
from storyframes.store.storage import Storage
from storyframes.store.validation import are_names

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_RULE = 2  # raise it when the same records give another row of the catalogue than before
_MARK_BYTES = 16
_NAMES = (CURRENT, ATTEMPT)
_LAST: tuple[str, list[tuple[str, str]]] = ("", [])  # after the last folder
_NAMES_OF = ((), (CURRENT,), (ATTEMPT,), _NAMES)  # by the sum of 1 for the first and 2 for the second


@dataclass
class RecordIndex:
    """What a listing of the records shows; about 40 bytes a folder, as a store may have a million of them.

    Attributes:
        unreadable: paths that could not be listed, and why.
    """

    unreadable: dict[str, str] = field(default_factory=dict)
    _text: bytearray = field(default_factory=bytearray)  # the folders one after the other
    _ends: array[int] = field(default_factory=lambda: array("q", [0]))
    _names: bytearray = field(default_factory=bytearray)
    _marks: bytearray = field(default_factory=bytearray)
    _certain: bytearray = field(default_factory=bytearray)

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """List the records of a store."""
        return next(cls.pieces(storage, [None]))

    @classmethod
    def pieces(cls, storage: Storage, ends: Iterable[str | None]) -> Iterator[Self]:
        """List the records of a store piece by piece, so that no more than one piece's are in memory.

        Args:
            ends: the last session of each piece, in the storage's order; None: what remains. Other than None alone,
                only where the storage lists in order.
        """
        unreadable: dict[str, str] = {}
        states = storage.states(_NAMES, unreadable.__setitem__)
        folders = (
            (folder, [(path.rpartition("/")[2], state) for path, state in group])
            for folder, group in itertools.groupby(states, key=lambda state: state[0].rpartition("/")[0])
        )
        folder, records = next(folders, _LAST)
        for end in ends:
            index = cls()
            while records and is_before(folder, end):
                if are_names(folder):
                    index.add(folder, records)
                folder, records = next(folders, _LAST)
            for path in [path for path in unreadable if not path or is_before(path, end)]:
                index.unreadable[path] = unreadable.pop(path)
            yield index

    def add(self, folder: str, states: Iterable[tuple[str, str]]) -> None:
        """Add a folder ``<session>/<feature>``, with the name and the state of each of its records."""
        states = sorted(states)
        self._text += _encoded(folder)
        self._ends.append(len(self._text))
        self._names.append(sum(1 << _NAMES.index(name) for name, _ in states))
        self._certain.append(all(state for _, state in states))
        lines = "\n".join(f"{name}={state}" for name, state in states)
        self._marks += hashlib.blake2b(f"{_ROWS_RULE}\n{lines}".encode(), digest_size=_MARK_BYTES).digest()

    def digest(self) -> bytes:
        """A digest that stays the same only while all records do; empty where that of one cannot be known."""
        if self.unreadable or not all(self._certain):
            return b""
        digest = hashlib.sha256()
        for column in (self._text, self._ends, self._names, self._marks):
            digest.update(column)
        return digest.digest()

    def since(self, rows: pa.Table, marks: str, fresh: Set[str], never: str) -> Difference:
        """What may have changed since a catalogue was written.

        Args:
            rows: of the catalogue, with columns ``session_id`` and ``feature``.
            marks: its column of marks, null where none is to be trusted.
            fresh: folders that changed, whatever is listed.
            never: a feature of ``rows`` that is no folder.
        """
        import pyarrow as pa  # which is not needed for a digest
        import pyarrow.compute as pc

        listed = pa.Array.from_buffers(
            pa.large_binary(), len(self._names), [None, pa.py_buffer(self._ends), pa.py_buffer(self._text)]
        )
        joined = pc.binary_join_element_wise(rows["session_id"], rows["feature"], "/")
        folders = joined.cast(pa.binary()).cast(pa.large_binary()).combine_chunks()
        real = pc.not_equal(rows["feature"], never).to_numpy()
        row_of = pc.fill_null(pc.index_in(listed, value_set=folders), -1).to_numpy()
        trusted = rows[marks].is_valid().to_numpy() & real
        same = np.frombuffer(self._certain, bool) & (row_of >= 0)
        candidates = np.flatnonzero(same)
        same[candidates] = trusted[row_of[candidates]]
        candidates = np.flatnonzero(same)
        numbers, own = _column_numbers(rows[marks]), _numbers(self._marks)
        same[candidates] = (numbers[row_of[candidates]] == own[candidates]).all(axis=1)
        same &= ~np.isin(np.arange(len(listed)), pc.index_in(_binary(fresh), value_set=listed).drop_null().to_numpy())
        twice = pc.value_counts(listed) if pc.count_distinct(listed).as_py() < len(listed) else None
        if twice is not None:  # a folder's records were not listed side by side: no mark is of all of them
            apart = twice.field("values").filter(pc.greater(twice.field("counts"), 1))
            same &= ~pc.is_in(listed, value_set=apart).to_numpy(zero_copy_only=False)
        kept = np.sort(row_of[same])
        changed: dict[str, tuple[str, ...]] = {}
        new_marks: dict[str, bytes] = {}
        for position in np.flatnonzero(~same).tolist():
            folder = _decoded(listed[position].as_py())
            if folder in changed:
                changed[folder] = _NAMES
                new_marks.pop(folder, None)
                continue
            changed[folder] = _NAMES_OF[self._names[position]]
            if self._certain[position]:
                new_marks[folder] = bytes(self._marks[position * _MARK_BYTES : (position + 1) * _MARK_BYTES])
        gone = real.copy()
        gone[row_of[row_of >= 0]] = False
        unlisted: dict[str, tuple[str, ...]] = {}
        for folder in [*map(_decoded, folders.filter(pa.array(gone)).to_pylist()), *fresh]:
            if folder not in changed and are_names(folder):
                unlisted[folder] = _NAMES
        return Difference(kept, changed, unlisted, new_marks)


@dataclass(frozen=True)
class Difference:
    """What may have changed since a catalogue was written.

    Attributes:
        kept: the rows whose records are certain to be the same.
        changed: the other folders that are listed, with the names of the records to read.
        unlisted: the same for folders of the catalogue that are not listed: a listing may lag behind, so both records
            are to be read.
        marks: the new marks of changed folders whose states are certain: 16 bytes that stay the same only while the
            folder's records do.
    """

    kept: np.ndarray
    changed: dict[str, tuple[str, ...]]
    unlisted: dict[str, tuple[str, ...]]
    marks: dict[str, bytes]


def is_before(path: str, end: str | None) -> bool:
    """Whether a path is in a session up to ``end``, by which pieces are separated."""
    return end is None or path.partition("/")[0] + "/" <= f"{end}/"


def _encoded(folder: str) -> bytes:
    return folder.encode("utf-8", "surrogateescape")  # a file name need not be UTF-8


def _decoded(folder: bytes) -> str:
    return folder.decode("utf-8", "surrogateescape")


def _binary(folders: Iterable[str]) -> pa.Array:
    import pyarrow as pa

    return pa.array([_encoded(folder) for folder in folders], pa.large_binary())


def _numbers(marks: bytearray | memoryview) -> np.ndarray:
    """Marks as two numbers each, which numpy compares at once."""
    return np.frombuffer(marks, np.uint64).reshape(-1, 2)


def _column_numbers(column: pa.ChunkedArray) -> np.ndarray:
    chunks = [
        _numbers(memoryview(chunk.buffers()[1])[: (chunk.offset + len(chunk)) * _MARK_BYTES])[chunk.offset :]
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate(chunks) if chunks else np.zeros((0, 2), np.uint64)
