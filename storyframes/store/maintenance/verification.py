"""Finding every damaged byte of a feature store: all files are read and compared with the recorded checksums."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from storyframes.store import layout
from storyframes.store.catalogue import CHECKED, check_rows
from storyframes.store.clip_table import to_frame
from storyframes.store.description import open_array, read_attributes
from storyframes.store.maintenance.intact import file_fault
from storyframes.store.maintenance.losses import Finding, LookedAt, find_losses
from storyframes.store.maintenance.sharing import find_forbidden
from storyframes.store.records import ATTEMPT, CURRENT, Attempt, Current, RecordError, unseal
from storyframes.store.storage import FileInfo, Storage, reason_of
from storyframes.store.table_files import parse_table, read_table, table_checksums
from storyframes.store.validation import are_names, shown


def verify(
    storage: Storage,
    progress: Callable[[str, str], None] = lambda *_: None,
    session_id: str = "",
    *,
    looked_at: LookedAt | None = None,
    study_sessions: Collection[str] = (),
) -> Iterator[Finding]:
    """Compare everything that readers use with what was recorded when it was published.

    Every byte of every current version is hashed; missing files, files that do not belong, shapes, the Zarr groups,
    the records and the tables are checked, and what cannot be read is named. Superseded versions are not checked. What
    the catalogue, the clip index or the study names and the store has no longer is lost. Of a shared store, what the
    group cannot use is named.

    Args:
        progress: called with (session_id, feature) before each.
        session_id: only this session (nothing else is listed); of the tables, only the catalogue is read then.
        looked_at: filled with what the store has to verify, and what has no version.
        study_sessions: of the study's tables; one of which the store has nothing is lost.
    """
    looked_at = LookedAt() if looked_at is None else looked_at
    unreadable: dict[str, str] = {}
    files = storage.files(session_id, unreadable=unreadable.__setitem__)
    for path, why in sorted(unreadable.items()):
        session, feature, name = (*path.split("/", 2), "", "", "")[:3]
        yield Finding(session, feature, name or path, why, unreadable=True)
    folders = sorted({"/".join(path.split("/")[:2]) for path in files if path.count("/") >= 2})
    for folder in folders:
        if not are_names(folder):
            yield Finding("", "", shown(folder), "no session and feature can be called so, so nothing reads it")
    features = [tuple(folder.split("/")) for folder in folders if are_names(folder)]
    # Where a writer was killed before its first record, the next one makes the groups that are not there yet.
    recorded = {path.rsplit("/", 1)[0] for path in files if path.endswith((f"/{CURRENT}", f"/{ATTEMPT}"))}
    yield from _verify_group(storage, "", layout.ROOT_GROUP)
    for session in sorted({folder.split("/")[0] for folder in recorded}):
        yield from _verify_group(storage, f"{session}/", layout.INNER_GROUP, session)
    for session, feature in features:
        progress(session, feature)
        if f"{session}/{feature}" in recorded:
            yield from _verify_group(storage, f"{session}/{feature}/", layout.INNER_GROUP, session, feature)
        yield from _verify_attempt(storage, session, feature)
        yield from _verify_feature(storage, files, session, feature, looked_at)
    yield from find_losses(storage, looked_at, session_id, study_sessions, unreadable)
    yield from find_forbidden(storage, {*looked_at.published.values()}, session_id)
    if not session_id:
        yield from _verify_tables(storage)


def repair(storage: Storage, session_id: str = "") -> list[str]:
    """Write the Zarr groups above the versions (of one session), which are always the same, where missing or changed.

    Returns:
        The paths that were written.
    """
    folders = {"/".join(path.split("/")[:2]) for path in storage.records((CURRENT, ATTEMPT), session_id or "*")}
    groups = {"": layout.ROOT_GROUP} | dict.fromkeys(
        (f"{folder.split('/')[0]}/" for folder in folders), layout.INNER_GROUP
    )
    groups |= dict.fromkeys((f"{folder}/" for folder in folders), layout.INNER_GROUP)
    damaged = [folder for folder, content in groups.items() if storage.read(f"{folder}{layout.ZARR_JSON}") != content]
    for folder in damaged:
        storage.replace(f"{folder}{layout.ZARR_JSON}", groups[folder])
    return [f"{folder}{layout.ZARR_JSON}" for folder in sorted(damaged)]


def _verify_group(
    storage: Storage, folder: str, expected: bytes, session_id: str = "", feature: str = ""
) -> Iterator[Finding]:
    try:
        if storage.read(f"{folder}{layout.ZARR_JSON}") != expected:
            problem = "the Zarr group's metadata is missing or changed; --repair writes it again"
            yield Finding(session_id, feature, layout.ZARR_JSON, problem)
    except OSError as error:
        yield Finding(session_id, feature, layout.ZARR_JSON, _why(error), unreadable=True)


def _verify_attempt(storage: Storage, session_id: str, feature: str) -> Iterator[Finding]:
    try:
        Attempt.parse_of(session_id, feature, storage.read(f"{session_id}/{feature}/{ATTEMPT}"), ATTEMPT)
    except RecordError as error:
        yield Finding(session_id, feature, ATTEMPT, f"the record of the last attempt is damaged ({error})")
    except OSError as error:
        yield Finding(session_id, feature, ATTEMPT, _why(error), unreadable=True)


def _verify_feature(
    storage: Storage, files: Mapping[str, FileInfo], session_id: str, feature: str, looked_at: LookedAt
) -> Iterator[Finding]:
    """What is wrong with the current version; checked again where another became current meanwhile."""
    path = f"{session_id}/{feature}/{CURRENT}"
    checked, findings = "", list[Finding]()
    while True:
        try:
            current = Current.parse_of(session_id, feature, storage.read(path), path)
        except RecordError as error:
            looked_at.published[session_id, feature] = ""
            yield Finding(session_id, feature, CURRENT, f"the record of the current version is damaged ({error})")
            return
        except OSError as error:
            looked_at.published[session_id, feature] = ""
            yield Finding(session_id, feature, CURRENT, _why(error), unreadable=True)
            return
        if current is None:
            looked_at.unpublished[session_id, feature] = _why_unpublished(storage, session_id, feature)
        else:
            looked_at.published[session_id, feature] = current.version
        if current is None or current.version == checked:
            yield from findings if current else ()
            return
        findings = list(_verify_version(storage, files, current))
        if not findings:
            return
        checked = current.version


def _why_unpublished(storage: Storage, session_id: str, feature: str) -> str:
    try:
        attempt = Attempt.parse_of(session_id, feature, storage.read(f"{session_id}/{feature}/{ATTEMPT}"), ATTEMPT)
    except (RecordError, OSError):
        attempt = None  # which is a finding of its own
    if attempt:
        return f"{attempt.status}: {attempt.reason}"
    return f"no {CURRENT}: a writer is at work, or was killed, or the record is lost; 'storyframes extract' makes it"


def _verify_version(storage: Storage, files: Mapping[str, FileInfo], current: Current) -> Iterator[Finding]:
    def finding(name: str, problem: str, *, unreadable: bool = False) -> Finding:
        return Finding(current.session_id, current.feature, f"{current.version}/{name}", problem, unreadable)

    version = f"{current.session_id}/{current.feature}/{current.version}"
    is_sound = True
    for name, file in current.files.items():
        try:
            problem = file_fault(storage, files.get(f"{version}/{name}"), f"{version}/{name}", file)
        except OSError as error:
            is_sound = False
            yield finding(name, _why(error), unreadable=True)
            continue
        if problem:
            is_sound = False
            yield finding(name, problem)
    stored = {path.removeprefix(f"{version}/") for path in files if path.startswith(f"{version}/")}
    for name in sorted(stored - current.files.keys()):
        yield finding(name, "this file was not published with the version")
    if not is_sound:
        return
    try:
        read_attributes(storage, current.session_id, current.feature, version)
    except layout.StoreError as error:
        yield finding(layout.ZARR_JSON, str(error))
    for name, array in current.arrays.items():
        try:
            open_array(storage, f"{version}/{name}", array)
        except layout.StoreError as error:
            yield finding(name, str(error))


def _why(error: OSError) -> str:
    text = reason_of(error)
    return text if "cannot be read" in text else f"cannot be read: {text}"


def _verify_tables(storage: Storage) -> Iterator[Finding]:
    for name in (layout.CATALOGUE, layout.CLIPS):
        try:
            content = read_table(storage, name)
            if content is not None and name == layout.CATALOGUE:
                check_rows(parse_table(content, name, CHECKED))
            elif content is not None:
                to_frame(parse_table(content, name))
        except layout.ClipFormatError:
            continue  # a newer storyframes wrote it, and its checksum is right
        except layout.StoreError as error:
            yield Finding("", "", name, str(error))
        except OSError as error:
            yield Finding("", "", name, _why(error), unreadable=True)
        else:
            accepted = table_checksums(storage).get(name)
            if content is None and accepted:
                yield Finding("", "", name, "the table is missing; 'index' writes it again")
            elif content is not None and not accepted:
                yield Finding("", "", layout.CHECKSUMS, f"it has no checksum of {name}; 'index' writes it again")
    yield from _verify_record(
        storage, layout.CLIPS_NOTE, "what the clip index was made of is damaged; 'extract' writes it again"
    )
    yield from _verify_record(
        storage, layout.INPUTS, "the cache of input checksums is damaged; 'extract' writes it again"
    )
    yield from _verify_record(
        storage, layout.STUDY, "which study this is of is damaged; 'index STUDY STORE --replace-study' writes it again"
    )


def _verify_record(storage: Storage, name: str, damaged: str) -> Iterator[Finding]:
    try:
        unseal(storage.read(name), name)
    except RecordError:
        yield Finding("", "", name, damaged)
    except OSError as error:
        yield Finding("", "", name, _why(error), unreadable=True)
