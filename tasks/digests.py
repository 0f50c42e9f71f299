"""SHA-256 of input files, without reading again what has not changed.

A file whose size and modification time are as they were has the digest it had. The cache lies with the feature
store, keyed by paths relative to the study, so another machine that mounts both does not read 53 hours of video again.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from storyframes.durable import sha256_file
from storyframes.folder_storage import LocalStorage
from storyframes.records import RecordError, seal, unseal
from storyframes.storage import Storage, StorageError

_LOG = logging.getLogger("storyframes")

_SETTLED_NS = 2_000_000_000  # a file changed this recently may change again within one tick of its clock


class DigestCache:
    """Digests of the files below ``root``, kept in the file ``cache`` of a storage."""

    def __init__(self, storage: Storage, cache: str, root: Path) -> None:
        self.storage = storage
        self.cache = cache
        self.root = root
        try:
            content = unseal(storage.read(cache), cache)
        except RecordError:
            content = None  # only a cache: read the files again
        self._known: dict[str, dict] = (content or {}).get("files", {})
        self._changed = False

    def sha256(self, path: Path) -> str:
        """SHA-256 of the file at ``path``.

        Raises:
            OSError: the file cannot be read.
        """
        key = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
        status = path.stat()
        known = self._known.get(key)
        if known and (known["bytes"], known["mtime_ns"]) == (status.st_size, status.st_mtime_ns):
            return known["sha256"]
        digest = sha256_file(path)
        if time.time_ns() - status.st_mtime_ns > _SETTLED_NS:
            self._known[key] = {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": digest}
            self._changed = True
        return digest

    def save(self) -> None:
        """Keep what was learned; does nothing where nothing was, or where it cannot be kept (a full disk)."""
        if not self._changed:
            return
        try:
            self.storage.replace(self.cache, seal({"files": self._known}))
        except (OSError, StorageError) as error:  # only a cache: the next run reads the files again
            _LOG.warning("the checksums of the inputs cannot be kept: %s", error)
        self._changed = False


def user_cache() -> Path:
    """The folder of this user's caches (``$XDG_CACHE_HOME/storyframes``)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "storyframes"


def model_digest(path: Path) -> str:
    """SHA-256 of a model's file, which may lie anywhere on this machine.

    Raises:
        OSError: the file cannot be read.
    """
    cache = DigestCache(LocalStorage(user_cache()), "model-digests.json", Path("/"))
    digest = cache.sha256(path.resolve())
    cache.save()
    return digest
