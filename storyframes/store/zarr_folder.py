"""A folder of the store as zarr-python reads it: a shard that is not there is an error, and so is a pipe or a link."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from zarr.storage import LocalStore

from storyframes.store.regular_files import open_regular
from storyframes.store.shard_guard import present


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
