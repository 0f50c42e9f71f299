"""The names of the files in a feature store, opening and making one, and the mark of a run in it.

Paths are relative to the store, with forward slashes, whatever kind of place the store is.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storyframes.features import STORIES
from storyframes.installation import install_line
from storyframes.store.records import ATTEMPT, CURRENT, STORE_FORMAT, RecordError, unseal
from storyframes.store.storage import Storage, StorageError
from storyframes.store.storage.files import TEMPORARY_SUFFIX
from storyframes.store.storage.local_folder import LOCK_SUFFIX, LocalStorage
from storyframes.store.validation import ID_PATTERN as ID_PATTERN
from storyframes.store.validation import VERSION_PATTERN as VERSION_PATTERN
from storyframes.store.validation import InvalidError, check_names, parse_json, shown

CATALOGUE = "catalogue.parquet"
CLIPS = "clips.parquet"
CLIPS_NOTE = "clips.json"
WINDOWS = "windows.parquet"  # a cache of earlier versions, which nothing reads: the clip index removes it
CHECKSUMS = "checksums.json"
INPUTS = "inputs.json"
STUDY = "study.json"
FORGOTTEN = "forgotten.json"
GIVEN = "given.json"
PARTS = "parts.json"
ZARR_JSON = "zarr.json"

_MARK_PREFIX = ".run-"

# The endings of the store's own files at its top level: no session may have such a name.
_OWN_SUFFIXES = (".json", ".parquet", ".lock", ".tmp")
_WINDOWS_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


class StoreError(Exception):
    """The feature store cannot be used as asked; the message says what and why."""


class ClipFormatError(StoreError):
    """The store's clip index is of a newer format."""


def _group(attributes: dict[str, object]) -> bytes:
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}, indent=2).encode() + b"\n"


ROOT_GROUP = _group({"storyframes": {"format": STORE_FORMAT}})
INNER_GROUP = _group({})


def why_no_session(name: str) -> str:
    """Why a session cannot have this name, which is its folder in the store; empty where it can."""
    if name.lower() == STORIES:
        return f"'{STORIES}' is reserved: the feature store keeps the story texts' features there"
    if name.lower().endswith(_OWN_SUFFIXES):
        return f"no session's name ends in {', '.join(_OWN_SUFFIXES)}: the feature store's own files do"
    if _WINDOWS_DEVICES.fullmatch(name):
        return "is the name of a device on Windows, where no folder can have it"
    if name.endswith("."):
        return "ends with a dot, which Windows leaves out of a folder's name"
    return ""


