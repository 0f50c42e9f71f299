"""A cache of decoded chunks, for compressed stores: neighbouring clips lie in the same chunks."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np


class ChunkCache:
    """Chunks by key, those used last, as many as fit into ``max_bytes``. Threads may share one.

    A forked process begins with an empty one and a lock of its own: a lock that another thread held at the moment of
    the fork would never be released there.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._chunks: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()
        _caches.add(self)

    def get(self, key: Hashable) -> np.ndarray | None:
        """The chunk, or None."""
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is not None:
                self._chunks.move_to_end(key)
            return chunk

    def put(self, key: Hashable, chunk: np.ndarray) -> None:
        """Keep the chunk, instead of those that were not used for longest."""
        with self._lock:
            self._forget(key)
            self._chunks[key] = chunk
            self._nbytes += chunk.nbytes
            while self._nbytes > self.max_bytes:
                self._forget(next(iter(self._chunks)))

    def _forget(self, key: Hashable) -> None:
        chunk = self._chunks.pop(key, None)
        if chunk is not None:
            self._nbytes -= chunk.nbytes

    def after_fork(self) -> None:
        """Begin anew: another thread may have been in the middle of changing it."""
        self._lock = threading.Lock()
        self._chunks = OrderedDict()
        self._nbytes = 0


_caches: weakref.WeakSet[ChunkCache] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_caches):
        cache.after_fork()


os.register_at_fork(after_in_child=_after_fork)
