"""Rows of an array on an object store, whose shard holds them uncompressed: fetched by ranges, many at a time.

Whole chunks are fetched, and kept in a copy on this machine's disk where there is one, else in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from storyframes.store.caches import ChunkCache, CopyFolder, LocalCopy, reset_after_fork
from storyframes.store.layout import StoreError
from storyframes.store.shards import ShardLayout
from storyframes.store.storage import Ranges, Tail

REQUESTS_AT_ONCE = 64
_MOST_OF_A_REQUEST = 4 * 2**20  # bytes: longer runs of chunks are fetched by several requests at once
ArrayKey = tuple[str, str, str]
"""The session, the feature and the name of an array."""
OpenArray = Callable[[str, str, str], Any]
_FETCHED_WHOLE = 2**20  # bytes: arrays up to this size are fetched whole, by one request


class Fetchers:
    """The threads that fetch, started when they are first needed and again after a fork."""

    def __init__(self) -> None:
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start new threads when they are needed: a forked process has none."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def submit(self, work: Any, *arguments: Any) -> Future[Any]:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="fetch")
            return self._pool.submit(work, *arguments)


class Opening:
    """Arrays of a far store that are being opened, each once, however many threads need it.

    The function that opens comes with each call: kept here, it would keep a store and its maps alive.
    """

    def __init__(self, fetchers: Fetchers) -> None:
        self._fetchers = fetchers
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start with nothing under way: a forked process is without the threads that were opening."""
        self._under_way: dict[ArrayKey, Future[Any]] = {}
        self._lock = threading.Lock()

    def begin(self, open_array: OpenArray, array: ArrayKey, start: int, stop: int) -> None:
        """Open the array in the background, and then fetch rows of it."""

        def fetch(opened: Future[Any]) -> None:
            if opened.exception() is None:  # an error is raised when the array is read
                opened.result().will_need(start, stop)

        self._future(open_array, array).add_done_callback(fetch)

    def end(self, open_array: OpenArray, array: ArrayKey) -> Any:
        """The array, opened.

        Raises:
            StoreError: it cannot be opened.
        """
        opened = self._under_way.get(array)
        try:
            return open_array(*array) if opened is None else opened.result()
        finally:
            self._under_way.pop(array, None)

    def _future(self, open_array: OpenArray, array: ArrayKey) -> Future[Any]:
        with self._lock:
            if array not in self._under_way:
                self._under_way[array] = self._fetchers.submit(open_array, *array)
            return self._under_way[array]


def shard_tail(ranges: Ranges, path: str, layout: ShardLayout) -> Tail | None:
    """The end of a shard whose chunks are uncompressed and in row order; None where they are not.

    Raises:
        StoreError: the shard is gone.
        StorageError: the object store cannot be reached.
    """
    try:
        tail = ranges.tail(path, layout.file_bytes - layout.data_bytes)
    except FileNotFoundError as error:
        raise StoreError(str(error)) from None
    is_as_long = tail.size == layout.file_bytes == layout.data_bytes + len(tail.content)
    return tail if is_as_long and tail.content == layout.index() else None


@dataclass(frozen=True)
class FarArray:
    """Where the rows of an array are, and how they are fetched.

    Attributes:
        zarr: keyword arguments with which zarr-python opens the array.
    """

    ranges: Ranges
    key: str
    layout: ShardLayout
    fetchers: Fetchers
    zarr: Any


