"""A folder of the store as zarr-python reads it: a shard that is not there is an error, not a fill value."""

from __future__ import annotations

from typing import Any

from zarr.storage import LocalStore

from storyframes.store.shard_guard import present


class ZarrFolder(LocalStore):
    """A folder for zarr-python to read."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        return present(key, await super().get(key, prototype, byte_range))
