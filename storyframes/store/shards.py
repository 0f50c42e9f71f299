"""One array as one uncompressed Zarr v3 shard, written as a stream and mapped into memory.

The shard holds inner chunks of 60 rows x all columns. Chunks of whole rows in row order are the plain bytes of the
array, so the file is: the rows, padding to a whole chunk, then the shard index (offset and length of every chunk,
uint64 little-endian, and their crc32c). That is an ordinary Zarr array for every reader (Zarr v3 specification, codec
``sharding_indexed``), it can be appended to in constant memory, and it can be mapped as it is stored.

Every shard is written, so an absent one is an error, also where zarr-python reads it (``storage.zarr_folder``): by
itself zarr-python would read the fill value.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import math
import mmap
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import FileIO
from pathlib import Path

import google_crc32c
import numpy as np

from storyframes.store.storage.files import make_folder

CHUNK_ROWS = 60
_ENTRY_BYTES = 16  # offset and length of one chunk
_CRC_BYTES = 4
ANNOUNCED_S = 60.0
_HAS_ADVICE = hasattr(mmap, "MADV_WILLNEED")  # Windows has none
if _HAS_ADVICE:
    _madvise = ctypes.CDLL(None).madvise
    _madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@dataclass(frozen=True)
class ShardLayout:
    """Where the rows of an array of ``shape`` are in its shard file.

    Attributes:
        dtype: numpy dtype, little-endian in the file.
        chunk_rows: rows of one inner chunk.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    chunk_rows: int = CHUNK_ROWS

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def chunks(self) -> int:
        return -(-self.rows // self.chunk_rows)

    @property
    def shard_rows(self) -> int:
        """Rows of the shard: a whole number of chunks, at least one."""
        return max(self.chunks, 1) * self.chunk_rows

    @property
    def data_bytes(self) -> int:
        return self.chunks * self.chunk_rows * self.row_bytes

    @property
    def file_bytes(self) -> int:
        return self.data_bytes + self.chunks * _ENTRY_BYTES + _CRC_BYTES

    @property
    def key(self) -> str:
        """The shard's path below the array's folder; an array without rows has no shard."""
        return "/".join(["c", *("0" for _ in self.shape)])

    def index(self) -> bytes:
        """The index of a shard whose chunks are uncompressed and in row order."""
        return shard_index([self.chunk_rows * self.row_bytes] * self.chunks)


class Compression(StrEnum):
    """How a shard's chunks are stored."""

    NONE = "none"  # the working profile: can be mapped
    ZSTD = "zstd"  # the archive profile: smaller, and slower to read


ZSTD_LEVEL = 3


@dataclass(frozen=True)
class WrittenShard:
    """What a :class:`ShardWriter` wrote: enough to prove on reading back that the disk holds it."""

    layout: ShardLayout
    file_bytes: int
    sha256: str
    first_row: np.ndarray | None
    last_row: np.ndarray | None


class ShardWriter:
    """Appends rows to one shard file; memory does not grow with the number of rows.

    Args:
        folder: the array's folder; ``c/0…`` is made below it.
        fill: pads the last chunk.
        change: given the number of the first of some rows, and the rows; what it returns is stored in their place.
    """

    def __init__(
        self,
        folder: Path,
        row_shape: tuple[int, ...],
        dtype: str | np.dtype,
        fill: float | int,
        compression: Compression = Compression.NONE,
        change: Callable[[int, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.folder = folder
        self.row_shape = tuple(row_shape)
        self.dtype = np.dtype(dtype)
        self.fill = fill
        self.compression = Compression(compression)
        self.rows = 0
        self._change = change
        self._chunk = bytearray()  # the chunk that is filling up
        self._lengths: list[int] = []  # of the chunks written
        self._file: FileIO | None = None
        self._digest = hashlib.sha256()
        self._first: np.ndarray | None = None
        self._last: np.ndarray | None = None

    def append(self, rows: np.ndarray) -> None:
        r"""Add ``rows`` of shape (n, \*row_shape).

        Raises:
            ValueError: the shape is not that of a row, or a finite value does not fit the dtype.
            OSError: the disk is full or gone.
        """
        rows = np.asarray(rows)
        if rows.shape[1:] != self.row_shape:
            raise ValueError(
                f"{self.folder.name}: rows of shape {rows.shape[1:]}, but the array's are {self.row_shape}"
            )
        if len(rows) == 0:
            return
        if self._change is not None:
            rows = self._change(self.rows, rows)
        stored = _cast(rows, self.dtype, self.folder.name)
        if self._first is None:
            self._first = stored[0].copy()
        self._last = stored[-1].copy()
        self._add(stored.data.cast("B"))
        self.rows += len(stored)

    def close(self) -> WrittenShard:
        """Pad the last chunk, write the index and close the file."""
        layout = ShardLayout((self.rows, *self.row_shape), self.dtype)
        if self.rows:
            missing = layout.shard_rows - self.rows
            padding = np.full((missing, *self.row_shape), self.fill, self.dtype.newbyteorder("<")).tobytes()
            self._add(memoryview(padding))
            self._write(shard_index(self._lengths))
        self.abandon()
        file_bytes = sum(self._lengths) + len(self._lengths) * _ENTRY_BYTES + _CRC_BYTES if self.rows else 0
        return WrittenShard(layout, file_bytes, self._digest.hexdigest(), self._first, self._last)

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, content: memoryview) -> None:
        """Take bytes of rows; whole chunks are written."""
        size = CHUNK_ROWS * math.prod(self.row_shape) * self.dtype.itemsize
        while len(content):
            part = content[: size - len(self._chunk)]
            content = content[len(part) :]
            if len(part) == size:  # a whole chunk needs no copy
                self._write_chunk(part)
                continue
            self._chunk += part
            if len(self._chunk) == size:
                self._write_chunk(self._chunk)
                self._chunk.clear()

    def _write_chunk(self, chunk: bytearray | memoryview) -> None:
        content: bytes | bytearray | memoryview = chunk
        if self.compression is Compression.ZSTD:
            from numcodecs import zstd

            content = zstd.compress(bytes(chunk), ZSTD_LEVEL)
        self._write(content)
        self._lengths.append(len(content))

    def _write(self, content: bytes | bytearray | memoryview) -> None:
        if self._file is None:
            path = self.folder / "/".join(["c", "0", *("0" for _ in self.row_shape)])
            if not self.folder.parent.is_dir():  # its disk was unmounted: nothing is written below the mount point
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder.parent))
            make_folder(path.parent)
            self._file = FileIO(path, "x", opener=_private)
        with memoryview(content) as view:
            done = 0
            while done < len(view):  # an unbuffered write may take a part only
                done += self._file.write(view[done:]) or 0
        self._digest.update(content)


def shard_index(lengths: Sequence[int]) -> bytes:
    """The index of a shard whose chunks follow each other, with its checksum."""
    entries = np.empty((len(lengths), 2), dtype="<u8")
    entries[:, 1] = lengths
    entries[:, 0] = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.uint64)]) if lengths else 0
    content = entries.tobytes()
    return content + int(google_crc32c.value(content)).to_bytes(_CRC_BYTES, "little")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _cast(rows: np.ndarray, dtype: np.dtype, name: str) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):  # raised below, with the value
        stored = np.ascontiguousarray(rows, dtype=dtype.newbyteorder("<"))
    if dtype.kind == "f" and rows.dtype.kind == "f" and dtype.itemsize < rows.dtype.itemsize:
        overflown = np.isinf(stored) & np.isfinite(rows)
        if overflown.any():
            raise ValueError(f"{name}: {rows[overflown][0]:g} does not fit {dtype}")
    elif dtype.kind in "iu" and not np.array_equal(stored, rows):  # NaN and fractions are no integers either
        raise ValueError(f"{name}: {rows[stored != rows][0]:g} does not fit {dtype}")
    return stored


