"""Reading a feature store.

A :class:`FeatureStore` is a snapshot: it reads the catalogue once, and from then on the versions named there. A
session that is extracted again meanwhile does not change under a running training job.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

from storyframes import catalogue
from storyframes.features import STORIES, VISION
from storyframes.layout import CLIPS, StoreError, open_root
from storyframes.shards import ShardLayout, map_shard

_OPEN_ARRAYS = 256  # a mapped array holds a file descriptor; the usual limit of a process is 1024


class FeatureStore:
    """The features of a study, read by session, feature and rows.

    Args:
        path: the folder of the store.

    Raises:
        StoreError: there is no feature store at ``path``, or its catalogue is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root: Path = open_root(path)
        self.catalogue: pd.DataFrame = catalogue.load(self.root)
        published = self.catalogue[self.catalogue["version"].notna()]
        self._versions = {
            (row.session_id, row.feature): (row.path, row.arrays)
            for row in published[["session_id", "feature", "path", "arrays"]].itertuples(index=False)
        }
        self._arrays: OrderedDict[tuple[str, str], Any] = OrderedDict()

    @property
    def sessions(self) -> list[str]:
        """The sessions that have at least one feature."""
        return sorted({session_id for session_id, _ in self._versions} - {STORIES})

    def features(self, session_id: str) -> list[str]:
        """The features that the session has."""
        return sorted(feature for session, feature in self._versions if session == session_id)

    def read(
        self,
        session_id: str,
        feature: str,
        start: int = 0,
        stop: int | None = None,
        *,
        array: str = "values",
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rows ``start`` to ``stop`` (exclusive) of an array.

        Args:
            session_id: the session, or ``stories``.
            feature: a feature of the session, or ``vision``: openface and resnet50 side by side, (n, 2762) float32.
            start: first row, 0 or more.
            stop: row after the last; None reads to the end.
            array: which of the feature's arrays.
            out: an array of the result's shape to fill instead of a new one.

        Returns:
            The rows, copied out of the store, of the stored dtype (or of ``out``'s).

        Raises:
            StoreError: the store has no such session, feature or array, or not these rows.
        """
        if feature == "vision":
            return self._read_vision(session_id, start, stop, out)
        source = self._open(session_id, feature, array)
        stop = source.shape[0] if stop is None else stop
        if not 0 <= start <= stop <= source.shape[0]:
            raise StoreError(
                f"{session_id}/{feature}/{array} has rows 0 to {source.shape[0]}; rows {start} to {stop} were asked for"
            )
        if out is None:
            return np.array(source[start:stop])
        if out.shape != (stop - start, *source.shape[1:]):
            raise StoreError(f"out has shape {out.shape}; the rows asked for have {(stop - start, *source.shape[1:])}")
        out[...] = source[start:stop]
        return out

    def attributes(self, session_id: str, feature: str) -> dict[str, Any]:
        """The feature's attributes: stamps, provenance and whatever its extractor notes."""
        return dict(zarr.open_group(self._folder(session_id, feature), mode="r").attrs)

    def clips(self) -> pd.DataFrame:
        """The clip index (design: one row per window and rating)."""
        path = self.root / CLIPS
        if not path.exists():
            raise StoreError(f"{path} does not exist: 'storyframes index STUDY {self.root}' writes it")
        try:
            return pq.read_table(path, page_checksum_verification=True).to_pandas()
        except (pa.ArrowException, OSError) as error:
            raise StoreError(
                f"{path} is damaged ({type(error).__name__}); 'storyframes index' writes it again"
            ) from None

    def _read_vision(self, session_id: str, start: int, stop: int | None, out: np.ndarray | None) -> np.ndarray:
        parts = [self._open(session_id, feature, "values") for feature in VISION]
        lengths = {part.shape[0] for part in parts}
        if len(lengths) != 1:
            raise StoreError(f"{session_id}: {' and '.join(VISION)} have {sorted(lengths)} rows: extract them again")
        stop = parts[0].shape[0] if stop is None else stop
        if out is None:
            width = sum(part.shape[1] for part in parts)
            out = np.empty((max(stop - start, 0), width), np.float32)
        column = 0
        for feature, part in zip(VISION, parts, strict=True):
            self.read(session_id, feature, start, stop, out=out[:, column : column + part.shape[1]])
            column += part.shape[1]
        return out

    def _folder(self, session_id: str, feature: str) -> Path:
        return self.root / self._version(session_id, feature)[0]

    def _version(self, session_id: str, feature: str) -> tuple[str, str]:
        try:
            return self._versions[session_id, feature]
        except KeyError:
            raise StoreError(self._absence(session_id, feature)) from None

    def _absence(self, session_id: str, feature: str) -> str:
        rows = self.catalogue[(self.catalogue["session_id"] == session_id) & (self.catalogue["feature"] == feature)]
        if len(rows):
            return f"{session_id}/{feature} is {rows['status'].iloc[0]}: {rows['reason'].iloc[0]}"
        if there := self.features(session_id):
            return f"{session_id} has no feature {feature!r}; it has {', '.join(there)}"
        return f"there is no session {session_id!r} in {self.root} ({len(self.sessions)} sessions there)"

    def _open(self, session_id: str, feature: str, array: str) -> Any:
        path, arrays = self._version(session_id, feature)
        key = (path, array)
        if key in self._arrays:
            self._arrays.move_to_end(key)
            return self._arrays[key]
        described = catalogue.parse_arrays(arrays)
        if array not in described:
            raise StoreError(f"{session_id}/{feature} has no array {array!r}; it has {', '.join(described)}")
        stored = described[array]
        layout = ShardLayout(stored.shape, np.dtype(stored.dtype), stored.chunk_rows)
        folder = self.root / path / array
        opened: np.ndarray | zarr.Array | None = map_shard(folder / layout.key, layout)
        if opened is None:
            opened = _open_with_zarr(folder, stored.shape)
        self._arrays[key] = opened
        if len(self._arrays) > _OPEN_ARRAYS:
            self._arrays.popitem(last=False)
        return opened


def _open_with_zarr(folder: Path, shape: tuple[int, ...]) -> zarr.Array:
    try:
        opened = zarr.open_array(folder, mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"{folder} cannot be opened ({error}): was its version removed by gc?") from None
    if opened.shape != shape:
        raise StoreError(f"{folder} has shape {opened.shape}, but was published with {shape}: run 'storyframes verify'")
    return opened
