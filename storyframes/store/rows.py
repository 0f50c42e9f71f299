"""The rows of one stored array: mapped where its file allows it, fetched by ranges, or read by zarr-python."""

from __future__ import annotations

import ctypes
import math
import mmap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from storyframes.store.caches import ChunkCache, CopyFolder
from storyframes.store.description import open_array
from storyframes.store.far_rows import FarArray, FarRows, Fetchers, shard_tail
from storyframes.store.layout import StoreError
from storyframes.store.records import StoredArray
from storyframes.store.shards import CHUNK_ROWS, ShardLayout, map_shard
from storyframes.store.storage import Storage

ANNOUNCED_S = 60.0
_HAS_ADVICE = hasattr(mmap, "MADV_WILLNEED")  # Windows has none
if _HAS_ADVICE:
    _madvise = ctypes.CDLL(None).madvise
    _madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@dataclass(frozen=True)
class Kept:
    """What keeps rows that were read from compressed or far arrays.

    Attributes:
        folder: on this machine's disk, for rows of a far store.
    """

    cache: ChunkCache
    folder: CopyFolder | None
    fetchers: Fetchers


def open_rows(storage: Storage, path: str, layout: ShardLayout, kept: Kept) -> Rows:
    """The rows of the array at ``path``; slices of every kind of result hold the same values.

    Args:
        path: of the array, below the store.
        layout: as it was published.

    Raises:
        StoreError: it cannot be opened, or is not the array that was published.
        StorageError: an object store cannot be reached.
    """
    key = f"{path}/{layout.key}"
    if layout.rows == 0:
        return MappedRows(np.empty(layout.shape, layout.dtype))
    if (ranges := storage.ranges) is not None and layout.row_bytes:
        if tail := shard_tail(ranges, key, layout):
            name = f"{storage.location}\n{key}\n{tail.tag}"
            copy = kept.folder.copy(name, layout) if kept.folder else None
            far = FarArray(ranges, key, layout, kept.fetchers, storage.zarr(path))
            return FarRows(far, kept.cache, copy)
    elif shard := storage.local(key):
        mapped = map_shard(shard, layout)
        if mapped is not None:
            return MappedRows(mapped)
    return ZarrRows(storage, path, layout, kept.cache)


class MappedRows:
    """Rows of an array that is mapped into memory: ``array``."""

    __slots__ = ("_address", "_announced", "_row_bytes", "array", "shape")

    def __init__(self, rows: np.ndarray) -> None:
        self.shape = rows.shape
        self.array = rows
        self._row_bytes = rows.nbytes // max(len(rows), 1)
        self._address = rows.__array_interface__["data"][0]  # asking for it takes longer than the system call
        self._announced = [-math.inf] * -(-len(rows) // CHUNK_ROWS)  # when, for each chunk

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows, not copied."""
        return self.array[rows]

    def will_need(self, start: int, stop: int) -> None:
        """Have the kernel fetch rows [start, stop) from the disk at once, in the background, where it can.

        Without this it fetches them page fault by page fault, one clip after the other. Rows that were announced within
        the last minute are not again: the call takes as long as a seventh of copying them.
        """
        if not _HAS_ADVICE or start == stop:
            return
        chunks = slice(start // CHUNK_ROWS, -(-stop // CHUNK_ROWS))
        now = time.monotonic()
        if min(self._announced[chunks]) > now - ANNOUNCED_S:
            return
        self._announced[chunks] = [now] * (chunks.stop - chunks.start)
        chunk_bytes = CHUNK_ROWS * self._row_bytes  # the file has whole chunks
        first = self._address + chunks.start * chunk_bytes & -mmap.PAGESIZE
        _madvise(first, self._address + chunks.stop * chunk_bytes - first, mmap.MADV_WILLNEED)


class ZarrRows:
    """Rows of an array whose file cannot be mapped: compressed, or with a chunk moved or left out.

    Whole chunks are decoded, and kept in the cache: neighbouring clips overlap, and zarr-python would decode a chunk
    again for each of them.

    Raises:
        StoreError: it cannot be opened, or is not the array that was published.
    """

    def __init__(self, storage: Storage, path: str, layout: ShardLayout, cache: ChunkCache) -> None:
        self.array = open_array(storage, path, StoredArray(layout.shape, layout.dtype.name, layout.chunk_rows))
        self.shape = layout.shape
        self._chunk_rows = layout.chunk_rows
        self._path = path
        self._cache = cache

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows [start, stop), which have to exist, decoded.

        Raises:
            StoreError: the file is damaged or gone.
        """
        start, stop = rows.start, rows.stop
        size = self._chunk_rows
        if (stop - start) * self._row_bytes > self._cache.max_bytes // 4:  # would drop everything else from the cache
            return self._decode(start, stop)
        values = np.empty((stop - start, *self.shape[1:]), self.array.dtype)
        for number, chunk in self._chunks(start // size, -(-stop // size)):
            first = number * size
            low, high = max(start, first), min(stop, first + len(chunk))
            values[low - start : high - start] = chunk[low - first : high - first]
        return values

    def will_need(self, start: int, stop: int) -> None:
        """Nothing to do: zarr-python reads a few large pieces."""

    @property
    def _row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.array.dtype.itemsize

    def _chunks(self, first: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
        """The chunks [first, stop) by number; neighbours that are not in the cache are decoded at once."""
        missing: list[int] = []
        for number in range(first, stop):
            chunk = self._cache.get((self._path, number))
            if chunk is None:
                missing.append(number)
            else:
                yield number, chunk
        for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]):
            numbers = [number for _, number in run]
            yield from self._fetch(numbers[0], numbers[-1] + 1)

    def _fetch(self, first: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
        size = self._chunk_rows
        values = self._decode(first * size, min(stop * size, self.shape[0]))
        for number in range(first, stop):
            part = values[(number - first) * size : (number - first + 1) * size]
            chunk = part if stop - first == 1 else part.copy()  # a part would keep the whole of it in memory
            self._cache.put((self._path, number), chunk)
            yield number, chunk

    def _decode(self, start: int, stop: int) -> np.ndarray:
        try:
            values = np.asarray(self.array[start:stop])
        except (OSError, ValueError, RuntimeError, MemoryError) as error:  # from the checksum, the codecs and the disk
            raise StoreError(f"{self._path} cannot be read ({error}): run 'storyframes verify'") from None
        return values


Rows = MappedRows | FarRows | ZarrRows
"""The rows of an array, in one of the ways to read them."""
