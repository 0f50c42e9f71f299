"""The traces of somebody in a feature store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from storyframes.features import STORIES
from storyframes.spec import feature_and_track
from storyframes.store import catalogue
from storyframes.store.clip_table import to_frame, write_clips
from storyframes.store.layout import CATALOGUE, CLIPS, CLIPS_NOTE, INPUTS, STUDY, WINDOWS, StoreError
from storyframes.store.record_status import scan
from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import Storage
from storyframes.store.storage.local_folder import LocalStorage
from storyframes.store.table_files import parse_table, read_table
from tasks.forgetting.scope import Scope
from tasks.forgetting.traces import Trace, digest_of, remove_folder, rows_about
from tasks.media.container import file_names
from tasks.models.digests import DigestCache

Inputs = dict[str, set[str]]
"""By session, the SHA-256 of every file that its versions were made of."""

_FOLDERS = (Path("study"), Path("recordings"))  # in the places of Study.folders, which the cache's names do not contain
_BY_SESSION = ("clocks", "clock_errors", "ratings")  # parts of the clip index's metadata


def inputs_of(storage: Storage, scope: Scope) -> Inputs:
    """The files that versions of the store were made of, by session; of a forgotten track under the session's name."""
    inputs: Inputs = {}
    digests = DigestCache(storage, INPUTS, *_FOLDERS)
    for status in scan(storage):
        made_of = status.record.provenance.get("inputs") if status.record else None
        for entry in made_of.values() if isinstance(made_of, Mapping) else ():
            if isinstance(entry, Mapping) and isinstance(entry.get("sha256"), str):
                track = feature_and_track(status.feature)[1]
                name = status.session_id if scope.has_session(status.session_id) else f"{status.session_id}@{track}"
                inputs.setdefault(name, set()).update({entry["sha256"]}, _digests_of_parts(entry, digests))
    return inputs


def _digests_of_parts(made_of: Mapping[str, Any], digests: DigestCache) -> set[str]:
    """SHA-256 of each file of a recording in several that a version was made of, as far as a cache knows them."""
    path = Path(str(made_of.get("path", "")))
    parts = file_names(path.name)
    files = [folder / path.parent / part for folder in _FOLDERS for part in parts] if len(parts) > 1 else []
    return {of_file[1] for of_file in map(digests.remembered, files) if of_file}


def forgotten_inputs(inputs: Inputs, scope: Scope) -> set[str]:
    """SHA-256 of files that only forgotten sessions and tracks were made of."""
    ours = {*scope.ids.sessions, *(f"{session}@{track}" for session, track in scope.ids.tracks)}
    gone = set().union(*(digests for name, digests in inputs.items() if name in ours))
    return gone.difference(*(digests for name, digests in inputs.items() if name not in ours))


def traces_in(storage: Storage, scope: Scope, recordings: set[str]) -> Iterator[Trace]:
    """Everything in a store that was made of the forgotten.

    Tables come first: while a version exists, a later call still knows of which files it was made.

    Args:
        recordings: SHA-256 of files that only the forgotten were made of.

    Raises:
        StoreError: a table of the store is damaged, or a folder of the forgotten is a link.
        StorageError: the store cannot be read.
    """
    _refuse_links(storage, scope)
    yield from _input_rows(storage, scope, recordings)
    yield from _study_rows(storage, scope)
    yield from _clip_rows(storage, scope)
    if storage.info(WINDOWS):  # which earlier versions kept; nothing reads it
        yield _whole(storage, WINDOWS, "the table of windows")
    yield from _catalogue_rows(storage, scope)
    if _is_stale(storage, CLIPS_NOTE, scope):
        yield _whole(storage, CLIPS_NOTE, "the note of the clip index")
    yield from _versions(storage, scope)


def _rows(storage: Storage, name: str, count: int, change: Callable[[], None], of: str = "") -> Trace:
    info = storage.info(name)
    what = f"{count} rows of {of or name}"
    return Trace(what, f"{storage.location}/{name}", info.bytes if info else 0, lambda: storage.digest(name), change)


def _whole(storage: Storage, path: str, what: str) -> Trace:
    info = storage.info(path)
    size = info.bytes if info else 0
    return Trace(what, f"{storage.location}/{path}", size, lambda: storage.digest(path), lambda: storage.remove([path]))


def _is_stale(storage: Storage, name: str, scope: Scope) -> bool:
    content = storage.read(name) or b""
    return any(session.encode() in content for session in scope.ids.sessions)


