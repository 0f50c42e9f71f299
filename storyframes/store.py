"""Reading a feature store.

A :class:`FeatureStore` is a snapshot: it reads the catalogue once, and from then on the versions named there. A
session that is extracted again meanwhile does not change under a running training job.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import zarr

from storyframes import catalogue
from storyframes.features import STORIES, VISION
from storyframes.layout import CLIPS, StoreError, open_store
from storyframes.shards import ShardLayout, map_shard
from storyframes.storage import Storage

if TYPE_CHECKING:
    from storyframes.explore import SessionView

_OPEN_ARRAYS = 256  # a mapped array holds a file descriptor; the usual limit of a process is 1024


class FeatureStore:
    """The features of a study, read by session, feature and rows.

    Args:
        location: the folder of the store, or the URL of one (``s3://bucket/prefix``).
        options: for a URL, see :func:`storyframes.storage.open_storage`.

    Raises:
        StoreError: there is no feature store at ``location``, or its catalogue is damaged.
        StorageError: the place cannot be reached.
    """

    def __init__(self, location: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        self.storage: Storage = open_store(location, options)
        self.catalogue: pd.DataFrame = catalogue.load(self.storage)
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

    def array(self, session_id: str, feature: str, name: str = "values") -> Any:
        """The whole of an array without reading it: a read-only map of the file, or a Zarr array to slice."""
        return self._open(session_id, feature, name)

    def open_group(self, session_id: str, feature: str) -> zarr.Group:
        """The feature's Zarr group: arrays with their dimension names, units and columns."""
        return zarr.open_group(mode="r", **self.storage.zarr(self._version(session_id, feature)[0]))

    def session(self, session_id: str) -> SessionView:
        """One session, to look around in.

        Raises:
            StoreError: the store has no such session.
        """
        if not self.features(session_id):
            raise StoreError(self._absence(session_id, "frames"))
        from storyframes.explore import SessionView

        return SessionView(self, session_id)

    def attributes(self, session_id: str, feature: str) -> dict[str, Any]:
        """The feature's attributes: stamps, provenance and whatever its extractor notes."""
        return dict(self.open_group(session_id, feature).attrs)

    def clips(self) -> pd.DataFrame:
        """The clip index (design: one row per window and rating)."""
        content = self.storage.read(CLIPS)
        if content is None:
            where = self.storage.location
            raise StoreError(f"{where} has no {CLIPS}: 'storyframes index STUDY {where}' writes it")
        return catalogue.read_parquet(content, CLIPS)

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
        return f"there is no session {session_id!r} in {self.storage.location} ({len(self.sessions)} sessions there)"

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
        shard = self.storage.local(f"{path}/{array}/{layout.key}")
        opened: np.ndarray | zarr.Array | None = map_shard(shard, layout) if shard else None
        if opened is None:
            opened = _open_with_zarr(self.storage, f"{path}/{array}", stored.shape)
        self._arrays[key] = opened
        if len(self._arrays) > _OPEN_ARRAYS:
            self._arrays.popitem(last=False)
        return opened


def _open_with_zarr(storage: Storage, path: str, shape: tuple[int, ...]) -> zarr.Array:
    try:
        opened = zarr.open_array(mode="r", **storage.zarr(path))
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"{path} cannot be opened ({error}): was its version removed by gc?") from None
    if opened.shape != shape:
        raise StoreError(f"{path} has shape {opened.shape}, but was published with {shape}: run 'storyframes verify'")
    return opened