class FarRows:
    """Rows of an array on an object store. Threads may share one; a chunk that several need is fetched once.

    Args:
        cache: for chunks that are not in the copy.
        copy: of the array on this machine's disk.
    """

    def __init__(self, far: FarArray, cache: ChunkCache, copy: LocalCopy | None) -> None:
        self.shape = far.layout.shape
        self._far, self._cache, self._copy = far, cache, copy
        self._chunk_bytes = far.layout.chunk_rows * far.layout.row_bytes
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start with nothing under way: a forked process is without the threads that were fetching."""
        self._under_way: dict[int, Future[dict[int, np.ndarray]]] = {}
        self._lock = threading.Lock()

    @property
    def array(self) -> Any:
        """The array, for zarr-python to read."""
        import zarr

        return zarr.open_array(mode="r", **self._far.zarr)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows [start, stop), which have to exist; mapped and read-only where all are in the copy.

        Raises:
            StoreError: the object is damaged or gone.
        """
        start, stop = rows.start, rows.stop
        size = self._far.layout.chunk_rows
        first, last = start // size, -(-stop // size)
        if self._copy and self._copy.has(first, last):
            return self._copy.rows[start:stop]
        fetched: dict[int, np.ndarray] = {}
        for arrival in self._ask(first, last, is_waiting=True):
            fetched |= arrival.result()
        if self._copy and self._copy.has(first, last):
            return self._copy.rows[start:stop]
        values = np.empty((stop - start, *self.shape[1:]), self._far.layout.dtype)
        for number in range(first, last):
            chunk = fetched[number] if number in fetched else self._chunk(number)
            low, high = max(start, number * size), min(stop, number * size + len(chunk))
            values[low - start : high - start] = chunk[low - number * size : high - number * size]
        return values

    def will_need(self, start: int, stop: int) -> None:
        """Begin to fetch rows [start, stop)."""
        size = self._far.layout.chunk_rows
        self._ask(start // size, -(-stop // size))

    def _chunk(self, number: int) -> np.ndarray:
        """A chunk that was in the copy or the cache when it was looked for."""
        if self._copy and self._copy.has(number, number + 1):
            size = self._far.layout.chunk_rows
            return self._copy.rows[number * size : (number + 1) * size]
        kept = self._cache.get((self._far.key, number))
        return self._fetch(number, number + 1)[number] if kept is None else kept

    def _ask(self, first: int, stop: int, *, is_waiting: bool = False) -> set[Future[dict[int, np.ndarray]]]:
        """Begin to fetch the chunks that are neither in the copy nor in the cache; returns their futures.

        Args:
            first, stop: the chunks [first, stop).
            is_waiting: the caller waits for them, so this thread fetches as well: a single request needs no other.
        """
        if self._copy and self._copy.has(first, stop):  # a full copy is read as a local store is: without the lock
            return set()
        own: Future[dict[int, np.ndarray]] = Future()
        with self._lock:
            is_small = self._far.layout.data_bytes <= _FETCHED_WHOLE
            if is_small and any(self._lacks(number) for number in range(first, stop)):
                first, stop = 0, self._far.layout.chunks
            missing = [number for number in range(first, stop) if number not in self._under_way and self._lacks(number)]
            requests = list(self.requests(missing))
            mine = requests.pop() if is_waiting and requests else None
            for begin, end in requests:
                arrival = self._far.fetchers.submit(self._fetch, begin, end)
                self._under_way |= dict.fromkeys(range(begin, end), arrival)
            if mine:
                self._under_way |= dict.fromkeys(range(*mine), own)
            arrivals = {self._under_way[number] for number in range(first, stop) if number in self._under_way}
        if mine:
            try:
                own.set_result(self._fetch(*mine))
            except BaseException as error:
                own.set_exception(error)
        return arrivals

    def _lacks(self, number: int) -> bool:
        if self._copy and self._copy.has(number, number + 1):
            return False
        return self._cache.get((self._far.key, number)) is None

    def requests(self, missing: list[int]) -> Iterator[tuple[int, int]]:
        """Runs of chunks [first, stop), each fetched by one request."""
        most = max(_MOST_OF_A_REQUEST // self._chunk_bytes, 1)
        for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]):
            numbers = [number for _, number in run]
            for position in range(0, len(numbers), most):
                part = numbers[position : position + most]
                yield part[0], part[-1] + 1

    def _fetch(self, first: int, stop: int) -> dict[int, np.ndarray]:
        """Fetch the chunks [first, stop), and keep them."""
        try:
            size = self._chunk_bytes
            content = memoryview(self._far.ranges.part(self._far.key, first * size, stop * size)).cast("B")
            if len(content) != (stop - first) * size:
                raise StoreError(
                    f"{self._far.key}: {len(content)} bytes came where {(stop - first) * size} were asked for: "
                    "run 'storyframes verify'"
                )
            chunks = {}
            for number in range(first, stop):
                part = content[(number - first) * size : (number - first + 1) * size]
                rows = min(self._far.layout.chunk_rows, self.shape[0] - number * self._far.layout.chunk_rows)
                chunk = np.frombuffer(part, self._far.layout.dtype.newbyteorder("<"))
                chunks[number] = chunk.reshape(-1, *self.shape[1:])[:rows]
            self._keep(first, content, chunks)
            return chunks
        except FileNotFoundError as error:
            raise StoreError(str(error)) from None
        finally:
            with self._lock:
                for number in range(first, stop):
                    self._under_way.pop(number, None)

    def _keep(self, first: int, content: memoryview, chunks: dict[int, np.ndarray]) -> None:
        if self._copy and self._copy.put(first, content):
            return
        for number, chunk in chunks.items():
            self._cache.put((self._far.key, number), chunk if len(chunks) == 1 else chunk.copy())


@dataclass(frozen=True)
class Kept:
    """What keeps rows that were read from compressed or far arrays.

    Attributes:
        folder: on this machine's disk, for rows of a far store.
    """

    cache: ChunkCache
    folder: CopyFolder | None
    fetchers: Fetchers
