"""The group with which a store's folder is shared.

``sharing.json`` in the store names the group. What is made is private at first, so every writer gives it to the group,
whatever its umask: files get the mode 0640 and folders 2750, or 0660 and 2770 where the group may write.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import StorageError
from storyframes.store.validation import shown

SHARING = "sharing.json"


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
