"""Reads ahead in a thread of its own, in bounded memory, while the caller works on what was read before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_END = object()


def read_ahead(items: Iterator[_T], depth: int) -> Iterator[_T]:
    """The same items in the same order, up to ``depth`` of them read while the caller is busy with one.

    What reading raises is raised in the item's place.
    """
    thread = ThreadPoolExecutor(max_workers=1)
    try:
        ahead = deque(thread.submit(next, items, _END) for _ in range(depth))
        while (item := ahead.popleft().result()) is not _END:
            ahead.append(thread.submit(next, items, _END))
            yield item  # type: ignore[misc]
    finally:
        thread.shutdown(cancel_futures=True)
