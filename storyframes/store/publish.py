"""Publishing: one version of one feature is written apart, verified, and made current in one step.

The order makes it safe to be killed at any point. The arrays are written into a folder that nothing refers to; its Zarr
metadata follows when the data is complete; everything is flushed, read back and compared; only then one step, the
replacement of ``current.json``, makes it the version that readers see. A process that is killed before that leaves a
folder that ``gc`` removes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from storyframes.spec import MAIN, ArraySpec, Axis, FeatureSpec, of_track
from storyframes.store.description import describe_array, describe_feature
from storyframes.store.layout import FORGOTTEN, attempt_path, current_path, make_feature_groups, new_version
from storyframes.store.records import (
    MEASURED,
    Attempt,
    Caveat,
    Current,
    RecordError,
    Status,
    StoredArray,
    StoredFile,
    condemned,
    now,
    sequence,
)
from storyframes.store.shards import CHUNK_ROWS, ZSTD_LEVEL, Compression, ShardWriter, WrittenShard
from storyframes.store.storage import Storage
from storyframes.store.study import Forgotten


class PublishError(Exception):
    """The written arrays are not those of the specification, or the disk does not give back what was written."""


class RemovedError(PublishError):
    """The version was taken for a dead writer's and removed; it has to be written again."""

    transient = True


class OvertakenError(PublishError):
    """Another process has published the feature since the work began: what was extracted is older, and is dropped."""