def new_version() -> str:
    """A name for one attempt: the time, and a random number, so that two attempts never share it."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def feature_path(session_id: str, feature: str) -> str:
    """The folder of a feature's versions.

    Args:
        session_id: the session, or ``stories``.
        feature: as the store calls it; of another track, ``<feature>@<track>``.

    Raises:
        StoreError: an id could leave the store.
    """
    try:
        check_names(session_id, feature)
    except InvalidError as error:
        raise StoreError(str(error)) from None
    return f"{session_id}/{feature}"


def current_path(session_id: str, feature: str) -> str:
    return f"{feature_path(session_id, feature)}/{CURRENT}"


def attempt_path(session_id: str, feature: str) -> str:
    return f"{feature_path(session_id, feature)}/{ATTEMPT}"


def open_storage(location: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """The storage at ``location``: a path, or a URL (``s3://bucket/prefix``).

    Args:
        options: for a URL, the options of obstore (``endpoint``, ``region``, ``access_key_id``, ``client_options``, …);
            otherwise it uses the environment's ``AWS_*`` variables.

    Raises:
        StorageError: the URL's scheme is unknown, or obstore is not installed.
    """
    text = os.fspath(location)
    if "://" in text:
        try:
            from storyframes.store.storage.object_store import ObjectStorage
        except ModuleNotFoundError:
            raise StorageError(f"{text} needs the package obstore: {install_line('s3')}") from None
        return ObjectStorage(text, options or {})
    return LocalStorage(Path(text).absolute())  # workers may run in another folder


def create_store(location: str | os.PathLike[str]) -> Storage:
    """Make a feature store at ``location`` unless there is one already; a damaged root group is written again.

    Raises:
        StoreError: it is a file, or a folder or prefix with something else in it.
        StorageError: it cannot be reached, or no store can be written there.
    """
    storage = open_storage(location)
    # Whether it is a store is asked again after the listing: another process may have made it in the meantime.
    if not is_store(storage) and not holds_records(storage) and _is_taken(storage) and not is_store(storage):
        kind = "folder" if isinstance(storage, LocalStorage) else "prefix"
        raise StoreError(f"{storage.location} is not a feature store and not empty: give a new or an empty {kind}")
    storage.prepare()
    if storage.read(ZARR_JSON) != ROOT_GROUP:  # always the same, so damage is repaired in passing
        storage.replace(ZARR_JSON, ROOT_GROUP)
    return storage


def _is_taken(storage: Storage) -> bool:
    """Whether it holds more than the locks and temporary files of a process that is making the store, or was killed."""
    if not isinstance(storage, LocalStorage):
        return bool(storage.files())
    if not storage.root.is_dir():
        return storage.root.exists()
    names = [path.name for path in storage.root.iterdir()]
    return not all(name.startswith(".") and name.endswith((LOCK_SUFFIX, TEMPORARY_SUFFIX)) for name in names)


def is_store(storage: Storage) -> bool:
    """Whether the root group is that of a feature store of the format that this version reads.

    Raises:
        StoreError: it is of another format.
    """
    try:
        number = parse_json(storage.read(ZARR_JSON) or b"")["attributes"]["storyframes"]["format"]
    except (ValueError, KeyError, TypeError):
        return False
    except StorageError as error:
        raise error if error.transient else StoreError(f"{storage.location}: {error}") from None
    if number == STORE_FORMAT:
        return True
    if holds_records(storage):
        return False  # a damaged number: the records are of this format
    raise StoreError(
        f"{storage.location} has format {shown(number)}; this version of storyframes reads format {STORE_FORMAT}"
    )


def holds_records(storage: Storage) -> bool:
    """Whether records of this format exist: then it is a feature store, whatever its root group says."""
    for path in storage.records((CURRENT, ATTEMPT), unreadable=lambda *_: None):
        try:
            unseal(storage.read(path), path)
        except (RecordError, StorageError):
            continue
        return True
    return False


def open_store(
    location: str | os.PathLike[str], options: Mapping[str, Any] | None = None, *, damaged: bool = False
) -> Storage:
    """The feature store at ``location``.

    Args:
        damaged: open it even if its root group is damaged, to find out what else is.

    Raises:
        StoreError: it is no feature store, or its root group is damaged.
        StorageError: the storage cannot be reached.
    """
    storage = open_storage(location, options)
    if not is_store(storage):
        if not holds_records(storage):
            raise StoreError(
                f"{storage.location} is not a feature store (no {ZARR_JSON} of one); 'storyframes extract' makes one"
            )
        if not damaged:
            raise StoreError(
                f"{storage.location}: {ZARR_JSON} is missing or damaged; it is always the same, and 'storyframes "
                f"verify --repair {storage.location}' writes it again"
            )
    return storage


def make_feature_groups(storage: Storage, session_id: str, feature: str) -> str:
    """The feature's folder; the Zarr groups above its versions are made where absent."""
    folder = feature_path(session_id, feature)
    for group in (session_id, folder):
        path = f"{group}/{ZARR_JSON}"
        if storage.read(path) != INNER_GROUP:
            storage.replace(path, INNER_GROUP)
    return folder


@dataclass(frozen=True)
class RunMark:
    """A file that exists in a store while a run lasts: a process that can read it sees the same store as the run.

    On another machine the same path may be another folder: a local disk, or the empty folder below a failed mount.

    Attributes:
        location: of the store, as :func:`open_storage` takes it.
    """

    location: str
    path: str
    content: bytes

    def is_seen(self) -> bool:
        """Whether this process finds the mark at its location.

        Raises:
            StorageError: the location cannot be read.
        """
        return open_storage(self.location).read(self.path) == self.content


@contextmanager
def leave_mark(storage: Storage) -> Iterator[RunMark]:
    """Keep a mark in a store while the block runs; those that killed runs left in a folder are removed.

    ``gc`` removes those in an object store.

    Raises:
        StorageError: the store cannot be written.
    """
    folder = storage.local("")
    for leftover in folder.glob(f"{_MARK_PREFIX}*{TEMPORARY_SUFFIX}") if folder else ():
        with storage.abandoned(leftover.name) as abandoned:
            if abandoned:
                storage.remove([leftover.name])
    name = f"{_MARK_PREFIX}{secrets.token_hex(16)}{TEMPORARY_SUFFIX}"
    mark = RunMark(storage.location, name, secrets.token_bytes(32))
    with storage.kept(mark.path, mark.content):
        yield mark
