"""The rows of one stored array: mapped into memory where its file allows it, else read through zarr-python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr

from storyframes.layout import StoreError
from storyframes.shards import ShardLayout, map_shard


def open_rows(folder: Path, layout: ShardLayout) -> np.ndarray | ZarrRows:
    """The rows of the array in ``folder``; slices of either result hold the same values.

    Raises:
        StoreError: it cannot be opened, or is not the array that was published.
    """
    mapped = map_shard(folder / layout.key, layout)
    return ZarrRows(folder, layout) if mapped is None else mapped


class ZarrRows:
    """Rows of an array that does not lie plainly in its file (compressed, a chunk moved or left out), decoded at
    every access.

    Args:
        folder: the array's folder.
        layout: how it was published.

    Raises:
        StoreError: it cannot be opened, or is not the array that was published.
    """

    def __init__(self, folder: Path, layout: ShardLayout) -> None:
        try:
            self._array = zarr.open_array(folder, mode="r")
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{folder} cannot be opened ({error}): was its version removed by gc?") from None
        if (self._array.shape, self._array.dtype) != (layout.shape, layout.dtype):
            raise StoreError(
                f"{folder} is {self._array.shape} {self._array.dtype}, but was published as {layout.shape} "
                f"{layout.dtype}: run 'storyframes verify'"
            )
        self.shape = layout.shape
        self._folder = folder
        self._shard = folder / layout.key

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows, decoded.

        Raises:
            StoreError: the file is damaged or gone.
        """
        try:
            values = np.asarray(self._array[rows])
        except (OSError, ValueError, RuntimeError) as error:  # what the checksum, the codecs and the disk raise
            raise StoreError(f"{self._folder} cannot be read ({error}): run 'storyframes verify'") from None
        if not self._shard.exists():  # zarr reads an absent file as the fill value; ours is never absent
            raise StoreError(f"{self._shard} does not exist: was its version removed by gc?")
        return values