class FeatureWriter:
    """Writes one version of one feature; use it as a context manager, then :meth:`publish`.

    Leaving the context without having published removes what was written.

    Args:
        session_id: the session, or ``stories``.
        spec: of the feature. It is written beside the values, so that readers need not know the feature.
        frames: whether the track has a video. Without one, arrays with a row for each frame are not written.

    Attributes:
        change_rows: given the name of an array with a row for each frame, the number of the first of some rows, and
            the rows; what it returns is stored in their place. Of arrays that are opened after it is set.

    Raises:
        StoreError: the name of the session or the track is not valid.
    """

    def __init__(
        self,
        storage: Storage,
        session_id: str,
        spec: FeatureSpec,
        compression: str = Compression.NONE,
        *,
        track: str = MAIN,
        frames: bool = True,
    ) -> None:
        self.compression = Compression(compression)
        self.session_id = session_id
        self.spec = spec
        self.track = track
        self.feature = of_track(spec.name, track)
        self.version = new_version()
        self.path = f"{make_feature_groups(storage, session_id, self.feature)}/{self.version}"
        self.storage = storage.pinned()
        self._frames = frames
        self.caveats: set[str] = set()
        self.quality: dict[str, float] = {}
        self.attributes: dict[str, Any] = {}
        self._writers: dict[str, ShardWriter] = {}
        self._columns: dict[str, Sequence[str]] = {}
        self.change_rows: Callable[[str, int, np.ndarray], np.ndarray] | None = None
        self._published = False

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.storage.writing(self.path))
            self.folder: Path = self.storage.work_folder(self.path)
            self._alive = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._alive:
            for writer in self._writers.values():
                writer.abandon()
            if self._may_be_current():
                self.storage.release(self.folder)
            else:
                with contextlib.suppress(OSError):  # gc removes it; the error that is being raised matters more
                    self.storage.discard(self.folder, self.path)

    def array(self, name: str, columns: Sequence[str] | None = None) -> ShardWriter:
        """The array ``name`` of the feature, to append rows to.

        ``columns`` replaces the specification's where a setting chooses others (another descriptor set).

        Raises:
            PublishError: the array was begun before: its rows would be lost.
        """
        if name in self._writers:
            raise PublishError(
                f"{self.spec.name}: the array {name!r} is begun twice, so that its first rows would be lost: keep what "
                f"array({name!r}) gives, and append to it"
            )
        spec = self.spec.arrays[name]
        self._columns[name] = spec.columns if columns is None else tuple(columns)
        shape = spec.shape if columns is None else (*spec.shape[:-1], len(columns))
        change = partial(self.change_rows, name) if self.change_rows and spec.axis is Axis.FRAME else None
        self._writers[name] = ShardWriter(self.folder / name, shape, spec.dtype, spec.fill, self.compression, change)
        return self._writers[name]

    def write(self, name: str, rows: np.ndarray, columns: Sequence[str] | None = None) -> None:
        """The array ``name`` in one go, from ``rows`` of shape (n, \\*row shape)."""
        self.array(name, columns).append(rows)

    def rows(self, axis: Axis) -> int | None:
        """The number of rows that arrays of this axis have by now; None where none is written."""
        of_axis = (writer.rows for name, writer in self._writers.items() if self.spec.arrays[name].axis is axis)
        return max(of_axis, default=None)

    def caveat(self, caveat: str) -> None:
        """Add what users of the values must know; :class:`Caveat` has those of this project."""
        self.caveats.add(str(caveat))

    def publish(self, fingerprint: str, provenance: dict[str, Any], *, after: int | None = None) -> Current:
        """Make what was written the current version.

        Args:
            after: the :func:`latest_sequence` when the work began; a version that was published since is not replaced.
                None replaces any.

        Raises:
            OvertakenError: a later version than ``after`` is current.
            PublishError: an array is missing, axes disagree, or the disk does not give back what was written.
            StorageError: the store is not where it was when the writer was made (its disk was unmounted).
            OSError: the disk is full or gone.
        """
        self.storage.check_place()
        shards = {name: writer.close() for name, writer in self._writers.items()}
        self._check_axes(shards)
        if not self.storage.flushes_folders:
            self.caveat(Caveat.UNFLUSHED)
        self._write_metadata(shards, provenance)
        self.storage.commit(self.folder, self.path)
        current = Current(
            session_id=self.session_id,
            feature=self.feature,
            version=self.version,
            fingerprint=fingerprint,
            created_at=now(),
            arrays={
                name: StoredArray(shards[name].layout.shape, shards[name].layout.dtype.name, CHUNK_ROWS)
                for name in self.spec.arrays  # whatever the order in which they were written
                if name in shards
            },
            files=self._read_back(shards),
            caveats=sorted(self.caveats),
            quality=self.quality | self._measured_share(shards),
            provenance=provenance,
        )
        current = self._make_current(current, after)
        self._published = True
        self.storage.remove([attempt_path(self.session_id, self.feature)])
        return current

    def _measured_share(self, shards: dict[str, WrittenShard]) -> dict[str, float]:
        """The share of the rows that are measurements by the mask; empty without a mask, or without rows."""
        if self.spec.mask not in shards or not shards[self.spec.mask].layout.rows:
            return {}
        import zarr

        mask = zarr.open_array(mode="r", **self.storage.zarr(f"{self.path}/{self.spec.mask}"))
        return {MEASURED: float(np.mean(np.asarray(mask[:]) != 0))}

    def _make_current(self, current: Current, after: int | None) -> Current:
        """The one step that readers see. It reads ``current.json``, then checks that the version is complete, then
        replaces ``current.json`` on condition that it has not changed; docs/store.md ("Removing") gives the reasons.
        """
        self._refuse_forgotten()
        path = current_path(self.session_id, self.feature)
        published = current

        def change(before: bytes | None) -> bytes | None:
            nonlocal published
            if _names(before, path) == self.version:
                return None  # an earlier put succeeded, and its answer was lost
            forbidden = _condemned(before, path)
            if self.version in forbidden:
                raise RemovedError(f"{self.path} was taken for a dead writer's, and removed; extract it again")
            if after is not None and _count(before, path) > after:
                raise OvertakenError(
                    f"{self.session_id}/{self.feature}: another process has published it since this work began, from "
                    "other files or with other settings: that version stays; extract again for these"
                )
            self._check_complete(current)
            number = 1 + latest_sequence(self.storage, self.session_id, self.feature, current=before)
            published = replace(current, sequence=number, condemned=forbidden)
            return published.to_json()

        self.storage.update(path, change)
        return published

    def _refuse_forgotten(self) -> None:
        """Check that nobody has told the store to forget this session or track, perhaps while the work was done."""
        content = self.storage.read(FORGOTTEN)
        if content is not None and Forgotten.parse(content).has_feature(self.session_id, self.feature):
            raise PublishError(
                f"{self.session_id}/{self.feature}: the store was told to forget it ('storyframes forget'), so it is "
                "not published"
            )

    def _check_complete(self, current: Current) -> None:
        for name, file in current.files.items():
            info = self.storage.info(f"{self.path}/{name}")
            if info is None or info.bytes != file.bytes:
                raise _removed(f"{self.path}/{name}")

    def _may_be_current(self) -> bool:
        """Whether readers may see this version: also where an error occurred after the commit."""
        path = current_path(self.session_id, self.feature)
        try:
            return self._published or _names(self.storage.read(path), path) == self.version
        except OSError:
            return True

    def _check_axes(self, shards: dict[str, WrittenShard]) -> None:
        needed = (name for name, spec in self.spec.arrays.items() if not (spec.optional or self._is_of_no_frame(spec)))
        absent = [name for name in needed if name not in shards]
        if absent:
            raise PublishError(f"{self.spec.name}: no array {', '.join(absent)} was written")
        if extra := [name for name in shards if self._is_of_no_frame(self.spec.arrays[name])]:
            raise PublishError(
                f"{self.feature}: {', '.join(extra)} has a row for each video frame, but this track has no video"
            )
        lengths: dict[str, tuple[str, int]] = {}
        for name, shard in shards.items():
            axis = self.spec.arrays[name].axis
            first, rows = lengths.setdefault(axis, (name, shard.layout.rows))
            if rows != shard.layout.rows:
                raise PublishError(
                    f"{self.spec.name}: {name} has {shard.layout.rows} rows, but {first} has {rows} on the same axis "
                    f"'{axis}'"
                )

    def _is_of_no_frame(self, array: ArraySpec) -> bool:
        """Whether the array has a row for each frame, and the track has no video."""
        return not self._frames and array.axis in (Axis.FRAME, Axis.FRAME_EDGE)

    def _write_metadata(self, shards: dict[str, WrittenShard], provenance: dict[str, Any]) -> None:
        import zarr
        from zarr.codecs import ZstdCodec

        compressor = ZstdCodec(level=ZSTD_LEVEL) if self.compression is Compression.ZSTD else None
        own = {
            **describe_feature(self.session_id, self.spec, self._columns, self.track),
            "stamps": sorted(self.caveats),
        }
        attributes = {**own, **self.attributes, **own, "provenance": provenance}
        group = zarr.create_group(store=self.folder, attributes=attributes)
        for name, shard in shards.items():
            spec = self.spec.arrays[name]
            layout = shard.layout
            group.create_array(
                name,
                shape=layout.shape,
                dtype=layout.dtype,
                chunks=(layout.chunk_rows, *layout.shape[1:]),
                shards=(layout.shard_rows, *layout.shape[1:]),
                compressors=compressor,
                filters=None,
                fill_value=spec.fill,
                dimension_names=spec.dimension_names,
                attributes=describe_array(spec, self._columns[name]),
            )

    def _read_back(self, shards: dict[str, WrittenShard]) -> dict[str, StoredFile]:
        import zarr

        names = sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())
        try:
            files = {name: self._stored(name) for name in names}
            group = zarr.open_group(mode="r", **self.storage.zarr(self.path))
            for name, shard in shards.items():
                self._check_array(group[name], shard, files.get(f"{name}/{shard.layout.key}"))
        except (OSError, KeyError, PublishError):
            if gone := [name for name in names if self.storage.info(f"{self.path}/{name}") is None]:
                raise _removed(f"{self.path}/{gone[0]}") from None
            raise
        return files

    def _stored(self, name: str) -> StoredFile:
        path = f"{self.path}/{name}"
        info = self.storage.info(path)
        if info is None:
            raise _removed(path)
        return StoredFile(info.bytes, self.storage.digest(path), info.mtime_ns)

    def _check_array(self, array: Any, shard: WrittenShard, file: StoredFile | None) -> None:
        where = f"{self.spec.name}/{array.basename}"
        layout = shard.layout
        if array.shape != layout.shape or array.dtype != layout.dtype:
            raise PublishError(
                f"{where}: read back as {array.shape} {array.dtype}, written {layout.shape} {layout.dtype}"
            )
        if shard.first_row is None or shard.last_row is None:
            return
        if file is None or file.sha256 != shard.sha256 or file.bytes != shard.file_bytes:
            raise PublishError(f"{where}: the disk does not give back what was written")
        for row, written in ((array[0], shard.first_row), (array[-1], shard.last_row)):
            if np.asarray(row).tobytes() != written.tobytes():
                raise PublishError(f"{where}: zarr reads other values than were written")


