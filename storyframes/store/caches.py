"""What was read of compressed and of far arrays, kept: chunks in memory, and rows on this machine's disk.

A :class:`LocalCopy` is one sparse file for each array: the shard's rows as they are stored, then eight bytes for each
chunk, which are 0 until the chunk was written and hold its checksum afterwards. Processes share it: all write the same
bytes, a chunk's checksum after the chunk, and each process checks a chunk against it before its first use. So a chunk
that a crash or a loss of power left half written is fetched again, and never read.
"""

from __future__ import annotations

import errno
import os
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from storyframes.store.layout import StoreError
from storyframes.store.shards import ShardLayout
from storyframes.store.storage import reason_of

SUFFIX = ".rows"
_ENTRY_BYTES = 8
_WRITTEN = 1 << 32  # a chunk's entry is this, with its crc32c in the lower half
_RECOUNTED_BYTES = 256 * 2**20  # written by this process, before it counts again what all copies take
_instances: weakref.WeakSet[Any] = weakref.WeakSet()  # to reset in a forked process


class CopyFolder:
    """The folder of the copies, and how much may be in it. Threads and processes may share one.

    Args:
        folder: made where it is missing, with mode 0700, since recordings are personal data.
        max_bytes: what all copies may take of the disk; None: as much as is free.

    Raises:
        StoreError: the folder cannot be made or written, or this system is Windows or macOS.
    """

    def __init__(self, folder: Path, max_bytes: int | None) -> None:
        if not hasattr(os, "posix_fallocate"):
            raise StoreError(
                f"cache = {str(folder)!r}: copies are kept on Linux alone, because this system cannot reserve a file's "
                "place on the disk: leave the cache out, and what is read is fetched each time"
            )
        self.folder, self.max_bytes = folder.absolute(), max_bytes
        self._lock = threading.Lock()
        self._opened: set[Path] = set()
        self._used = 0
        self._uncounted = 0
        self._has_warned = False
        reset_after_fork(self)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._count()
        except OSError as error:
            raise StoreError(f"cache = {str(folder)!r}: cannot be used: {reason_of(error)}") from None
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise StoreError(f"cache = {str(folder)!r}: cannot be written")

    def after_fork(self) -> None:
        """Take a new lock: another thread may have held the old one."""
        self._lock = threading.Lock()

    def copy(self, name: str, layout: ShardLayout) -> LocalCopy | None:
        """The copy of one array; None where the disk has no room for another.

        Args:
            name: of this content alone: location, version and state of the object.
        """
        digest = sha256(f"{name}\n{layout.shape}\n{layout.dtype}\n{layout.chunk_rows}".encode()).hexdigest()
        path = self.folder / f"{digest}{SUFFIX}"
        self._opened.add(path)
        try:
            return LocalCopy(path, layout, self)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self.warn_once(error)
                return None
            raise StoreError(f"{path}: the copy cannot be opened: {reason_of(error)}") from None

    def has_room(self, nbytes: int) -> bool:
        """Whether this many more bytes may be kept; they then count as kept. Copies not used by this process go."""
        try:
            with self._lock:
                return self._find_room(nbytes)
        except OSError as error:
            self.warn_once(error)
            return False

    def warn_once(self, error: OSError) -> None:
        """Warn that what is read is no longer kept, and is fetched again; the values are the same."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"cache = {str(self.folder)!r}: cannot be written any more ({reason_of(error)}): until it can, "
                "what is read is fetched anew each time",
                RuntimeWarning,
                stacklevel=2,
            )

    def _find_room(self, nbytes: int) -> bool:
        self._uncounted += nbytes
        if self._uncounted > _RECOUNTED_BYTES:
            self._count()
            self._uncounted = nbytes
        if self.max_bytes is not None and self._used + self._uncounted > self.max_bytes:
            self._make_room(self._used + self._uncounted - self.max_bytes)
            self._uncounted = nbytes
            if self._used + nbytes > self.max_bytes:
                self._uncounted = 0
                return False
        return True

    def _count(self) -> None:
        self._used = sum(status.st_blocks * 512 for _, status in self._copies())

    def _make_room(self, nbytes: int) -> None:
        """Remove the copies that were opened longest ago, but none that this process reads from.

        Another process that has one mapped keeps what is mapped: only the name goes.
        """
        for path, status in sorted(self._copies(), key=lambda copy: copy[1].st_mtime_ns):
            if nbytes <= 0:
                break
            if path not in self._opened:
                path.unlink(missing_ok=True)
                nbytes -= status.st_blocks * 512
        self._count()

    def _copies(self) -> Iterable[tuple[Path, os.stat_result]]:
        for path in self.folder.glob(f"*{SUFFIX}"):
            with suppress(FileNotFoundError):  # another process made room
                yield path, path.stat()


class LocalCopy:
    """The chunks of one array that were read before, on this machine's disk.

    Attributes:
        rows: the array, mapped; only rows of chunks that :meth:`has` are values.

    Raises:
        OSError: it cannot be made, opened or mapped.
    """

    def __init__(self, path: Path, layout: ShardLayout, folder: CopyFolder) -> None:
        self._path, self._layout, self._folder = path, layout, folder
        self._chunk_bytes = layout.chunk_rows * layout.row_bytes
        self._inode = _make(path, layout.data_bytes, _ENTRY_BYTES * layout.chunks)
        # Writable, because only such a map is shared and shows what others write. Arrow's map holds no descriptor.
        with pa.memory_map(str(path), "r+") as file:
            content = np.frombuffer(file.read_buffer(), np.uint8)
        content.flags.writeable = False
        self._bytes = content[: layout.data_bytes]
        self._entries = content[layout.data_bytes :].view("<u8")
        rows = self._bytes[: layout.rows * layout.row_bytes].view(layout.dtype.newbyteorder("<"))
        self.rows = rows.reshape(layout.shape)
        self._sound = bytearray(layout.chunks)  # 1 where checked by this process; quicker to ask than numpy

    def has(self, first: int, stop: int) -> bool:
        """Whether the copy has all chunks [first, stop)."""
        return self._sound.find(0, first, stop) < 0 or all(self._check(number) for number in range(first, stop))

    def put(self, first: int, content: memoryview) -> bool:
        """Keep whole chunks, the first of them number ``first``; False where there is no room."""
        if not self._folder.has_room(len(content)):
            return False
        size = self._chunk_bytes
        chunks = np.frombuffer(content.toreadonly(), np.uint8).reshape(-1, size)
        entries = np.array([_entry(chunk) for chunk in chunks], "<u8")
        try:
            descriptor = os.open(self._path, os.O_WRONLY)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or not self._folder.folder.is_dir():
                self._folder.warn_once(error)
            return False  # where only the file is gone, another process made room
        try:
            if os.fstat(descriptor).st_ino != self._inode:  # and a third process made the copy anew
                return False
            if os.pwrite(descriptor, content, first * size) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.pwrite(descriptor, entries.tobytes(), self._layout.data_bytes + _ENTRY_BYTES * first)
        except OSError as error:  # the disk is full, or broken
            self._folder.warn_once(error)
            return False
        finally:
            os.close(descriptor)
        self._sound[first : first + len(chunks)] = b"\1" * len(chunks)
        return True

    def _check(self, number: int) -> bool:
        if not self._sound[number]:
            entry = int(self._entries[number])
            chunk = self._bytes[number * self._chunk_bytes : (number + 1) * self._chunk_bytes]
            self._sound[number] = entry != 0 and entry == _entry(chunk)
        return self._sound[number] == 1


def _entry(chunk: np.ndarray) -> int:
    """The entry of a chunk that was written. The chunk is not copied for it, so it has to be read-only."""
    return _WRITTEN | int(google_crc32c.value(chunk))


def _make(path: Path, rows_bytes: int, entries_bytes: int) -> int:
    """Make the file where it is missing; returns its inode.

    Disk space for the entries is allocated at once, for the rows when they come: reading an entry without disk space
    would kill the process where a file system in memory is full.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size != rows_bytes + entries_bytes:
            os.posix_fallocate(descriptor, rows_bytes, entries_bytes)
            os.ftruncate(descriptor, rows_bytes + entries_bytes)  # a damaged one was longer
        os.utime(descriptor)
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


