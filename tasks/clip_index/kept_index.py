"""What a store's tables were made of, noted beside them: where all of that is unchanged, they are not made again.

They are made of the store's records, the study's tables, the section ``[clips]``, the rules of labels, the recordings
that the study names, and the code. :func:`digest_of_inputs` is one digest of all of these. The note has it with the
checksum of the clip index that was made of them, so a note never counts for another index, or for one that is damaged;
deleting it costs time, nothing else. Neither pandas nor Arrow nor an array of the store is needed to compare.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from storyframes.clips.window_spec import WindowSpec
from storyframes.store.layout import CATALOGUE, CLIPS, CLIPS_NOTE, INPUTS
from storyframes.store.record_status import digest_of_records
from storyframes.store.records import RecordError, canonical_json, seal, unseal
from storyframes.store.storage import Storage, StorageError
from storyframes.store.table_files import is_proved
from tasks.clip_index.label_rules import LabelRule
from tasks.media.container import StreamChoice
from tasks.study.load import Study, recording_names

_LOG = logging.getLogger("storyframes")

_IMPORTED_S = time.time()
_SETTLED_S = 2.0  # a recording that changed this recently may change again without another time of change
_FILES = ("video", "audio", "transcript")  # of a track, those whose content an index may depend on
_CODE = ("tasks/clip_index", "tasks/media", "tasks/study", "storyframes/clips", "storyframes/store", "storyframes")
_LIBRARIES = ("av", "numpy", "pandas", "pyarrow", "storyframes")  # PyAV is the pipeline's


@dataclass(frozen=True)
class IndexSummary:
    """The remarks about a clip index."""

    clips: int = 0  # how many it has
    excluded: Mapping[str, str] = field(default_factory=dict)  # see :class:`tasks.clip_index.index.ClipIndex`
    warnings: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def digest_of_inputs(
    study: Study, spec: WindowSpec, rules: Mapping[str, LabelRule], streams: StreamChoice, storage: Storage
) -> str:
    """A digest of everything that the catalogue and the clip index of a store are made of; empty if it cannot be known.

    It is taken before these are made: what is published meanwhile is then noticed next time.

    Raises:
        StorageError: the store cannot be read.
    """
    catalogue = storage.read(CATALOGUE)
    try:
        inputs = storage.read(INPUTS) or b""
    except StorageError:  # a cache, without which the tables can be made
        return ""
    if not study.digests or not all(study.digests.values()) or catalogue is None or not (code := _code()):
        return ""
    digest = hashlib.sha256(repr((code, spec, sorted(rules.items()), streams)).encode())
    digest.update(canonical_json([dict(study.digests), dict(study.excluded)]))
    records = digest_of_records(storage)
    digest.update(records)
    for content in (catalogue, inputs):
        digest.update(hashlib.sha256(content).digest())
    newest_s = 0.0
    for state, changed_s in _files(study):
        digest.update(repr(state).encode())
        newest_s = max(newest_s, changed_s)
    return digest.hexdigest() if records and time.time() - newest_s > _SETTLED_S else ""


def kept_index(storage: Storage, made_of: str) -> IndexSummary | None:
    """What was said of the store's clip index when it was made of the same; None where the tables have to be made.

    Args:
        made_of: the digest of what it would be made of now; empty where that is not known.

    Raises:
        StorageError: the store cannot be read.
    """
    try:
        note = unseal(storage.read(CLIPS_NOTE), CLIPS_NOTE) or {}
    except (RecordError, StorageError):  # a cache as well
        return None
    if not made_of or note.get("made_of") != made_of:
        return None
    clips = storage.read(CLIPS)
    if clips is None or hashlib.sha256(clips).hexdigest() != note["sha256"]:
        return None
    for name in (CATALOGUE, CLIPS):  # what is damaged is written again
        if (content := storage.read(name)) is None or not is_proved(storage, name, content):
            return None
    return IndexSummary(note["clips"], note["excluded"], note["warnings"], tuple(note["remarks"]))


def note_index(storage: Storage, made_of: str, sha256: str, summary: IndexSummary) -> None:
    """Note what the store's clip index with this checksum was made of; where that cannot be written nothing is lost."""
    note = seal({"made_of": made_of, "sha256": sha256, **vars(summary), "remarks": [*summary.remarks]})
    try:
        storage.update(CLIPS_NOTE, lambda before: None if before == note else note)
    except OSError as error:  # a full disk: the next run makes the index again
        _LOG.warning("what the clip index was made of cannot be kept: %s", error)


@cache
def _code() -> tuple[object, ...]:
    """The versions of libraries, and a digest of the source files that make an index, where there are any.

    Empty where one has changed since this process began to import them: an index is then made by what they were.
    """
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for folder in _CODE:
        for path in sorted((root / folder).glob("*.py")):
            digest.update(path.read_bytes())
            if path.stat().st_mtime > _IMPORTED_S:
                return ()
    return (*(_version(name) for name in _LIBRARIES), digest.hexdigest())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _files(study: Study) -> Iterator[tuple[tuple[object, ...], float]]:
    """Of every recording that the study names where it is and its state, and when it changed."""
    folders: dict[str, str] = {}
    named = dict.fromkeys(
        name
        for session_id in study.sessions
        for track in study.tracks.get(session_id, {}).values()
        for kind in _FILES
        if (relative := getattr(track, kind))
        for name in recording_names(study.folder_of(relative), relative)
    )
    for relative in named:
        path = os.path.join(study.folder_of(relative), relative)
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        try:
            state = os.lstat(path)
            where = os.path.join(folders[folder], name)
            if stat.S_ISLNK(state.st_mode):
                where, state = os.path.realpath(path), os.stat(path)
        except OSError as error:
            yield (relative, error.errno), 0.0
        else:
            changed_s = max(state.st_mtime, state.st_ctime)
            yield (relative, where, state.st_size, state.st_mtime_ns, state.st_ino, state.st_mode), changed_s
