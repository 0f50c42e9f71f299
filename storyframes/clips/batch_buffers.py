"""Memory of batches, which is used again when the arrays on it are deleted."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np

from storyframes.clips.inputs import Field

_ALIGNMENT = 64


class BatchBuffers:
    """Arrays for batches, on memory that returns to the pool when the last array on it is deleted.

    Fresh memory costs about as much as filling it, so it is used again. A batch may be kept for any time; keeping many
    allocates more memory. Threads may share a pool.

    Args:
        fields: the arrays of a sample.
        batch_size: most samples of a batch.
        keep: how much unused memory to keep, in batches.
        allocate: makes memory of that many bytes, as (n,) uint8.
    """

    def __init__(
        self, fields: Mapping[str, Field], batch_size: int, keep: int, allocate: Callable[[int], np.ndarray]
    ) -> None:
        self._fields = fields
        self._allocate = allocate
        self._unused: deque[np.ndarray] = deque(maxlen=keep)
        self._offsets: dict[str, int] = {}
        self._nbytes = 0
        for name, field in fields.items():
            self._offsets[name] = self._nbytes
            self._nbytes += -(-batch_size * _nbytes(field) // _ALIGNMENT) * _ALIGNMENT

    def take(self, count: int) -> dict[str, np.ndarray]:
        """Arrays for ``count`` samples, with arbitrary values."""
        try:
            memory = self._unused.pop()
        except IndexError:
            memory = self._allocate(self._nbytes)
        loan = np.asarray(_Loan(memory, self._unused))
        arrays = {}
        for name, field in self._fields.items():
            first = self._offsets[name]
            part = loan[first : first + count * _nbytes(field)]
            arrays[name] = part.view(field.dtype).reshape(count, *field.shape)
        return arrays


def new_memory(nbytes: int) -> np.ndarray:
    """Plain memory."""
    return np.empty(nbytes, np.uint8)


class _Loan:
    """Owns the memory as long as an array refers to it: numpy keeps the object that an array was made from."""

    def __init__(self, memory: np.ndarray, unused: deque[np.ndarray]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory = memory
        self._unused = unused

    def __del__(self) -> None:
        self._unused.append(self._memory)


def _nbytes(field: Field) -> int:
    return math.prod(field.shape) * field.dtype.itemsize