def _input_rows(storage: Storage, scope: Scope, recordings: set[str]) -> Iterator[Trace]:
    def without(content: bytes | None) -> tuple[int, bytes | None]:
        try:
            record = unseal(content, INPUTS) or {}
        except RecordError:
            return 0, None  # a damaged cache, which the next run writes again
        files: dict[str, Any] = record.get("files", {})
        kept = {
            path: known
            for path, known in files.items()
            if known.get("sha256") not in recordings and not scope.names_file(path)
        }
        return len(files) - len(kept), seal({"files": kept}) if len(kept) < len(files) else None

    if count := without(storage.read(INPUTS))[0]:
        yield _rows(storage, INPUTS, count, lambda: storage.update(INPUTS, lambda content: without(content)[1]))


def _study_rows(storage: Storage, scope: Scope) -> Iterator[Trace]:
    ids = {*scope.ids.sessions, *scope.ids.people}

    def without(content: bytes | None) -> tuple[int, bytes | None]:
        record = unseal(content, STUDY) or {}
        sessions = record.get("sessions", {})
        kept = {
            name: fields
            for name, fields in sessions.items()
            if name not in ids and fields.get("participant_id") not in scope.ids.people
        }
        lists = {key: [name for name in record[key] if name not in ids] for key in ("people", "left") if key in record}
        of_left = record.get("left_participants", {})
        left = {name: of for name, of in of_left.items() if name not in ids and of not in scope.ids.people}
        count = len(sessions) - len(kept) + sum(len(record[key]) - len(names) for key, names in lists.items())
        count += len(of_left) - len(left)
        return count, seal(record | {"sessions": kept, "left_participants": left} | lists) if count else None

    if count := without(storage.read(STUDY))[0]:
        yield _rows(storage, STUDY, count, lambda: storage.update(STUDY, lambda content: without(content)[1]))


def _clip_rows(storage: Storage, scope: Scope) -> Iterator[Trace]:
    content = read_table(storage, CLIPS)
    if content is None:
        return
    table = parse_table(content, CLIPS)
    about = rows_about(table, scope)
    frame = to_frame(table)
    noted = [name for key in _BY_SESSION for name in frame.attrs.get(key, {}) if scope.has_session(name)]
    count = sum(about.to_pylist())
    if not count and not noted:
        return

    def change() -> None:
        kept = frame[~about.to_numpy(zero_copy_only=False)].reset_index(drop=True)
        kept.attrs = dict(frame.attrs)
        for key in _BY_SESSION:
            if key in kept.attrs:
                left = {name: of for name, of in kept.attrs[key].items() if not scope.has_session(name)}
                kept.attrs[key] = left
        for name in kept.select_dtypes("category"):
            kept[name] = kept[name].cat.remove_unused_categories() if name.endswith("_id") else kept[name]
        write_clips(storage, kept)

    yield _rows(storage, CLIPS, count or len(noted), change, "the clip index")


def _catalogue_rows(storage: Storage, scope: Scope) -> Iterator[Trace]:
    content = read_table(storage, CATALOGUE)
    if content is None:
        return
    table = parse_table(content, CATALOGUE, ["session_id", "feature"]).to_pylist()
    count = sum(scope.has(row["session_id"], feature_and_track(row["feature"])[1]) for row in table)
    if count:
        yield _rows(storage, CATALOGUE, count, lambda: _compact(storage), "the catalogue")


def _compact(storage: Storage) -> None:
    catalogue.compact(storage)


def _versions(storage: Storage, scope: Scope) -> Iterator[Trace]:
    """The files of versions, last of all those folders that are then empty."""
    folders = [session for session in sorted(scope.ids.sessions) if session != STORIES]
    for session, track in sorted(scope.ids.tracks):
        if session not in scope.ids.sessions:
            features = {path.split("/")[1] for path in storage.files(session) if path.count("/") > 1}
            folders += [f"{session}/{name}" for name in sorted(features) if feature_and_track(name)[1] == track]
    for folder in folders:
        for path, info in sorted(storage.files(folder).items()):
            feature = path.split("/")[1] if path.count("/") > 1 else ""
            what = f"file of {feature_and_track(feature)[0]}" if feature else "file of a session's folder"
            yield Trace(
                what,
                f"{storage.location}/{path}",
                info.bytes,
                partial(storage.digest, path),
                partial(storage.remove, [path]),
            )
        if isinstance(storage, LocalStorage) and os.path.lexists(storage.root / folder):
            yield _folder(storage.root / folder)


def _refuse_links(storage: Storage, scope: Scope) -> None:
    """Refuse links among the folders of the forgotten: what they lead to may be anything, so it is never removed."""
    if isinstance(storage, LocalStorage):
        for session in sorted(scope.ids.sessions | {session for session, _ in scope.ids.tracks}):
            folder = storage.root / session
            if link := next((path for path in (folder, *folder.rglob("*")) if path.is_symlink()), None):
                raise StoreError(
                    f"{link} is a link, and what it leads to may not be the store's: remove the link, and what of "
                    "the forgotten is there, then run the same command again"
                )


def _folder(path: Path) -> Trace:
    return Trace("folder", str(path), 0, lambda: digest_of(b""), lambda: remove_folder(path))
