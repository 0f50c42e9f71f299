"""Publishing: one version of one feature, written apart, proved, and made current in one step.

The order is what makes it safe to be killed anywhere. The arrays are written into a folder that nothing refers to;
its Zarr metadata follows when the data is whole; everything is flushed, read back and compared; and only then does
one step that replaces ``current.json`` make it the version that readers see. Whoever dies before that leaves an
orphan that ``gc`` removes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

from storyframes.features import ArraySpec, FeatureSpec, feature_spec
from storyframes.layout import attempt_path, current_path, make_feature_groups, new_version
from storyframes.records import Attempt, Current, Stamp, Status, StoredArray, StoredFile, now
from storyframes.shards import CHUNK_ROWS, ZSTD_LEVEL, Compression, ShardWriter, WrittenShard
from storyframes.storage import Storage


class PublishError(Exception):
    """What was written is not what the feature promises, or not what the disk gives back."""


class FeatureWriter:
    """Writes one version of one feature; use it as a context manager, then :meth:`publish`.

    Leaving the context without having published removes what was written.
    """

    def __init__(
        self, storage: Storage, session_id: str, feature: str, compression: Compression = Compression.NONE
    ) -> None:
        self.storage = storage
        self.compression = Compression(compression)
        self.session_id = session_id
        self.spec: FeatureSpec = feature_spec(session_id, feature)
        self.version = new_version()
        self.path = f"{make_feature_groups(storage, session_id, feature)}/{self.version}"
        self.stamps: set[Stamp] = set()
        self.quality: dict[str, float] = {}
        self.attributes: dict[str, Any] = {}
        self._writers: dict[str, ShardWriter] = {}
        self._columns: dict[str, Sequence[str]] = {}
        self._published = False

    def __enter__(self) -> Self:
        self.folder: Path = self.storage.work_folder(self.path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.abandon()
        if self._published or self._is_current():
            self.storage.release(self.folder)
        else:
            self.storage.discard(self.folder, self.path)

    def array(self, name: str, columns: Sequence[str] | None = None) -> ShardWriter:
        """The array ``name`` of the feature, to append rows to.

        ``columns`` replaces the specification's where a setting chooses others (another descriptor set).
        """
        spec = self.spec.arrays[name]
        self._columns[name] = spec.columns if columns is None else tuple(columns)
        shape = spec.shape if columns is None else (*spec.shape[:-1], len(columns))
        self._writers[name] = ShardWriter(self.folder / name, shape, spec.dtype, spec.fill, self.compression)
        return self._writers[name]

    def write(self, name: str, rows: np.ndarray, columns: Sequence[str] | None = None) -> None:
        """The array ``name`` in one go, from ``rows`` of shape (n, \\*row shape)."""
        self.array(name, columns).append(rows)

    def stamp(self, stamp: Stamp) -> None:
        self.stamps.add(stamp)

    def publish(self, fingerprint: str, provenance: dict[str, Any]) -> Current:
        """Make what was written the current version.

        Raises:
            PublishError: an array is missing, axes disagree, or the disk gives back something else.
            OSError: the disk is full or gone.
        """
        shards = {name: writer.close() for name, writer in self._writers.items()}
        self._check_axes(shards)
        self._write_metadata(shards, provenance)
        self.storage.commit(self.folder, self.path)
        current = Current(
            session_id=self.session_id,
            feature=self.spec.name,
            version=self.version,
            fingerprint=fingerprint,
            created_at=now(),
            arrays={
                name: StoredArray(shard.layout.shape, shard.layout.dtype.name, CHUNK_ROWS)
                for name, shard in shards.items()
            },
            files=self._read_back(shards),
            stamps=sorted(self.stamps),
            quality=self.quality,
            provenance=provenance,
        )
        self.storage.replace(current_path(self.session_id, self.spec.name), current.to_json())
        self._published = True
        self.storage.remove([attempt_path(self.session_id, self.spec.name)])
        return current

    def _is_current(self) -> bool:
        """Whether readers see this version, for an error that struck after the commit."""
        path = current_path(self.session_id, self.spec.name)
        current = Current.parse(self.storage.read(path), path)
        return current is not None and current.version == self.version

    def _check_axes(self, shards: dict[str, WrittenShard]) -> None:
        absent = [name for name, spec in self.spec.arrays.items() if name not in shards and not spec.optional]
        if absent:
            raise PublishError(f"{self.spec.name}: no array {', '.join(absent)} was written")
        lengths: dict[str, tuple[str, int]] = {}
        for name, shard in shards.items():
            axis = self.spec.arrays[name].axis
            first, rows = lengths.setdefault(axis, (name, shard.layout.rows))
            if rows != shard.layout.rows:
                raise PublishError(
                    f"{self.spec.name}: {name} has {shard.layout.rows} rows, but {first} has {rows} on the same axis "
                    f"'{axis}'"
                )

    def _write_metadata(self, shards: dict[str, WrittenShard], provenance: dict[str, Any]) -> None:
        attributes = {
            "feature": self.spec.name,
            "about": self.spec.about,
            "stamps": sorted(self.stamps),
            **self.attributes,
            "provenance": provenance,
        }
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
                compressors=_codec(self.compression),
                filters=None,
                fill_value=spec.fill,
                dimension_names=spec.dimension_names,
                attributes=_describe(spec, self._columns[name]),
            )

    def _read_back(self, shards: dict[str, WrittenShard]) -> dict[str, StoredFile]:
        files = {
            path.removeprefix(f"{self.path}/"): StoredFile(info.bytes, self.storage.digest(path), info.mtime_ns)
            for path, info in sorted(self.storage.files(self.path).items())
        }
        group = zarr.open_group(mode="r", **self.storage.zarr(self.path))
        for name, shard in shards.items():
            self._prove(group[name], shard, files.get(f"{name}/{shard.layout.key}"))
        return files

    def _prove(self, array: Any, shard: WrittenShard, file: StoredFile | None) -> None:
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


def _codec(compression: Compression) -> ZstdCodec | None:
    return ZstdCodec(level=ZSTD_LEVEL) if compression is Compression.ZSTD else None


def _describe(spec: ArraySpec, columns: Sequence[str]) -> dict[str, Any]:
    attributes: dict[str, Any] = {"about": spec.about}
    if spec.units:
        attributes["units"] = spec.units
    if columns:
        attributes["columns"] = list(columns)
    if spec.joints:
        attributes["joints"] = list(spec.joints)
    return attributes


def record_attempt(
    storage: Storage, session_id: str, feature: str, status: Status, reason: str, fingerprint: str
) -> None:
    """Note that the last attempt gave no version, and why; the current version, if any, stays."""
    make_feature_groups(storage, session_id, feature)
    attempt = Attempt(session_id, feature, Status(status), reason, fingerprint, now())
    storage.replace(attempt_path(session_id, feature), attempt.to_json())