class ChunkCache:
    """Chunks by key, those used last, as many as fit into ``max_bytes``. Threads may share one.

    A forked process begins with an empty one.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._chunks: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()
        reset_after_fork(self)

    def get(self, key: Hashable) -> np.ndarray | None:
        """The chunk, or None."""
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is not None:
                self._chunks.move_to_end(key)
            return chunk

    def put(self, key: Hashable, chunk: np.ndarray) -> None:
        """Keep the chunk, and drop those that were not used for longest."""
        with self._lock:
            self._forget(key)
            self._chunks[key] = chunk
            self._nbytes += chunk.nbytes
            while self._nbytes > self.max_bytes:
                self._forget(next(iter(self._chunks)))

    def _forget(self, key: Hashable) -> None:
        chunk = self._chunks.pop(key, None)
        if chunk is not None:
            self._nbytes -= chunk.nbytes

    def after_fork(self) -> None:
        """Begin empty: another thread may have been in the middle of a change."""
        self._lock = threading.Lock()
        self._chunks = OrderedDict()
        self._nbytes = 0


def reset_after_fork(instance: Any) -> None:
    """Have ``instance.after_fork()`` called in forked processes, where a lock that another thread held stays locked."""
    _instances.add(instance)


def _after_fork() -> None:
    for instance in list(_instances):
        instance.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
