"""The rows of an array whose file cannot be mapped, decoded by zarr-python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

import numpy as np

from storyframes.store.caches import ChunkCache
from storyframes.store.description import open_array
from storyframes.store.layout import StoreError
from storyframes.store.records import StoredArray
from storyframes.store.shards import ShardLayout
from storyframes.store.storage import Storage


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
