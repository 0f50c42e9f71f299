"""Sharing a store in a folder with a group of users, making it private again, and finding what the group cannot use."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from storyframes.store.layout import VERSION_PATTERN, StoreError
from storyframes.store.maintenance.losses import Finding
from storyframes.store.storage import Storage
from storyframes.store.storage.access import SHARING, Group
from storyframes.store.storage.files import AS_FILE, HAS_LOCKS, TEMPORARY_SUFFIX, check_has_locks, write_atomically
from storyframes.store.storage.local_folder import LocalStorage, is_foreign


def share(storage: Storage, name: str, *, write: bool = False) -> list[str]:
    """Let a group read a store, and write it where asked: what it has, and what any writer adds from now on.

    Returns:
        The paths that could not be changed: another user's, who runs this again.

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
        # First: what a running writer makes from here on is the group's. Also in place of a damaged record.
        write_atomically(root / SHARING, group.to_json(), group)
    return _change(root, group)


def make_private(storage: Storage) -> list[str]:
    """Make a store its owner's alone again; returns the paths that could not be changed, as :func:`share` does.

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
        StorageError: the record is damaged.
    """
    return Group.parse(storage.read(SHARING)) if _folder(storage) else None


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
    if not isinstance(storage, LocalStorage) or not HAS_LOCKS or not (group := storage.group):
        return
    may = "read or write" if group.write else "read"
    for path, name, folder in _entries(storage.root, []):
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


def _change(root: Path, group: Group | None) -> list[str]:
    unchanged: list[str] = []
    for path, name, folder in _entries(root, unchanged):
        try:  # by a descriptor: meanwhile a member may put a link in the file's place
            descriptor = os.open(name, AS_FILE, dir_fd=folder)
        except FileNotFoundError:
            continue
        except OSError:
            unchanged.append(path)
            continue
        try:
            if group:
                group.admit(descriptor)
            elif os.fstat(descriptor).st_mode & 0o7077:
                os.chmod(descriptor, 0o700 if name == "." else 0o600)
            if group and not group.has(os.fstat(descriptor)):
                unchanged.append(path)
        except OSError:
            unchanged.append(path)
        finally:
            os.close(descriptor)
    return unchanged


def _entries(root: Path, unreadable: list[str]) -> Iterator[tuple[str, str, int]]:
    """Every folder (as ``.``) and file of a store: its path below it, its name, and the descriptor of the folder."""

    def add(error: OSError) -> None:
        unreadable.append(os.path.relpath(error.filename, root))

    for parent, folders, names, descriptor in os.fwalk(root, onerror=add):
        folders[:] = [name for name in folders if not is_foreign(name)]
        path = os.path.relpath(parent, root)
        yield path, ".", descriptor
        for name in names:
            yield os.path.normpath(f"{path}/{name}"), name, descriptor
