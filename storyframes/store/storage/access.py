"""A store's folder: which users may read and write it, and whether it is still the folder that was opened.

``sharing.json`` in the store names the group. What is made is private at first, so every writer gives it to the group,
whatever its umask: files get the mode 0640 and folders 2750, or 0660 and 2770 where the group may write.

Below a mount point lies another folder, usually an empty one. What is written there while the disk is unmounted is lost
to the store, and hidden once the disk is mounted again: so a random id in the store is compared (``identity.json``).
"""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import StorageError, may_pass
from storyframes.store.validation import shown

SHARING = "sharing.json"
IDENTITY = "identity.json"


@dataclass(frozen=True)
class Group:
    """A group with which a store is shared.

    Attributes:
        name: of the group.
        gid: its number where the store was shared; used where neither is known, as in a container.
        write: whether its members may write too.
    """

    name: str
    gid: int
    write: bool

    @classmethod
    def parse(cls, data: bytes | None) -> Self | None:
        """The group that the content of ``sharing.json`` names, None where there is no such file.

        Raises:
            StorageError: it is damaged.
        """
        try:
            content: dict[str, Any] | None = unseal(data, SHARING)
        except RecordError as error:
            raise StorageError(f"{error}; 'storyframes share' writes it again") from None
        if content is None:
            return None
        name, gid, write = (content.get(key) for key in ("group", "gid", "write"))
        if not isinstance(name, str) or not isinstance(gid, int) or not isinstance(write, bool):
            raise StorageError(f"{SHARING}: {shown(content)} names no group; 'storyframes share' writes it again")
        return cls(name, gid, write)

    def check(self, root: Path) -> None:
        """Check that the group of this name is still the one that has the store's folder.

        Raises:
            StorageError: the name or the number is another group's by now, or on this machine.
        """
        number, there = _number(self.name, self.gid), root.stat().st_gid
        if number != there:
            raise StorageError(
                f"{root}: is shared with the group {self.name}, which has the number {number} here, but the folder "
                f"is of the group {there}{_named(there)}: {_SAY_AGAIN}"
            )

    def to_json(self) -> bytes:
        """The content of ``sharing.json``."""
        return seal({"group": self.name, "gid": self.gid, "write": self.write})

    def has(self, status: os.stat_result) -> bool:
        """Whether a file or folder with this status has exactly the group and the mode of a shared one."""
        return status.st_gid == _number(self.name, self.gid) and stat.S_IMODE(status.st_mode) == self._mode(status)

    def permits(self, status: os.stat_result) -> bool:
        """Whether the group may use a file or folder with this status; it may have further rights."""
        needed = self._mode(status) & 0o777
        return status.st_gid == _number(self.name, self.gid) and status.st_mode & needed == needed

    def admit(self, target: int | Path) -> None:
        """Give a file or folder, by its path or descriptor, to the group.

        Another user's is left as it is, and so is a file with a second name (a hard link), perhaps outside the store.

        Raises:
            StorageError: this process's user is no member of the group.
        """
        status = os.stat(target)
        if self.has(status) or os.geteuid() not in (0, status.st_uid) or is_linked(status):
            return
        try:
            if status.st_gid != _number(self.name, self.gid):
                os.chown(target, -1, _number(self.name, self.gid))
            os.chmod(target, self._mode(status))
        except PermissionError:
            raise StorageError(
                f"the store is shared with the group {self.name}, of which this user is no member: a new member logs "
                "in again first; the administrator adds one"
            ) from None

    def _mode(self, status: os.stat_result) -> int:
        if stat.S_ISDIR(status.st_mode):
            return 0o2770 if self.write else 0o2750
        return 0o660 if self.write else 0o640


def is_linked(status: os.stat_result) -> bool:
    """Whether it is a file that has other names, by hard links."""
    return not stat.S_ISDIR(status.st_mode) and status.st_nlink > 1


def make_folder(folder: Path) -> None:
    """Make a folder and its parents where they are missing, each with the mode of the one above, whatever the umask.

    Raises:
        OSError: one of them cannot be made.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700)
        folder.chmod(stat.S_IMODE(folder.parent.stat().st_mode))


_SAY_AGAIN = "'storyframes share' with --group or --private says anew who may use the store"


@cache
def _number(name: str, recorded: int) -> int:
    import grp  # Windows has no groups of this kind, and reads stores

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        if other := _named(recorded):
            raise StorageError(
                f"the store is shared with the group {name}, which is unknown here, and its number {recorded} is "
                f"another's{other}: {_SAY_AGAIN}"
            ) from None
        return recorded


def _named(gid: int) -> str:
    import grp

    try:
        return f" ({grp.getgrgid(gid).gr_name})"
    except KeyError:
        return ""


def keep_private() -> None:
    """Have this process write files that only their owner reads, and no image of its memory where it crashes.

    It holds recordings or words. Its children inherit both.
    """
    os.umask(0o077)
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which writes no core files
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


# --- the folder that was opened --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RootIdentity:
    """A store's folder as it was when the store was opened.

    Attributes:
        device: of its file system; another one after a remount.
        inode: of the folder.
        store_id: a random text in the store; empty where it has none.
    """

    device: int
    inode: int
    store_id: str

    @classmethod
    def of(cls, root: Path, store_id: str) -> Self:
        """The identity of a folder that has this id.

        Raises:
            StorageError: there is none, or it cannot be read.
        """
        status = _root_status(root)
        return cls(status.st_dev, status.st_ino, store_id)

    def is_at(self, root: Path) -> bool:
        """Whether ``root`` is this very folder. If not, it may be the same one, mounted again: its id decides.

        Raises:
            StorageError: there is no folder, or it cannot be read.
        """
        status = _root_status(root)
        return (status.st_dev, status.st_ino) == (self.device, self.inode)

    def check_id(self, root: Path, store_id: str) -> None:
        """Check that this is the id of the store that was opened.

        Raises:
            StorageError: it is another one, or there is none.
        """
        if not store_id or store_id != self.store_id:
            raise StorageError(f"{root}: another folder is there than the feature store that was opened. {_ADVICE}")


_ADVICE = (
    "Was its disk unmounted? Nothing is written there: mount the disk again, then run the same command again; what was "
    "published before stays"
)


def new_identity() -> bytes:
    """The content of ``identity.json`` for a store that has none."""
    return seal({"id": secrets.token_hex(16)})


def store_id_in(content: bytes | None) -> str:
    """The random id that the content of ``identity.json`` has; empty where it has none, or is damaged."""
    try:
        store_id = (unseal(content, IDENTITY) or {}).get("id")
    except RecordError:
        return ""
    return store_id if isinstance(store_id, str) else ""


def _root_status(root: Path) -> os.stat_result:
    try:
        return os.stat(root)
    except (FileNotFoundError, NotADirectoryError):
        raise StorageError(f"{root}: the feature store's folder is not there any more. {_ADVICE}") from None
    except OSError as error:
        raise StorageError(f"{root}: cannot be read: {error.strerror}", transient=may_pass(error)) from None
