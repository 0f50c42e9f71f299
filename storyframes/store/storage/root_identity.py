"""Whether a store's folder is still the one that was opened, or whether its disk was unmounted meanwhile.

Below a mount point lies another folder, usually an empty one. What is written there is lost to the store, and hidden
once the disk is mounted again.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import StorageError, may_pass
from storyframes.store.storage.files import open_regular

IDENTITY = "identity.json"
_MOST_BYTES = 10_000


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
    def of(cls, root: Path) -> Self:
        """The identity of a folder.

        Raises:
            StorageError: there is none, or it cannot be read.
        """
        status = _status(root)
        return cls(status.st_dev, status.st_ino, read_store_id(root))

    def check(self, root: Path) -> None:
        """Check that ``root`` is this folder, or has the same random id: the disk may have been mounted again.

        Raises:
            StorageError: it is another folder, or none.
        """
        status = _status(root)
        if (status.st_dev, status.st_ino) != (self.device, self.inode) and not self.is_store(read_store_id(root)):
            raise another_folder(root)

    def is_store(self, store_id: str) -> bool:
        """Whether this is the id of the store that was opened."""
        return bool(store_id) and store_id == self.store_id


_ADVICE = (
    "Was its disk unmounted? Nothing is written there: mount the disk again, then run the same command again; what was "
    "published before stays"
)


def another_folder(root: Path) -> StorageError:
    return StorageError(f"{root}: another folder is there than the feature store that was opened. {_ADVICE}")


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


def read_store_id(root: Path) -> str:
    """The random id of the store in a folder; empty where it has none, or it cannot be read."""
    try:
        with open(open_regular(root, IDENTITY), "rb", buffering=0) as file:
            return store_id_in(file.read(_MOST_BYTES))
    except OSError:
        return ""


def _status(root: Path) -> os.stat_result:
    try:
        return os.stat(root)
    except (FileNotFoundError, NotADirectoryError):
        raise StorageError(f"{root}: the feature store's folder is not there any more. {_ADVICE}") from None
    except OSError as error:
        raise StorageError(f"{root}: cannot be read: {error.strerror}", transient=may_pass(error)) from None
