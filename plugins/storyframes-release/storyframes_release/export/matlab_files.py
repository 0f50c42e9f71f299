"""Tables as MATLAB files (version 5): matrices of named columns, and the name of each in the store.

MATLAB stores matrices column by column, so the file is laid out first and then filled in blocks of rows.
"""

from __future__ import annotations

import csv
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.io

from storyframes.store import Table
from storyframes_release.export.array_files import array_name
from storyframes_release.export.formats import ExportError

LIMIT = 2**31 - 1
"""Bytes of the largest matrix that version 5 holds."""
_LONGEST = 63  # characters of a name
_KEYWORDS = frozenset(
    "break case catch classdef continue else elseif end for function global if otherwise parfor persistent return spmd "
    "switch try while".split()
)
_MATRIX, _UINT32, _INT32, _INT8 = 14, 6, 5, 1  # kinds of elements
_LOGICAL = 0x0200
_KINDS = {  # of a matrix: its class, and its data's kind of element
    "float64": (6, 9), "float32": (7, 7), "int8": (8, 1), "uint8": (9, 2), "int16": (10, 3), "uint16": (11, 4),
    "int32": (12, 5), "uint32": (13, 6), "int64": (14, 12), "uint64": (15, 13),
}  # fmt: skip


def write_matlab(table: Table, path: Path) -> None:
    """Write ``<path>.mat``, and ``<path>.columns.csv`` with the names of each column in MATLAB and in the store.

    Raises:
        ExportError: a matrix is too large for version 5.
    """
    no_rows = table.read(0, 0)
    empty = _matrices(table, no_rows.keys, no_rows.flat)
    for name, rows in empty.items():
        _check_size(table, name, table.rows * rows.shape[1] * rows.dtype.itemsize)
    columns: dict[str, list[str]] = {}
    for column in table.columns:
        if table.arrays[column.array].shape:
            columns.setdefault(array_name(table, column.array), []).append(column.name)
    texts = [key for key, values in table.read(0, 0).keys.items() if values.dtype == object]
    named = [f"{array}_columns" for array in columns] + [f"{array}_names" for array in columns]
    shown = dict(zip(names := [*empty, *texts, *named, "caveats"], matlab_names(names), strict=True))
    cells = {shown["caveats"]: _cell(table.caveats)}
    cells |= {shown[key]: _cell(text or "" for block in table.blocks() for text in block.keys[key]) for key in texts}
    for array, of_array in columns.items():
        cells[shown[f"{array}_columns"]] = _cell(matlab_names(of_array))
        cells[shown[f"{array}_names"]] = _cell(of_array)
    file = path.with_name(f"{path.name}.mat")
    with file.open("wb") as stream:
        scipy.io.savemat(stream, cells, long_field_names=True, oned_as="column")
    laid_out = {name: _lay_out(file, shown[name], table.rows, rows, name == "mask") for name, rows in empty.items()}
    start = 0
    for block in table.blocks() if table.rows else ():
        for name, rows in _matrices(table, block.keys, block.flat).items():
            laid_out[name][start : start + len(rows)] = rows
        start += len(rows)
    with path.with_name(f"{path.name}.columns.csv").open("w", newline="", encoding="utf-8") as stream:
        lines = csv.writer(stream)
        lines.writerow(["variable", "column", "matlab", "name"])
        lines.writerows([shown[key.name], 1, shown[key.name], key.name] for key in table.keys)
        for array, of_array in columns.items():
            both = zip(matlab_names(of_array), of_array, strict=True)
            lines.writerows([shown[array], place, *pair] for place, pair in enumerate(both, 1))


def matlab_names(names: Sequence[str]) -> list[str]:
    """A valid and unique MATLAB identifier of at most 63 characters for each name."""
    identifiers: dict[str, None] = {}
    for name in names:
        valid = re.sub(r"[^A-Za-z0-9_]", "_", name)
        valid = valid if re.match("[A-Za-z]", valid) and valid not in _KEYWORDS else f"x{valid}"
        shown, number = valid[:_LONGEST], 1
        while shown in identifiers:
            number += 1
            shown = f"{valid[: _LONGEST - len(str(number)) - 1]}_{number}"
        identifiers[shown] = None
    return list(identifiers)


def _matrices(
    table: Table, of_keys: Mapping[str, np.ndarray], of_arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """(n, columns) of each numeric key and array of some rows; row numbers in 32 bits, the mask as 0 and 1."""
    keys = {key: values[:, None] for key, values in of_keys.items() if values.dtype != object}
    for key, values in keys.items():
        if values.dtype in (np.int64, np.bool_):
            keys[key] = values.astype(np.int32 if values.dtype == np.int64 else np.uint8)
    return keys | {array_name(table, name): rows for name, rows in of_arrays.items()}


def _check_size(table: Table, name: str, size: int) -> None:
    if size > LIMIT:
        raise ExportError(
            f"{table.session_id}/{table.name}: {name} is {size:,} bytes, and MATLAB's version 5 holds matrices of at "
            f"most {LIMIT:,}: take --format hdf5, which MATLAB reads with h5read, or fewer rows by --rate"
        )


def _cell(texts: Iterable[str]) -> np.ndarray:
    """(n, 1) of texts: a cell array."""
    listed = list(texts)
    cell = np.empty((len(listed), 1), object)
    cell[:, 0] = listed
    return cell


def _lay_out(file: Path, name: str, count: int, like: np.ndarray, is_logical: bool) -> np.ndarray:
    """Append a matrix of ``count`` rows to the file; returns its values as a memory map, to be filled."""
    kind, element = _KINDS[like.dtype.name]
    shape = (count, like.shape[1])
    size = math.prod(shape) * like.dtype.itemsize
    encoded = name.encode()
    head = struct.pack("<IIII", _UINT32, 8, kind | (_LOGICAL if is_logical else 0), 0)
    head += struct.pack("<IIii", _INT32, 8, *shape)
    head += struct.pack("<II", _INT8, len(encoded)) + encoded + b"\0" * (-len(encoded) % 8)
    head += struct.pack("<II", element, size)
    padding = -size % 8
    with file.open("ab") as stream:
        stream.write(struct.pack("<II", _MATRIX, len(head) + size + padding) + head)
        begin = stream.tell()
        stream.truncate(begin + size + padding)
    if not size:
        return np.empty(shape, like.dtype)
    return np.memmap(file, like.dtype, "r+", begin, shape, "F")
