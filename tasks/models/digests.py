"""SHA-256 of input files, without reading again what has not changed.

A file with the same size and modification time has the same digest. The cache is in the feature
store, keyed by paths relative to the study, so another machine that mounts both does not read 53 hours of video again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from storyframes.store.records import RecordError, seal, unseal
from storyframes.store.storage import Storage, StorageError
from storyframes.store.storage.files import sha256_file
from storyframes.store.storage.local_folder import LocalStorage

_LOG = logging.getLogger("storyframes")

_MODELS = "model-digests.json"
_SETTLED_NS = 2_000_000_000  # a file changed this recently may change again within one tick of its clock


class DigestCache:
    """Digests of the files below the ``roots``, kept in the file ``cache`` of a storage by names without the roots.

    ``on_this_machine``: a file must also be the very same one, unchanged in every respect: models that were unpacked
    from an archive or copied with their times are distinguished from those that they replaced.
    """

    def __init__(self, storage: Storage, cache: str, *roots: Path, on_this_machine: bool = False) -> None:
        self.on_this_machine = on_this_machine
        self.storage = storage
        self.cache = cache
        self.roots = roots
        try:
            self._known = self._parsed(storage.read(cache))
        except OSError:
            self._known = {}  # only a cache: read the files again
        self._learned: dict[str, dict[str, Any]] = {}

    def _parsed(self, content: bytes | None) -> dict[str, dict[str, Any]]:
        try:
            files = (unseal(content, self.cache) or {}).get("files", {})
        except RecordError:
            files = {}
        return {
            name: entry
            for name, entry in (files.items() if isinstance(files, dict) else ())
            if isinstance(entry, dict) and isinstance(entry.get("sha256"), str)
        }

    def sha256(self, path: Path) -> str:
        """SHA-256 of the file at ``path``.

        Raises:
            OSError: the file cannot be read.
        """
        key = self._key(path)
        status = path.stat()
        state = {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
        if self.on_this_machine:
            state |= {"ctime_ns": status.st_ctime_ns, "inode": status.st_ino}
        entry = self._known.get(key)
        if entry and state.items() <= entry.items():
            return entry["sha256"]
        digest = sha256_file(path)
        if time.time_ns() - max(status.st_mtime_ns, state.get("ctime_ns", 0)) > _SETTLED_NS:
            self._known[key] = self._learned[key] = {**state, "sha256": digest}
        return digest

    def remembered(self, path: Path) -> tuple[int, str] | None:
        """Bytes and SHA-256 of a file as it was when it was last read, whether or not it still exists."""
        entry = self._known.get(self._key(path))
        return (entry["bytes"], entry["sha256"]) if entry else None

    def _key(self, path: Path) -> str:
        names = [
            (path.relative_to(root), "./" * number)  # no relative path begins so: the second root may have the same
            for number, root in enumerate(self.roots)
            if path.is_relative_to(root)
        ]
        name, prefix = min(names, key=lambda name: len(name[0].parts), default=(path, ""))
        return prefix + name_as_text(name)

    def save(self) -> None:
        """Keep what was learned, beside what other processes have learned meanwhile.

        Does nothing where nothing was, or where it cannot be kept (a full disk).
        """
        if not self._learned:
            return
        learned, self._learned = self._learned, {}  # a thread beside may learn more
        try:
            self.storage.update(self.cache, lambda kept: seal({"files": self._parsed(kept) | learned}))
        except (OSError, StorageError) as error:  # only a cache: the next run reads the files again
            _LOG.warning("the checksums of the inputs cannot be kept: %s", error)


def name_as_text(path: Path) -> str:
    """A path as text that JSON can have, also where its bytes are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def user_cache() -> Path:
    """The folder of this user's caches (``$XDG_CACHE_HOME/storyframes``)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "storyframes"


def _models_cache() -> DigestCache:
    """The digests of this user's models, as they are stored now.

    Every fingerprint asks for models, and a study may have a hundred thousand sessions: it is read again only
    if it has changed.
    """
    folder = user_cache()
    try:
        status = (folder / _MODELS).stat()
    except OSError:
        return _read_models_cache.__wrapped__(folder, None)
    return _read_models_cache(folder, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=1)
def _read_models_cache(folder: Path, state: tuple[int, int, int] | None) -> DigestCache:
    return DigestCache(LocalStorage(folder), _MODELS, Path("/"), on_this_machine=True)


def model_digest(path: Path) -> str:
    """SHA-256 of a model's file, anywhere on this machine.

    Raises:
        OSError: the file cannot be read.
    """
    return model_digests([path])[path]


def model_digests(paths: Iterable[Path]) -> dict[Path, str]:
    """SHA-256 of many of them; see :func:`model_digest`."""
    cache = _models_cache()
    digests = {path: cache.sha256(path.resolve()) for path in paths}
    cache.save()
    return digests
