"""The mark of a run in its feature store: a process that reads it back sees the same place as the run.

The same path may be another folder elsewhere: a disk of the machine's own, or the empty folder below a mount that
failed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from storyframes.store.durable import TEMPORARY_SUFFIX
from storyframes.store.location import open_storage
from storyframes.store.storage import Storage

_PREFIX = ".run-"


@dataclass(frozen=True)
class RunMark:
    """A file that is in a place while a run lasts, and in no other.

    Attributes:
        location: of the place, as :func:`~storyframes.store.location.open_storage` takes it.
        path: of the file, below it.
        content: of the file.
    """

    location: str
    path: str
    content: bytes

    def is_seen(self) -> bool:
        """Whether this process finds the mark in what it sees at the location.

        Raises:
            StorageError: what is there cannot be read.
        """
        return open_storage(self.location).read(self.path) == self.content


@contextmanager
def leave_mark(storage: Storage) -> Iterator[RunMark]:
    """Keep a mark in a place while the block runs; removes those that killed runs left in a folder.

    Those in an object store are removed by ``gc``.

    Raises:
        StorageError: nothing can be written there.
    """
    folder = storage.local("")
    for left in folder.glob(f"{_PREFIX}*{TEMPORARY_SUFFIX}") if folder else ():
        with storage.abandoned(left.name) as abandoned:
            if abandoned:
                storage.remove([left.name])
    mark = RunMark(storage.location, f"{_PREFIX}{secrets.token_hex(16)}{TEMPORARY_SUFFIX}", secrets.token_bytes(32))
    with storage.kept(mark.path, mark.content):
        yield mark
