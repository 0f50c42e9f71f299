"""Reading the arrays of a feature store by session, feature and rows.

A reader holds a snapshot: it reads the catalogue once, and from then on the versions named there. A session that is
extracted again meanwhile does not change under a running training job.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from storyframes.features import SIDE_BY_SIDE, STORIES, in_order
from storyframes.mistakes import Names, explained, unknown
from storyframes.spec import MAIN, MAIN_ARRAY, FeatureSpec, feature_and_track
from storyframes.store.caches import ChunkCache, CopyFolder
from storyframes.store.catalogue import Snapshot, parse_arrays
from storyframes.store.description import Version, read_attributes, read_descriptions
from storyframes.store.far_rows import FarArray, FarRows, Fetchers, Kept, Opening, shard_tail
from storyframes.store.layout import StoreError, open_store
from storyframes.store.named.address import AddressError, Part, locate, parse_address
from storyframes.store.record_status import WHOLE_SESSION, FeatureStatus, read_status, scan
from storyframes.store.records import StoredArray
from storyframes.store.shards import MappedRows, ShardLayout, map_shard
from storyframes.store.storage import Storage
from storyframes.store.zarr_rows import ZarrRows

if TYPE_CHECKING:
    import zarr

MOST_OPEN = 16_384  # arrays; Linux lets a process map 65,530 files, and a study of 20,000 sessions has more
CACHE_BYTES = 256 * 2**20  # of memory; twice what the blocks of SessionBlockSampler need at its own size


Rows = MappedRows | FarRows | ZarrRows
"""The rows of an array, in one of the ways to read them."""


class FeatureReader:
    """Reads features by session, feature and rows: what :class:`storyframes.FeatureStore` is made of.

    The arguments are those of :class:`storyframes.FeatureStore`.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        options: Mapping[str, Any] | None = None,
        *,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        self.storage: Storage = open_store(location, options)
        self._versions = Snapshot.of(self.storage)
        if cache is not None and self.storage.ranges is None:
            raise StoreError(f"{self.storage.location} is a folder, which is mapped as it is: cache is for a URL")
        self._begin(cache, cache_bytes)

    def __getstate__(self) -> dict[str, Any]:
        return {"storage": self.storage, "versions": self._versions, "kept": self._cache_options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.storage, self._versions = state["storage"], state["versions"]
        self._begin(*state["kept"])

    def _begin(self, cache: str | os.PathLike[str] | None, cache_bytes: int | None) -> None:
        """Start with no array open and nothing in memory."""
        self._specs: dict[tuple[str, str], FeatureSpec] = {}
        self._cache_options = cache, cache_bytes
        folder = None if cache is None else CopyFolder(Path(cache), cache_bytes)
        memory = CACHE_BYTES if cache_bytes is None or folder else cache_bytes
        self._kept = Kept(ChunkCache(memory), folder, Fetchers())
        self._arrays: dict[tuple[str, str, str], Rows] = {}
        self._opening = Opening(self._kept.fetchers)

    def __repr__(self) -> str:
        counts = self._versions.counts()
        stories = in_order(self._versions.features(STORIES))
        lines = [f"{type(self).__name__} {self.storage.location}: {_sessions(len(self.sessions))}"]
        lines += [f"  {feature}: {_sessions(counts[feature])}" for feature in in_order(counts)]
        lines += [f"  {STORIES}: {', '.join(stories)}"] if stories else []
        return "\n".join(lines)

    @cached_property
    def catalogue(self) -> pd.DataFrame:
        """One row per session and feature that was ever attempted; docs/store.md describes its columns.

        Made at the first access, and kept: for a large store it is by far the largest object in memory.
        """
        return self._versions.frame()

    def statuses(self, session_id: str) -> list[FeatureStatus]:
        """What the store has of each feature of a session that was ever attempted, and why not, from the catalogue.

        The features are named as the store names them: of another track than the session's own, ``<feature>@<track>``.
        """
        return self._versions.statuses(session_id)

    @property
    def sessions(self) -> list[str]:
        """The sessions that have at least one feature."""
        return Names(sorted(set(self._versions.sessions) - {STORIES}))

    @property
    def all_features(self) -> list[str]:
        """The features of the main track of any session, those of this installation first."""
        return self.features_of(MAIN)

    def features_of(self, track: str) -> list[str]:
        """The features that this track of any session has, those of this installation first."""
        stored = map(feature_and_track, self._versions.counts())
        return in_order({feature for feature, of_track in stored if of_track == track})

    @property
    def all_tracks(self) -> list[str]:
        """The tracks that have features in any session: ``main`` first, then the others by name."""
        return _sorted_tracks(self._versions.counts())

    def features(self, session_id: str | None = None, track: str = MAIN) -> list[str]:
        """The features that a track of the session (None: of any) has, without the track in their names."""
        if session_id is None:
            return self.features_of(track)
        stored = map(feature_and_track, self._versions.features(session_id))
        return sorted(feature for feature, of_track in stored if of_track == track)

    def stored_features(self, session_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """By session, its features as the store calls them, of all tracks; equal sets are one object."""
        sets: dict[frozenset[str], frozenset[str]] = {}
        stored = {session_id: frozenset(self._versions.features(session_id)) for session_id in session_ids}
        return {session_id: sets.setdefault(features, features) for session_id, features in stored.items()}

    def tracks(self, session_id: str) -> list[str]:
        """The tracks of the session that have features: ``main``, its own files, first, then the others by name."""
        return _sorted_tracks(self._versions.features(session_id))

    def has(self, session_id: str, feature: str) -> bool:
        """Whether the session has the feature."""
        return (session_id, feature) in self._versions

    def version(self, session_id: str, feature: str) -> str | None:
        """The path of a feature's version in the store, which no other version ever has; None where it has none."""
        return self._versions.path(session_id, feature)

    def attempted(self) -> list[str]:
        """The features that were ever attempted of any session, with or without success, as the store calls them."""
        return in_order(name for name in self._versions.attempted() if name != WHOLE_SESSION)

    @explained(
        "store.read('p01-s01', 'openface.gaze', 0, 120)",
        columns="'openface.AU12_r' for a column, 'openface.gaze' for a group",
        t0="store['p01-s01']['openface'].between(0, 4), in seconds",
        t1="the second argument of between",
    )
    def read(
        self,
        session_id: str,
        feature: str,
        start: int = 0,
        stop: int | None = None,
        *,
        array: str = MAIN_ARRAY,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rows ``start`` to ``stop`` (exclusive) of an array.

        Args:
            session_id: the session, or ``stories``.
            feature: a feature of the session (``openface``), or a part of one (``openface.gaze``); or ``vision``,
                openface and resnet50 side by side, (n, 2762) float32; or ``vision.measured``, the same without
                openface's bookkeeping, (n, 2757) float32. A feature of another track is ``<feature>@<track>``; its
                rows are of that track's frames or sound, and its times are on the clock of that device.
            start: first row, 0 or more.
            stop: row after the last; None reads to the end.
            array: which of the feature's arrays, where ``feature`` names none.
            out: an array of the result's shape to fill instead of a new one.

        Returns:
            The rows, copied out of the store, of the stored dtype (or of ``out``'s).

        Raises:
            StoreError: the store has no such session, feature or array, or not these rows. For a name that the session
                does not have, its subclass AddressError, with the nearest names.
        """
        address = parse_address(feature)
        if array != MAIN_ARRAY and (address.part or address.feature in SIDE_BY_SIDE):
            raise AddressError(f"{feature!r} and array={array!r}: write '{address.feature}.{array}' for an array")
        if array != MAIN_ARRAY or self.has(session_id, feature):
            pieces = [self.view(session_id, feature, start, stop, array=array)]
        else:
            pieces = self._side_by_side(session_id, feature, start, stop)
        first = pieces[0]
        shape = first.shape if len(pieces) == 1 else (len(first), sum(piece.shape[1] for piece in pieces))
        if out is not None and out.shape != shape:
            raise StoreError(f"out has shape {out.shape}; the rows asked for have {shape}")
        if len(pieces) > 1:
            return np.concatenate(pieces, axis=1, out=out)
        if out is None:
            return np.array(first)
        out[...] = first
        return out

    def read_statuses(self) -> Iterator[FeatureStatus]:
        """Every status of the store, from the records as they are now; what cannot be read gives a status as well.

        Raises:
            StorageError: the store as a whole cannot be read.
        """
        return scan(self.storage)

    def read_status(self, session_id: str, feature: str) -> FeatureStatus | None:
        """The status of one feature as it is now; None where no attempt at it ever ended.

        Raises:
            StorageError: a record exists and cannot be read.
        """
        return read_status(self.storage, session_id, feature)

    def locate(self, session_id: str, name: str) -> list[tuple[str, Part]]:
        """The features of the session that a name selects, each with the part of it.

        Raises:
            StoreError: there is no such session, feature or part.
        """
        address = parse_address(name, self._versions.features(session_id))
        return locate(address, lambda feature: self.spec(session_id, feature))

    def array_of(self, session_id: str, feature: str, part: Part) -> str:
        """The only array that is selected, which a slice of rows needs.

        Raises:
            AddressError: there are several.
        """
        arrays = self.spec(session_id, feature).arrays
        names = part.arrays or tuple(name for name in arrays if part.rows in (None, str(arrays[name].axis)))
        if len(names) > 1 and MAIN_ARRAY in names and not part.arrays:
            return MAIN_ARRAY
        if len(names) > 1:
            named = ", ".join(f"'{feature}.{name}'" for name in names)
            raise AddressError(f"{session_id}/{feature}: several arrays are selected; name one of {named}")
        return names[0]

    def _side_by_side(self, session_id: str, name: str, start: int, stop: int | None) -> list[np.ndarray]:
        """Rows of the selected columns of each feature; one column is (n,)."""
        located = self.locate(session_id, name)
        arrays = [self.array_of(session_id, *one) for one in located]
        lengths = {self.describe(session_id, feature, array).shape[0]
                   for (feature, _), array in zip(located, arrays, strict=True)}  # fmt: skip
        if len(lengths) > 1:
            names = " and ".join(feature for feature, _ in located)
            raise StoreError(f"{session_id}: {names} have {sorted(lengths)} rows: extract them again")
        pieces = []
        for (feature, part), array in zip(located, arrays, strict=True):
            rows = self.view(session_id, feature, start, stop, array=array)
            flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
            pieces.append(flat[:, part.places[0] if part.is_column else part.index] if part.places else rows)
        return pieces

    def view(
        self, session_id: str, feature: str, start: int = 0, stop: int | None = None, *, array: str = "values"
    ) -> np.ndarray:
        """Rows ``start`` to ``stop`` (exclusive) of an array, not copied where it is memory-mapped.

        The result has the stored dtype. A mapped one is read-only, and keeps its version mapped as long as it exists.
        Arguments and errors are those of :meth:`read`, without ``vision``.
        """
        source, stop = self._array_rows(session_id, feature, start, stop, array)
        return source[start:stop]

    def views(self, session_id: str, arrays: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        """All rows of several arrays of a session, each by its feature and its name, as :meth:`view` gives them.

        Where the store is far, all are fetched at once.

        Raises:
            StoreError: as of :meth:`view`.
        """
        for feature, array in arrays if self.is_far else ():
            self.will_need(session_id, feature, array=array)
        rows = [self._array(session_id, feature, array) for feature, array in arrays]
        return [source[0 : source.shape[0]] for source in rows]

    def will_need(
        self, session_id: str, feature: str, start: int = 0, stop: int | None = None, *, array: str = "values"
    ) -> None:
        """Start to fetch rows that will soon be read, from the disk where they are mapped, or from an object store.

        Called for all clips of a batch before the first is read, it lets the disk or the network work on all of them at
        once. Arguments and errors are those of :meth:`view`; errors of an object store are raised by the later read.
        """
        key = session_id, feature, array
        if key not in self._arrays and self.is_far:
            stop = self._stop(self.describe(*key).shape[0], key, start, stop)
            self._opening.begin(self._open, key, start, stop)
            return
        source, stop = self._array_rows(session_id, feature, start, stop, array)
        source.will_need(start, stop)

    def let_go(self, session_id: str) -> None:
        """Close the session's arrays, for reading many sessions once; they are opened again when they are read again.

        Views of them stay valid.
        """
        self._arrays = {key: rows for key, rows in self._arrays.items() if key[0] != session_id}

    @property
    def is_far(self) -> bool:
        """Whether reading needs requests to another machine, so that it should be announced (:meth:`will_need`)."""
        return self.storage.ranges is not None

    @explained("store.describe('p01-s01', 'openface'), or print(store)")
    def describe(self, session_id: str, feature: str, array: str = "values") -> StoredArray:
        """Shape, dtype and chunking of an array, without opening it.

        Raises:
            StoreError: the store has no such session, feature or array.
        """
        return self._stored_array(session_id, feature, array)[1]

    def spec(self, session_id: str, feature: str) -> FeatureSpec:
        """The specification that the store keeps beside the values, also of features unknown to this installation.

        Raises:
            StoreError: the store has no such session or feature, or the feature has no description of itself.
        """
        return self.specs([session_id], feature)[session_id]

    def specs(self, session_ids: Iterable[str], feature: str) -> dict[str, FeatureSpec]:
        """:meth:`spec` of several sessions at once; equal ones are one object."""
        keys = [(session_id, feature) for session_id in session_ids]
        self.read_specs(keys)
        return {session_id: self._specs[session_id, feature] for session_id, feature in keys}

    def read_specs(self, keys: Iterable[tuple[str, str]]) -> None:
        """Read the specifications of these sessions' features, all at once, for the calls of :meth:`specs` to come."""
        new = {key: self._described(*key) for key in keys if key not in self._specs}
        earlier = {id(spec): spec for spec in self._specs.values()}.values()
        self._specs |= dict(zip(new, read_descriptions(self.storage, new, earlier), strict=True))

    def _described(self, session_id: str, feature: str) -> Version:
        path, arrays = self._version(session_id, feature)
        return Version(path, parse_arrays(arrays))

    def _stored_array(self, session_id: str, feature: str, array: str) -> tuple[str, StoredArray]:
        """The path of an array, and its description."""
        path, arrays = self._described(session_id, feature)
        if array not in arrays:
            raise AddressError(unknown(f"{session_id}/{feature}", "array", array, arrays))
        return f"{path}/{array}", arrays[array]

    def array(self, session_id: str, feature: str, name: str = "values") -> Any:
        """An array without reading it: a read-only map of the file, or a Zarr array to slice.

        Raises:
            StoreError: the store has no such session, feature or array.
        """
        return self._array(session_id, feature, name).array

    def open_group(self, session_id: str, feature: str) -> zarr.Group:
        """The feature's Zarr group: arrays with their dimension names, units and columns.

        Raises:
            StoreError: the store has no such session or feature, or no longer the version that it had when opened.
        """
        import zarr

        path = self._version(session_id, feature)[0]
        self.spec(session_id, feature)  # checks its metadata
        try:
            return zarr.open_group(mode="r", **self.storage.zarr(path))
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{path} cannot be opened ({error}): was its version removed by gc?") from None

    def attributes(self, session_id: str, feature: str) -> dict[str, Any]:
        """The feature's attributes: caveats (``stamps``), provenance, and those that its extractor added.

        Raises:
            StoreError: as of :meth:`open_group`.
        """
        return read_attributes(self.storage, session_id, feature, self._version(session_id, feature)[0])

    @explained("store.columns('p01-s01', 'openface'), as another session may have other columns")
    def columns(self, session_id: str, feature: str, array: str = "values") -> tuple[str, ...]:
        """The names of an array's columns, empty where they have none.

        Raises:
            StoreError: the store has no such session, feature or array, or no longer the version.
        """
        arrays = self.spec(session_id, feature).arrays
        if array not in arrays:
            raise AddressError(unknown(f"{session_id}/{feature}", "array", array, arrays))
        return arrays[array].columns

    def _version(self, session_id: str, feature: str) -> tuple[str, str]:
        try:
            return self._versions[session_id, feature]
        except KeyError:
            raise self._absence(session_id, feature) from None

    def _absence(self, session_id: str, feature: str) -> StoreError:
        for status in self.statuses(session_id):
            if status.feature in (feature, WHOLE_SESSION):
                return StoreError(f"{session_id}/{feature} is {status.status}: {status.reason}")
        if features := in_order(self._versions.features(session_id)):
            own = {name for name in SIDE_BY_SIDE if set(parse_address(name).stored) <= {*features}}
            return AddressError(unknown(session_id, "feature", feature, [*features, *own]))
        return AddressError(unknown(f" in {self.storage.location}", "session", session_id, self.sessions, most=3))

    def _array_rows(self, session_id: str, feature: str, start: int, stop: int | None, array: str) -> tuple[Rows, int]:
        """The array and ``stop``, once these rows are known to exist."""
        source = self._array(session_id, feature, array)
        return source, self._stop(source.shape[0], (session_id, feature, array), start, stop)

    @staticmethod
    def _stop(length: int, array: tuple[str, str, str], start: int, stop: int | None) -> int:
        """The row after the last; an error where the rows do not exist."""
        if stop is None:
            stop = length
        if type(start) is type(stop) is int and 0 <= start <= stop <= length:
            return stop
        for row in (start, stop):
            if not hasattr(row, "__index__"):
                hint = f"array={row!r} for an array" if isinstance(row, str) else "between(3.0, 5.0) for seconds"
                raise StoreError(f"{'/'.join(array)}: row {row!r} is not a whole number; write {hint}")
        if not 0 <= start <= stop <= length:
            hint = f"; store[{array[0]!r}]['{array[1]}'][{start}:] counts from the end" if start < 0 else ""
            raise StoreError(f"{'/'.join(array)} has rows 0 to {length}; rows {start} to {stop} were asked for{hint}")
        return stop

    def _array(self, session_id: str, feature: str, array: str) -> Rows:
        opened = self._arrays.get((session_id, feature, array))
        if opened is None:
            key = (session_id, feature, array)
            opened = self._opening.end(self._open, key) if self.is_far else self._open(*key)
        return opened

    def _open(self, session_id: str, feature: str, array: str) -> Rows:
        path, stored = self._stored_array(session_id, feature, array)
        layout = ShardLayout(stored.shape, np.dtype(stored.dtype), stored.chunk_rows)
        rows = open_rows(self.storage, path, layout, self._kept)
        if len(self._arrays) >= MOST_OPEN:
            self._arrays = {}  # a thread that reads from one holds it; others are opened again
        # Of two threads that open it, both use the rows of the first, so that no chunk is fetched twice.
        return self._arrays.setdefault((session_id, feature, array), rows)


def _sorted_tracks(features: Iterable[str]) -> list[str]:
    tracks = {feature_and_track(feature)[1] for feature in features}
    return sorted(tracks, key=lambda track: (track != MAIN, track))


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"


def open_rows(storage: Storage, path: str, layout: ShardLayout, kept: Kept) -> Rows:
    """The rows of the array at ``path``; slices of every kind of result hold the same values.

    Args:
        path: of the array, below the store.
        layout: as it was published.

    Raises:
        StoreError: it cannot be opened, or is not the array that was published.
        StorageError: an object store cannot be reached.
    """
    key = f"{path}/{layout.key}"
    if layout.rows == 0:
        return MappedRows(np.empty(layout.shape, layout.dtype))
    if (ranges := storage.ranges) is not None and layout.row_bytes:
        if tail := shard_tail(ranges, key, layout):
            name = f"{storage.location}\n{key}\n{tail.tag}"
            copy = kept.folder.copy(name, layout) if kept.folder else None
            far = FarArray(ranges, key, layout, kept.fetchers, storage.zarr(path))
            return FarRows(far, kept.cache, copy)
    elif shard := storage.local(key):
        mapped = map_shard(shard, layout)
        if mapped is not None:
            return MappedRows(mapped)
    return ZarrRows(storage, path, layout, kept.cache)
