"""Read the results of an external program, and use only what can be checked.

An ending with 0 proves nothing. The record, which is written last, says how many rows each array has and their
SHA-256; every file must have just those rows, of the declared dtype and shape, on axes that agree, and the values must
be values: no infinity, and numbers wherever the feature's mask says that there is a measurement.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from storyframes.features import ArraySpec, Axis, FeatureSpec
from tasks.extractors.outside.client import FORMAT, RECORD

_BLOCK_BYTES = 4 << 20
_RECORD_BYTES = 1 << 20  # no record is longer
_HEADER_BYTES = 10_000


_VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}")


class Rows(Protocol):
    """Takes the rows of one array, in order."""

    def append(self, rows: np.ndarray) -> object: ...


class RowsByArray(Protocol):
    """Takes a program's arrays: a feature's writer, or what keeps them in memory."""

    def array(self, name: str) -> Rows: ...


class ResultsError(Exception):
    """The results are not the whole and sound work of one run; the message names the array, the row and the rule.

    It quotes nothing that the program wrote but numbers: with a private feature that could be somebody's words.
    """


@dataclass(frozen=True)
class _Written:
    """What the record says of one array."""

    rows: int
    sha256: str


@dataclass(frozen=True)
class _Record:
    """What the program says it did."""

    arrays: Mapping[str, _Written]
    frames_read: int
    python: str


def store_results(
    folder: Path, spec: FeatureSpec, frames: int, out: RowsByArray, *, streamed: bool, python: str = ""
) -> None:
    """Check the files in ``folder`` and append them to ``out``, a block of rows at a time.

    Args:
        frames: of the session, by its clock.
        streamed: whether the program was sent the frames, and so has to say that it has read them all.
        python: the version of Python that it has to have run with, which is part of the fingerprint; empty for any.

    Raises:
        ResultsError: something is absent, cut, of another kind, or no value.
    """
    record = _read_record(folder)
    written = record.arrays
    if streamed and record.frames_read != frames:
        raise ResultsError(f"it ended after it had read {record.frames_read} of {frames} frames")
    if python and record.python != python:
        raise ResultsError(
            f"it ran with Python {record.python or 'of no version'}, but its environment was made with {python}: make "
            "it again"
        )
    _check_names(written, spec)
    _check_axes(written, spec, frames)
    has_values: dict[str, np.ndarray] = {}
    mask = np.zeros(written[spec.mask].rows if spec.mask in written else 0, bool)
    for name, array in written.items():
        values = np.zeros(array.rows, bool)
        with _rows_of(folder, name, spec.arrays[name], array) as blocks:
            writer = out.array(name)
            row = 0
            for block in blocks:
                _check_numbers(name, block, row)
                writer.append(block)
                values[row : row + len(block)] = _has_value(block)
                if name == spec.mask:
                    mask[row : row + len(block)] = block
                row += len(block)
        if np.dtype(spec.arrays[name].dtype).kind == "f":
            has_values[name] = values
    _check_measured(spec, mask, has_values)


def _read_record(folder: Path) -> _Record:
    try:
        with _open(folder, RECORD) as file:
            content = json.loads(file.read(_RECORD_BYTES))
        if _count(content["format"]) != FORMAT:
            raise ResultsError(f"{RECORD} has format {content['format']}, this is read: {FORMAT}")
        python = content.get("python", "")
        return _Record(
            arrays={
                str(name): _Written(_count(array["rows"]), str(array["sha256"]))
                for name, array in content["arrays"].items()
            },
            frames_read=_count(content["frames_read"]),
            python=python if _VERSION.fullmatch(python) else "",
        )
    except FileNotFoundError:
        raise ResultsError(
            f"it left no {RECORD}, which it writes last of all: it stopped before its end, whatever else it wrote"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ResultsError(f"{RECORD} is damaged or no record of results") from None


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError
    return number


def _check_names(written: Mapping[str, _Written], spec: FeatureSpec) -> None:
    if unknown := [name for name in written if name not in spec.arrays]:
        raise ResultsError(
            f"it wrote {len(unknown)} array(s) that the plug-in does not declare; it declares {', '.join(spec.arrays)}"
        )
    if absent := [name for name, array in spec.arrays.items() if name not in written and not array.optional]:
        raise ResultsError(f"it wrote no array {', '.join(absent)}")


def _check_axes(written: Mapping[str, _Written], spec: FeatureSpec, frames: int) -> None:
    """Every per-frame array has a row for each frame; arrays on the same axis have the same number of rows."""
    lengths: dict[str, tuple[int, str]] = {
        Axis.FRAME: (frames, "the session has"),
        Axis.FRAME_EDGE: (frames + 1, "the edges of the session's frames are"),
    }
    for name, array in written.items():
        axis = spec.arrays[name].axis
        expected, whose = lengths.setdefault(axis, (array.rows, f"{name}, on the same axis '{axis}', has"))
        if array.rows != expected:
            raise ResultsError(f"{name} has {array.rows} rows, but {whose} {expected}")


@contextmanager
def _rows_of(folder: Path, name: str, spec: ArraySpec, written: _Written) -> Iterator[Iterator[np.ndarray]]:
    """The rows of an array in blocks; they are proved when the last block has been taken."""
    file_name = f"{name}.npy"
    try:
        file = _open(folder, file_name)
    except FileNotFoundError:
        raise ResultsError(f"{RECORD} names {file_name}, which is not there") from None
    with file:
        dtype = np.dtype(spec.dtype).newbyteorder("<")
        shape = (written.rows, *spec.shape)
        try:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError
            has_shape, fortran, has_dtype = np.lib.format.read_array_header_1_0(file, max_header_size=_HEADER_BYTES)
        except ValueError:
            raise ResultsError(f"{file_name} has no header of a .npy file, version 1.0") from None
        if has_dtype != dtype:
            what = "several fields" if has_dtype.names else f"dtype {has_dtype}"
            raise ResultsError(f"{file_name} has {what}, the plug-in declares {spec.dtype}")
        if has_shape != shape:
            raise ResultsError(f"{file_name} has shape {has_shape}, expected {shape}")
        if fortran:
            raise ResultsError(f"{file_name} is in Fortran order, rows have to follow one another")
        row_bytes = dtype.itemsize * int(np.prod(spec.shape, dtype=int))
        begins, size = file.tell(), os.fstat(file.fileno()).st_size
        if size != begins + written.rows * row_bytes:
            raise ResultsError(
                f"{file_name} has {size - begins} bytes of values, {written.rows} rows have "
                f"{written.rows * row_bytes}: it is cut, or was not closed"
            )
        yield _blocks(file, dtype, spec.shape, row_bytes, written, file_name)


def _blocks(
    file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...], row_bytes: int, written: _Written, file_name: str
) -> Iterator[np.ndarray]:
    digest = hashlib.sha256()
    rows = max(1, _BLOCK_BYTES // max(row_bytes, 1))
    for start in range(0, written.rows, rows):
        block = np.empty((min(rows, written.rows - start), *shape), dtype)
        view = block.reshape(-1).view(np.uint8).data
        if file.readinto(view) != len(view):  # type: ignore[attr-defined]
            raise ResultsError(f"{file_name} cannot be read to its end")
        digest.update(view)
        yield block
    if digest.hexdigest() != written.sha256:
        raise ResultsError(
            f"{file_name} has other values than its program says it wrote: their SHA-256 is {digest.hexdigest()}, "
            f"{RECORD} has another"
        )


def _open(folder: Path, name: str) -> IO[bytes]:
    """A plain file of the folder: a link could lead elsewhere, a pipe would be waited for.

    Raises:
        FileNotFoundError: it is not there.
        ResultsError: it is not a plain file.
    """
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ResultsError(f"{name} cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ResultsError(f"{name} is no plain file")
    return os.fdopen(descriptor, "rb")


def _check_numbers(name: str, block: np.ndarray, before: int) -> None:
    if block.dtype.kind != "f":
        return
    wrong = np.argwhere(np.isinf(block))
    if len(wrong):
        row, *indices = (int(number) for number in wrong[0])
        where = f" {indices}" if indices else ""
        raise ResultsError(f"{name} has {block[tuple(wrong[0])]} in row {before + row}{where}: not found is NaN")


def _has_value(block: np.ndarray) -> np.ndarray:
    """(n,) bool: the rows that hold a number."""
    if block.dtype.kind != "f":
        return np.ones(len(block), bool)
    return ~np.isnan(block).reshape(len(block), -1).all(axis=1)


def _check_measured(spec: FeatureSpec, mask: np.ndarray, has_values: Mapping[str, np.ndarray]) -> None:
    """Refuse buffers that were never filled: NaN where the mask says that there is a measurement, or NaN alone."""
    if not spec.mask:
        if has_values and any(map(len, has_values.values())) and not any(v.any() for v in has_values.values()):
            raise ResultsError(f"every value of {', '.join(has_values)} is NaN")
        return
    beside = [values for name, values in has_values.items() if spec.arrays[name].axis == spec.arrays[spec.mask].axis]
    if not beside:
        return
    empty = np.flatnonzero(mask & ~np.any(beside, axis=0))
    if len(empty):
        raise ResultsError(f"{spec.mask} calls row {empty[0]} a measurement, but every value of it is NaN")
