"""What zarr-python reads a version through: an absent shard is an error, where it would read the fill value.

zarr takes a fifth of a second to import. So it is imported in functions, here and in what publishes and opens arrays: a
run with nothing due, and the reading of mapped rows, do without it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

from zarr.storage import LocalStore

from storyframes.store.storage import StorageError
from storyframes.store.storage.files import open_regular

_SHARD = re.compile(r"(^|/)c(/\d+)+$")  # the slash, because a session may be called "c" as well


class ZarrFolder(LocalStore):
    """A folder for zarr-python to read."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        self._check(key)
        return present(key, await super().get(key, prototype, byte_range))

    def get_sync(self, key: str, **arguments: Any) -> Any:
        self._check(key)
        return present(key, super().get_sync(key, **arguments))

    def _check(self, key: str) -> None:
        """Check that it is a regular file, if it exists: zarr-python opens anything."""
        with suppress(FileNotFoundError, NotADirectoryError):
            os.close(open_regular(self.root, key))


def present(key: str, content: Any) -> Any:
    """The content that one of zarr-python's stores has at ``key``, if that is no shard: every shard was written.

    Raises:
        StorageError: ``key`` is a shard's and has no content: it was removed or lost.
    """
    if content is None and _SHARD.search(key):
        raise StorageError(f"{key} does not exist: was its version removed by gc?")
    return content
