"""The archive profile: the current versions of a store, compressed with zstd, as a store of its own.

Smaller and still plain Zarr, but no longer to be mapped: for keeping and for sending. Everything that reads a feature
store reads an archive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import zarr

from storyframes.store import catalogue
from storyframes.store.layout import CLIPS, current_path
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Current, Stamp
from storyframes.store.shards import Compression
from storyframes.store.storage import Storage

_ROWS = 6_000  # rows copied at a time: memory does not grow with a session's length


def archive(source: Storage, target: Storage) -> Iterator[Current]:
    """Copy every current version of ``source`` into ``target``, compressed; what is there already is left alone.

    Yields:
        The record of each version in the archive, as it is made.
    """
    for entry in catalogue.scan(source):
        if current := entry.current:
            yield _there(target, current) or _copy(source, target, current)
    catalogue.compact(target)
    if (clips := catalogue.read_table(source, CLIPS)) is not None:
        table = catalogue.parse_table(clips, CLIPS)
        catalogue.replace_table(target, CLIPS, lambda: table)


def _there(target: Storage, current: Current) -> Current | None:
    path = current_path(current.session_id, current.feature)
    archived = Current.parse(target.read(path), path)
    return archived if archived and archived.fingerprint == current.fingerprint else None


def _copy(source: Storage, target: Storage, current: Current) -> Current:
    group = zarr.open_group(mode="r", **source.zarr(f"{current.session_id}/{current.feature}/{current.version}"))
    with FeatureWriter(target, current.session_id, current.feature, Compression.ZSTD) as out:
        own = {"feature", "about", "stamps", "provenance"}  # the writer's, made anew
        out.attributes = {key: value for key, value in group.attrs.items() if key not in own}
        out.quality = dict(current.quality)
        out.stamps = {Stamp(stamp) for stamp in current.stamps}
        for name in current.arrays:
            array: Any = group[name]
            writer = out.array(name, array.attrs.get("columns"))
            for start in range(0, array.shape[0], _ROWS):
                writer.append(array[start : start + _ROWS])
        return out.publish(current.fingerprint, current.provenance)
