"""A folder of the store as zarr-python reads it: a shard that is not there is an error, and so is a pipe or a link."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

from zarr.storage import LocalStore

from storyframes.store.storage import StorageError
from storyframes.store.storage.files import open_regular

_SHARD = re.compile(r"(^|/)c(/\d+)+$")  # a session may be called "c" as well


class ZarrFolder(LocalStore):
    """A folder for zarr-python to read."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        self._check(key)
        return present(key, await super().get(key, prototype, byte_range))

    def get_sync(self, key: str, **arguments: Any) -> Any:
        self._check(key)
        return present(key, super().get_sync(key, **arguments))

    def _check(self, key: str) -> None:
        """See that it is a regular file, where it is there at all: zarr-python opens whatever it is."""
        with suppress(FileNotFoundError, NotADirectoryError):
            os.close(open_regular(self.root, key))


def present(key: str, found: Any) -> Any:
    """What one of zarr-python's stores found at ``key``: every shard of ours was written, so one is never absent.

    Raises:
        StorageError: ``key`` is a shard's, and nothing was found: it was removed or lost.
    """
    if found is None and _SHARD.search(key):
        raise StorageError(f"{key} does not exist: was its version removed by gc?")
    return found
