"""Traces beside a store: archives below it, caches of single recordings, reports, and those that plug-ins know.

And what no command can reach, to be told to its keepers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from storyframes.plug_ins import FORGET, PlugInError, describe_error, installed_plug_ins, load_plug_in, origin
from storyframes.store.layout import INPUTS, ZARR_JSON, StoreError, is_store
from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import Storage, StorageError
from storyframes.store.storage.local_folder import LocalStorage
from storyframes.store.study import given_away, is_distinctive, recordings_of
from tasks.forgetting.object_versions import EarlierVersions
from tasks.forgetting.scope import Scope
from tasks.forgetting.traces import Asked, Trace, digest_of, remove_folder
from tasks.models.digests import user_cache

_DEPTH = 3  # folders below a store in which an archive is looked for
_PAGES = (".html", ".json", ".js", ".jpg", ".png", ".vtt", ".mp4")


def stores_below(folder: Path) -> Iterator[LocalStorage]:
    """The feature stores below a folder, archives for example, without the folder itself."""
    for depth in range(1, _DEPTH + 1):
        for path in sorted(folder.glob("/".join(["*"] * depth) + f"/{ZARR_JSON}")):
            storage = LocalStorage(path.parent)
            try:
                if not path.is_symlink() and is_store(storage):
                    yield storage
            except (StoreError, StorageError):
                continue


def cached_traces(recordings: set[str]) -> Iterator[Trace]:
    """The cached stores of single recordings that only the forgotten were made of (``storyframes.extract``)."""
    root = user_cache() / "extracted"
    if not recordings or not root.is_dir():
        return
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink()):
        storage = LocalStorage(folder)
        try:
            sessions = {path.split("/")[0] for path in storage.records(("current.json",))}
            made_of = set().union(*(recordings_of(storage, session) for session in sessions))
        except (StoreError, StorageError):
            continue
        if made_of & recordings:
            yield _folder_trace(folder, "cached store of one recording")
    cache = LocalStorage(root)

    def without(content: bytes | None) -> tuple[int, bytes | None]:
        try:
            files = (unseal(content, INPUTS) or {}).get("files", {})
        except RecordError:
            return 0, None
        kept = {path: known for path, known in files.items() if known.get("sha256") not in recordings}
        return len(files) - len(kept), seal({"files": kept}) if len(kept) < len(files) else None

    if count := without(cache.read(INPUTS))[0]:
        yield Trace(
            f"{count} rows of the cache's digests",
            str(root / INPUTS),
            0,
            lambda: cache.digest(INPUTS),
            lambda: cache.update(INPUTS, lambda content: without(content)[1]),
        )


def report_traces(asked: Asked) -> Iterator[Trace]:
    """Pages and data of forgotten sessions in reports; their other pages are made again by ``storyframes report``."""
    ids = {*asked.scope.ids.sessions, *asked.scope.ids.people}
    for folder in asked.folders:
        for marker in sorted(folder.rglob(".storyframes-report")):
            pages = (path for path in marker.parent.rglob("*") if path.parent != marker.parent / "assets")
            for path in sorted(pages):
                named = path.name.split(".")[0] in ids or path.name.split("@")[0] in ids
                if path.is_file() and path.suffix in _PAGES and (named or _says(path, ids)):
                    yield Trace.of_file(path, "file of a report")


def _says(path: Path, ids: Iterable[str]) -> bool:
    """Whether a file of text has an id as a word, where the id is more than a letter or a number."""
    content = path.read_bytes() if path.suffix in (".html", ".json", ".js") else b""
    names = b"|".join(re.escape(name.encode()) for name in ids if is_distinctive(name))
    return bool(names and re.search(rb"(?<![0-9A-Za-z])(" + names + rb")(?![0-9A-Za-z])", content))


def plug_in_traces(asked: Asked) -> Iterator[Trace]:
    """What plug-ins made of the forgotten, each asked through its entry point ``storyframes.forget``.

    Raises:
        PlugInError: one cannot say what it has, so nothing is known of its files.
    """
    for point in installed_plug_ins(FORGET):
        find = load_plug_in(point)
        try:
            yield from find(asked)
        except (OSError, StoreError):
            raise
        except Exception as error:
            raise PlugInError(f"{origin(point)} cannot say what it has ({describe_error(error)})") from None


def _folder_trace(folder: Path, what: str) -> Trace:
    def digest() -> str:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return digest_of("".join(Trace.of_file(path, what).sha256() for path in files).encode())

    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Trace(what, str(folder), size, digest, partial(remove_folder, folder))


def unreachable(storages: Sequence[Storage], scope: Scope) -> Iterator[str]:
    """What may still have the forgotten and no command removes, a sentence each."""
    having = scope.ids.sessions | {session for session, _ in scope.ids.tracks}
    for storage in storages:
        try:
            entries = given_away(storage)
        except StoreError as error:
            yield str(error)
            entries = []
        for entry in entries:
            if entry.get("forgotten") or having.intersection(entry["sessions"]):
                yield f"{entry['what']} {entry['name']} of {entry['at'][:10]} has them: ask who has it to delete it"
        if not isinstance(storage, LocalStorage) and not EarlierVersions(storage, scope):
            yield (
                f"{storage.location}: where the bucket keeps versions of objects, earlier versions remain until its "
                "lifecycle rule or its owner removes them"
            )
    yield "backups and snapshots of the study and of the stores: after one is restored, run 'storyframes forget' again"
    yield "releases and exports from before 2026-11-26, which no store lists: see 'storyframes release verify --study'"
    yield "keys of releases (RELEASE.key.json), which have their ids: remove those of releases that nobody has any more"
    yield "the database of a running Prefect server, which has names of sessions and features in names of tasks"
    yield "weights of models that were trained with them: train these again"
    yield "blocks of the disk that are freed and not yet overwritten"
