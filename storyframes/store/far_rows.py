"""Rows of an array on an object store, whose shard holds them as they are: fetched by ranges, many at a time.

What is fetched are whole chunks. They are kept in a copy on this machine's disk, where there is one, else in memory.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import zarr

from storyframes.store.caches import ChunkCache, LocalCopy
from storyframes.store.layout import StoreError
from storyframes.store.shards import ShardLayout
from storyframes.store.storage import Ranges, Tail

REQUESTS_AT_ONCE = 64
_MOST_OF_A_REQUEST = 4 * 2**20  # bytes: longer runs of chunks are fetched in parts, side by side
ArrayKey = tuple[str, str, str]
"""The session, the feature and the name of an array."""
OpenArray = Callable[[str, str, str], Any]
_FETCHED_WHOLE = 2**20  # bytes: arrays up to this size are one request, whatever is read of them


class Fetchers:
    """The threads that fetch, made when they are first needed and again after a fork."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        _fetchers.add(self)

    def submit(self, work: Any, *arguments: Any) -> Future[Any]:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="fetch")
            return self._pool.submit(work, *arguments)

    def after_fork(self) -> None:
        """Threads are not there after a fork."""
        self._pool, self._lock = None, threading.Lock()


class Opening:
    """Arrays of a far store that are being opened: each once, however many threads want it.

    Args:
        fetchers: the threads that open.
    """

    def __init__(self, fetchers: Fetchers) -> None:
        self._fetchers = (
            fetchers  # what opens comes with each call: kept here, it would keep a store and its maps alive
        )
        self._under_way: dict[ArrayKey, Future[Any]] = {}
        self._process, self._lock = os.getpid(), threading.Lock()

    def begin(self, open_array: OpenArray, array: ArrayKey, start: int, stop: int) -> None:
        """Open the array meanwhile, and then fetch rows of it."""

        def fetch(opened: Future[Any]) -> None:
            if opened.exception() is None:  # an error is told to who reads
                opened.result().will_need(start, stop)

        self._future(open_array, array).add_done_callback(fetch)

    def end(self, open_array: OpenArray, array: ArrayKey) -> Any:
        """The array, opened.

        Raises:
            StoreError: it cannot be opened.
        """
        opened = self._under_way.get(array) if self._process == os.getpid() else None
        try:
            return open_array(*array) if opened is None else opened.result()
        finally:
            self._under_way.pop(array, None)

    def _future(self, open_array: OpenArray, array: ArrayKey) -> Future[Any]:
        if self._process != os.getpid():  # forked: those who were opening are not here
            self._process, self._lock, self._under_way = os.getpid(), threading.Lock(), {}
        with self._lock:
            if array not in self._under_way:
                self._under_way[array] = self._fetchers.submit(open_array, *array)
            return self._under_way[array]


_fetchers: weakref.WeakSet[Fetchers] = weakref.WeakSet()


def _after_fork() -> None:
    for fetchers in list(_fetchers):
        fetchers.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def shard_tail(place: Ranges, path: str, layout: ShardLayout) -> Tail | None:
    """The end of a shard whose chunks all lie in row order, uncompressed; None where they do not.

    Raises:
        StoreError: it is gone.
        StorageError: the place cannot be reached.
    """
    try:
        tail = place.tail(path, layout.file_bytes - layout.data_bytes)
    except FileNotFoundError as error:
        raise StoreError(str(error)) from None
    is_as_long = tail.size == layout.file_bytes == layout.data_bytes + len(tail.content)
    return tail if is_as_long and tail.content == layout.index() else None


@dataclass(frozen=True)
class FarArray:
    """Where the rows are, and how they are got.

    Attributes:
        place: the object store.
        key: the shard's path.
        layout: of the shard.
        fetchers: the threads that fetch.
        zarr: what zarr-python opens for the array.
    """

    place: Ranges
    key: str
    layout: ShardLayout
    fetchers: Fetchers
    zarr: Any


class FarRows:
    """Rows of an array on an object store. Threads may share one; a chunk that several want is fetched once.

    Args:
        far: where they are.
        cache: for chunks, where there is no copy or no room in it.
        copy: of the array on this machine's disk.
    """

    def __init__(self, far: FarArray, cache: ChunkCache, copy: LocalCopy | None) -> None:
        self.shape = far.layout.shape
        self._far, self._cache, self._copy = far, cache, copy
        self._chunk_bytes = far.layout.chunk_rows * far.layout.row_bytes
        self._under_way: dict[int, Future[dict[int, np.ndarray]]] = {}
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def array(self) -> Any:
        """The array, for zarr-python to read."""
        return zarr.open_array(mode="r", **self._far.zarr)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows [start, stop), which have to be there; mapped and read-only where all are in the copy.

        Raises:
            StoreError: the object is damaged or gone.
        """
        start, stop = rows.start, rows.stop
        size = self._far.layout.chunk_rows
        first, last = start // size, -(-stop // size)
        if self._copy and self._copy.has(first, last):
            return self._copy.rows[start:stop]
        fetched: dict[int, np.ndarray] = {}
        for arrival in self._ask(first, last, here=True):
            fetched |= arrival.result()
        if self._copy and self._copy.has(first, last):
            return self._copy.rows[start:stop]
        values = np.empty((stop - start, *self.shape[1:]), self._far.layout.dtype)
        for number in range(first, last):
            chunk = fetched[number] if number in fetched else self._one(number)
            low, high = max(start, number * size), min(stop, number * size + len(chunk))
            values[low - start : high - start] = chunk[low - number * size : high - number * size]
        return values

    def will_need(self, start: int, stop: int) -> None:
        """Begin to fetch rows [start, stop)."""
        size = self._far.layout.chunk_rows
        self._ask(start // size, -(-stop // size))

    def _one(self, number: int) -> np.ndarray:
        """A chunk that was there when it was looked for."""
        if self._copy and self._copy.has(number, number + 1):
            size = self._far.layout.chunk_rows
            return self._copy.rows[number * size : (number + 1) * size]
        kept = self._cache.get((self._far.key, number))
        return self._fetch(number, number + 1)[number] if kept is None else kept

    def _ask(self, first: int, stop: int, *, here: bool = False) -> set[Future[dict[int, np.ndarray]]]:
        """Begin to fetch those of the chunks that are not here; what is under way for them.

        Args:
            first, stop: the chunks [first, stop).
            here: whoever asks waits for them: this thread fetches as well, so that a lone request needs no other.
        """
        if self._far.layout.data_bytes <= _FETCHED_WHOLE and first < stop:
            first, stop = 0, self._far.layout.chunks
        if self._process != os.getpid():  # forked: those who were fetching are not here
            self._process, self._lock, self._under_way = os.getpid(), threading.Lock(), {}
        own: Future[dict[int, np.ndarray]] = Future()
        with self._lock:
            missing = [number for number in range(first, stop) if number not in self._under_way and self._lacks(number)]
            requests = list(self.requests(missing))
            mine = requests.pop() if here and requests else None
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
            for place in range(0, len(numbers), most):
                part = numbers[place : place + most]
                yield part[0], part[-1] + 1

    def _fetch(self, first: int, stop: int) -> dict[int, np.ndarray]:
        """The chunks [first, stop), kept from now on."""
        try:
            size = self._chunk_bytes
            content = memoryview(self._far.place.part(self._far.key, first * size, stop * size)).cast("B")
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