def map_shard(path: Path, layout: ShardLayout) -> np.ndarray | None:
    """The shard's rows as a read-only array on a memory map, or None where the file is not as ``layout`` says.

    None means that zarr-python has to read it: the file is missing or has another length, the index's checksum is
    wrong, or a chunk is absent or elsewhere. Every entry of the index is checked. Where the system refuses to map an
    existing file, a warning says so, the first time for each reason.
    """
    import pyarrow as pa  # which the registry of extractors and an extraction with nothing due do without

    if layout.rows == 0:
        return np.empty(layout.shape, layout.dtype)
    try:
        file = pa.memory_map(str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn_once(path, error)
        return None
    with file:
        if file.size() != layout.file_bytes:
            return None
        file.seek(layout.data_bytes)
        index = file.read_buffer()
    if index.to_pybytes() != layout.index():
        return None
    # The index's parent is the whole map. Arrow's map needs no open file, while Python's (and numpy.memmap) holds a
    # descriptor as long as it exists: a study has more arrays than a process may have open files.
    rows = np.frombuffer(index.parent, layout.dtype.newbyteorder("<"), math.prod(layout.shape))
    return rows.reshape(layout.shape)


_warned: set[int | None] = set()


def _warn_once(path: Path, error: OSError) -> None:
    """Warn that reading will be slow: once in this process, as thousands of files may have the same problem."""
    if error.errno in _warned:
        return
    _warned.add(error.errno)
    why = os.strerror(error.errno) if error.errno else str(error)
    is_memory = os.strerror(errno.ENOMEM) in why  # Arrow gives no number where a map is refused
    cure = "; raise vm.max_map_count or the limit of memory (ulimit -v)" if is_memory else ""
    warnings.warn(
        f"{path}: cannot be mapped into memory ({why}), so it is read through zarr-python, many times slower{cure}; "
        "other files to which the same happens are not named",
        RuntimeWarning,
        stacklevel=2,
    )


class MappedRows:
    """Rows of an array that is mapped into memory: ``array``."""

    __slots__ = ("_address", "_announced", "_row_bytes", "array", "shape")

    def __init__(self, rows: np.ndarray) -> None:
        self.shape = rows.shape
        self.array = rows
        self._row_bytes = rows.nbytes // max(len(rows), 1)
        self._address = rows.__array_interface__["data"][0]  # asking for it takes longer than the system call
        self._announced = [-math.inf] * -(-len(rows) // CHUNK_ROWS)  # when, for each chunk

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows, not copied."""
        return self.array[rows]

    def will_need(self, start: int, stop: int) -> None:
        """Have the kernel fetch rows [start, stop) from the disk at once, in the background, where it can.

        Without this it fetches them page fault by page fault, one clip after the other. Rows that were announced within
        the last minute are not again: the call takes as long as a seventh of copying them.
        """
        if not _HAS_ADVICE or start == stop:
            return
        chunks = slice(start // CHUNK_ROWS, -(-stop // CHUNK_ROWS))
        now = time.monotonic()
        if min(self._announced[chunks]) > now - ANNOUNCED_S:
            return
        self._announced[chunks] = [now] * (chunks.stop - chunks.start)
        chunk_bytes = CHUNK_ROWS * self._row_bytes  # the file has whole chunks
        first = self._address + chunks.start * chunk_bytes & -mmap.PAGESIZE
        _madvise(first, self._address + chunks.stop * chunk_bytes - first, mmap.MADV_WILLNEED)
