"""Makes it an error to read an array whose file (shard) is missing; Zarr itself would read it as the fill value."""

from __future__ import annotations

import re
from typing import Any

from storyframes.store.storage import StorageError

_SHARD = re.compile(r"(^|/)c(/\d+)+$")  # a session may be called "c" as well


def present(key: str, found: Any) -> Any:
    """What one of zarr-python's stores found at ``key``: every shard of ours was written, so one is never absent.

    Raises:
        StorageError: ``key`` is a shard's, and nothing was found: it was removed or lost.
    """
    if found is None and _SHARD.search(key):
        raise StorageError(f"{key} does not exist: was its version removed by gc?")
    return found
