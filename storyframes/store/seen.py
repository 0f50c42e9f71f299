"""What the records of a store were seen as, so that those which did not change need not be read again.

The catalogue remembers it of each of its rows. It is compared, never believed: a record of which the place cannot say
for certain that it is the same (:meth:`storyframes.store.storage.Storage.states`) is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from storyframes.store.records import ATTEMPT, CURRENT
from storyframes.store.storage import Storage

_ROWS_RULE = 1  # raise it whenever the same records make another row of the catalogue than before


@dataclass
class Seen:
    """What a listing of the records shows.

    Attributes:
        unreadable: what could not be listed, and why, by path.
    """

    unreadable: dict[str, str] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)  # by folder: the name and the state of each record, a line

    @property
    def folders(self) -> Iterable[str]:
        """The folders ``<session>/<feature>`` with records."""
        return self._states.keys()

    def names(self, folder: str) -> list[str]:
        """The records of a folder; all that there may be where none is listed, as a listing may lag behind."""
        lines = self._states.get(folder, f"{CURRENT}=\n{ATTEMPT}=")
        return [line.partition("=")[0] for line in lines.split("\n")]

    def mark(self, folder: str) -> bytes | None:
        """16 bytes that stay the same only while the folder's records do; None where that is not certain."""
        lines = self._states.get(folder, "")
        if not lines or any(line.endswith("=") for line in lines.split("\n")):
            return None
        return hashlib.blake2b(f"{_ROWS_RULE}\n{lines}".encode(), digest_size=16).digest()


def see(storage: Storage) -> Seen:
    """List the records of a store."""
    seen = Seen()
    for path, state in storage.states((CURRENT, ATTEMPT), seen.unreadable.__setitem__):
        folder, name = path.rsplit("/", 1)
        line = f"{name}={state}"
        other = seen._states.get(folder)
        seen._states[folder] = line if other is None else "\n".join(sorted((other, line)))
    return seen
