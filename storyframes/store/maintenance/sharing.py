"""Sharing a store in a folder with a group of users, making it private again, and finding what the group cannot use."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from storyframes.store.layout import VERSION_PATTERN, StoreError
from storyframes.store.maintenance.losses import Finding
from storyframes.store.storage import Storage, StorageError
from storyframes.store.storage.access import SHARING, Group, is_linked
from storyframes.store.storage.files import AS_FILE, TEMPORARY_SUFFIX, write_atomically
from storyframes.store.storage.local_folder import LocalStorage, is_foreign
from storyframes.store.storage.locks import HAS_LOCKS, check_has_locks

_OTHERS = "another user's, who runs this command again"
_LINKED = "has another name too (a hard link), perhaps outside the store: put a copy in its place and run this again"


def share(storage: Storage, name: str, *, write: bool = False) -> dict[str, str]:
    """Let a group read a store, and write it where asked: what it has, and what any writer adds from now on.

    Returns:
        The paths that were not changed, each with why not.

    Raises:
        StoreError: there is no such group, this user is no member, the store is another user's and not shared so, or it
            is not in a folder.
        StorageError: the record cannot be written.
    """
    root = _folder(storage)
    check_has_locks(root)
    import grp  # Windows has no groups of this kind

    try:
        gid = grp.getgrnam(name).gr_gid
    except KeyError:
        raise StoreError(f"there is no group {name!r} on this machine; 'id' names those of this user") from None
    if os.geteuid() and gid not in (os.getegid(), *os.getgroups()):
        raise StoreError(f"this user is no member of the group {name}; 'id' names those of this user")
    group = Group(name, gid, write)
    if storage.read(SHARING) != group.to_json():
        _check_owner(root)
        group.admit(root)
        # Before the rest: what a running writer makes from here on is the group's. Also in place of a damaged record.
        write_atomically(root / SHARING, group.to_json(), group)
    return _change(root, group)


def make_private(storage: Storage) -> dict[str, str]:
    """Remove access for the group again; returns the paths that were not changed, as :func:`share` does.

    Raises:
        StoreError: the store is not in a folder, or another user's.
    """
    root = _folder(storage)
    _check_owner(root)
    root.chmod(0o700)  # at once: nobody else gets in from here on
    storage.remove([SHARING])
    return _change(root, None)


def current_group(storage: Storage) -> Group | None:
    """The group with which a store is shared, None where it is private.

    Raises:
        StoreError: the store is not in a folder.
        StorageError: the record is damaged, or the group is another by now.
    """
    root = _folder(storage)
    return LocalStorage(root).group if HAS_LOCKS else Group.parse(storage.read(SHARING))


def why_unreachable(storage: Storage) -> str:
    """Which folder above a shared store keeps its group out, as a sentence; empty where none does."""
    root = _folder(storage).resolve()
    for above in root.parents:
        status = above.stat()
        is_open = status.st_mode & (0o010 if status.st_gid == root.stat().st_gid else 0o001)
        if not is_open:
            mode = f"{status.st_mode & 0o777:04o}"
            return f"{above} has the mode {mode}, so the group cannot reach the store: 'chmod o+x', or move the store"
    return ""


def find_forbidden(storage: Storage, versions: Collection[str], session_id: str = "") -> Iterator[Finding]:
    """The files and folders of a shared store that its group cannot use; none where it is private.

    Args:
        versions: the names of the current versions; others are not looked at.
        session_id: only this session's; empty for all.
    """
    if not isinstance(storage, LocalStorage) or not HAS_LOCKS:
        return
    try:
        group = storage.group
    except StorageError as error:
        yield Finding("", "", SHARING, str(error), forbidden=True)
        return
    if group is None:
        return
    may = "read or write" if group.write else "read"
    for path, name, folder in _entries(storage.root, {}):
        parts = path.split("/")
        if session_id not in ("", parts[0]) or name.endswith(TEMPORARY_SUFFIX):
            continue
        if len(parts) > 2 and VERSION_PATTERN.fullmatch(parts[2]) and parts[2] not in versions:
            continue
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:  # removed since it was listed; or in a folder that this user cannot enter, which is named
            continue
        if not group.permits(status):
            problem = (
                f"the group {group.name} cannot {may} it: mode {status.st_mode & 0o7777:04o}, group {status.st_gid}"
            )
            session, feature, rest = (*parts[:2], "/".join(parts[2:])) if len(parts) > 2 else ("", "", path)
            yield Finding(session, feature, rest, problem, forbidden=True)


def _folder(storage: Storage) -> Path:
    if not isinstance(storage, LocalStorage):
        raise StoreError(f"{storage.location}: only a store in a folder has a group; an object store has its own rules")
    return storage.root


def _check_owner(root: Path) -> None:
    if os.geteuid() not in (0, root.stat().st_uid):
        raise StoreError(f"{root} is another user's, who alone can say with whom it is shared")


def _change(root: Path, group: Group | None) -> dict[str, str]:
    unchanged: dict[str, str] = {}
    for path, name, folder in _entries(root, unchanged):
        try:  # by a descriptor: meanwhile a member may put a link in the file's place
            descriptor = os.open(name, AS_FILE, dir_fd=folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            unchanged[path] = _OTHERS if error.errno == errno.EACCES else os.strerror(error.errno or 0)
            continue
        try:
            status = os.fstat(descriptor)
            if group:
                group.admit(descriptor)
            elif status.st_mode & 0o7077 and not is_linked(status):
                os.chmod(descriptor, 0o700 if name == "." else 0o600)
            status = os.fstat(descriptor)
            if not group.has(status) if group else status.st_mode & 0o7077:
                unchanged[path] = _LINKED if is_linked(status) else _OTHERS
        except OSError:
            unchanged[path] = _OTHERS
        finally:
            os.close(descriptor)
    return unchanged


def _entries(root: Path, unreadable: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    """Every folder (as ``.``) and file of a store: its path below it, its name, and the descriptor of the folder."""

    def add(error: OSError) -> None:
        unreadable[os.path.relpath(error.filename, root)] = _OTHERS

    for parent, folders, names, descriptor in os.fwalk(root, onerror=add):
        folders[:] = [name for name in folders if not is_foreign(name)]
        path = os.path.relpath(parent, root)
        yield path, ".", descriptor
        for name in names:
            yield os.path.normpath(f"{path}/{name}"), name, descriptor