def _removed(path: str) -> RemovedError:
    return RemovedError(f"{path} was removed while it was being published; extract it again")


def record_attempt(
    storage: Storage,
    session_id: str,
    feature: str,
    status: Status,
    reason: str,
    fingerprint: str,
    *,
    after: int | None = None,
) -> None:
    """Record that the last attempt gave no version, and why; a current version stays.

    Args:
        after: the :func:`latest_sequence` when the attempt began; nothing is recorded where a version was published
            since, of which the attempt says nothing. None records it in any case.
    """
    make_feature_groups(storage, session_id, feature)
    current = current_path(session_id, feature)

    def change(before: bytes | None) -> bytes | None:
        if after is not None and _count(storage.read(current), current) > after:
            return None
        number = 1 + latest_sequence(storage, session_id, feature, attempt=before)
        return Attempt(session_id, feature, Status(status), reason, fingerprint, now(), number).to_json()

    storage.update(attempt_path(session_id, feature), change)


_UNREAD = b"unread"  # not a record


def latest_sequence(
    storage: Storage, session_id: str, feature: str, *, current: bytes | None = _UNREAD, attempt: bytes | None = _UNREAD
) -> int:
    """The highest count in the two records of a feature; a damaged or missing record counts as 0.

    Args:
        current: its ``current.json``, where that was read already.
        attempt: its ``attempt.json``, where that was read already.
    """
    records = (current_path(session_id, feature), current), (attempt_path(session_id, feature), attempt)
    return max(_count(storage.read(path) if data is _UNREAD else data, path) for path, data in records)


def _count(data: bytes | None, path: str) -> int:
    try:
        return sequence(data, path)
    except RecordError:
        return 0


def _names(data: bytes | None, path: str) -> str | None:
    try:
        current = Current.parse(data, path)
    except RecordError:
        return None
    return current.version if current else None


def _condemned(data: bytes | None, path: str) -> list[str]:
    try:
        return condemned(data, path)
    except RecordError:
        return []  # gc removes nothing where it cannot read this
