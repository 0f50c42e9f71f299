"""The archive profile: the current versions of a store, compressed with zstd, as a store of its own.

An archive is smaller and still plain Zarr, but cannot be mapped: it is for keeping and for sending. Everything that
reads a feature store reads an archive.
"""

from __future__ import annotations

from collections.abc import Iterator

from storyframes.spec import feature_and_track
from storyframes.store.catalogue import compact
from storyframes.store.description import OWN_ATTRIBUTES, Version, open_array, read_attributes, read_descriptions
from storyframes.store.layout import CLIPS, FORGOTTEN, STUDY, StoreError, current_path
from storyframes.store.publish import FeatureWriter
from storyframes.store.record_status import scan
from storyframes.store.records import Current, RecordError, unseal
from storyframes.store.shards import Compression
from storyframes.store.storage import Storage
from storyframes.store.study import Forgotten, confirm_study_record, read_forgotten, read_study_record
from storyframes.store.table_files import replace_table, stored_table

_ROWS = 6_000  # rows copied at a time: memory does not grow with a session's length


def archive(source: Storage, target: Storage) -> Iterator[Current]:
    """Copy every current version of ``source`` into ``target``, compressed; those that it has already are left alone.

    Yields:
        The record of each version in the archive, as it is made.

    Raises:
        StoreError: ``target`` is of another study, the study record of ``source`` is damaged, or a version has no
            description of itself.
        PublishError: a copy cannot be read back as it was written.
    """
    _copy_study(source, target)
    forgotten = _copy_forgotten(source, target)
    for status in scan(source):
        if (record := status.record) and not forgotten.has_feature(record.session_id, record.feature):
            yield _archived(target, record) or _copy(source, target, record)
    compact(target)
    study = read_study_record(source)
    if study is not None and not study.why_older(source):
        confirm_study_record(target)
    if (clips := stored_table(source, CLIPS)) is not None:
        replace_table(target, CLIPS, lambda: clips)


def _copy_study(source: Storage, target: Storage) -> None:
    """Copy the record of which study the store is of; an archive of another study is refused."""
    content = source.read(STUDY)
    try:
        ours, theirs = (unseal(record, STUDY) for record in (content, target.read(STUDY)))
    except RecordError as error:
        raise StoreError(f"{error}: 'storyframes index STUDY STORE --replace-study' writes it again") from None
    if content is None or ours is None:  # a store of an older version, which had no such record
        return
    for record in (ours, theirs):
        if record and not isinstance(record.get("sessions"), dict):
            raise StoreError(f"{STUDY} names no sessions: 'storyframes index STUDY STORE --replace-study' writes it")
    if theirs and theirs["sessions"] and not theirs["sessions"].keys() & ours["sessions"].keys():
        raise StoreError(
            f"{target.location} is the archive of another study: none of the {len(theirs['sessions'])} sessions that "
            "it remembers is in this one; give this store an archive of its own"
        )
    if ours != theirs:
        target.replace(STUDY, content)


def _copy_forgotten(source: Storage, target: Storage) -> Forgotten:
    """Copy what the store was told to forget."""
    forgotten = read_forgotten(source)
    if forgotten and target.read(FORGOTTEN) != forgotten.to_json():
        target.replace(FORGOTTEN, forgotten.to_json())
    return forgotten


def _archived(target: Storage, current: Current) -> Current | None:
    """The archive's record of the same values, None where it has none."""
    path = current_path(current.session_id, current.feature)
    archived = Current.parse(target.read(path), path)
    return archived if archived and archived.fingerprint == current.fingerprint else None


def _copy(source: Storage, target: Storage, current: Current) -> Current:
    path = f"{current.session_id}/{current.feature}/{current.version}"
    version = Version(path, current.arrays)
    (spec,) = read_descriptions(source, {(current.session_id, current.feature): version})
    _, track = feature_and_track(current.feature)
    with FeatureWriter(target, current.session_id, spec, Compression.ZSTD, track=track) as out:
        attributes = read_attributes(source, current.session_id, current.feature, path)
        out.attributes = {key: value for key, value in attributes.items() if key not in OWN_ATTRIBUTES}
        out.quality = dict(current.quality)
        out.caveats = set(current.caveats)
        for name, stored in current.arrays.items():
            array = open_array(source, f"{path}/{name}", stored)
            writer = out.array(name)
            for start in range(0, array.shape[0], _ROWS):
                writer.append(array[start : start + _ROWS])
        return out.publish(current.fingerprint, current.provenance)
