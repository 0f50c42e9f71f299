"""Tables as NumPy files: a folder for each, in it a file for each array, with the shape that it has in the store."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from storyframes.store.tables import Table

_GROUP = "names"  # of all names along dimensions, in HDF5
NAMES = f"{_GROUP}.json"


def write_npy(table: Table, path: Path) -> None:
    """Write ``<path>/<array>.npy``, and ``names.json``: the names along each array's dimensions."""
    path.mkdir()
    texts = {key: _longest(table, key) for key, values in table.read(0, 0).keys.items() if values.dtype == object}
    with ExitStack() as files:
        opened: dict[str, BinaryIO] = {}
        for block in table.blocks():
            for name, rows in file_arrays(table, block.keys, block.arrays).items():
                values = np.array([text or "" for text in rows], f"<U{texts[name]}") if name in texts else rows
                if name not in opened:
                    opened[name] = files.enter_context((path / f"{name}.npy").open("wb"))
                    shape = (table.rows, *values.shape[1:])
                    header: dict[str, Any] = {"descr": values.dtype.str, "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(opened[name], header)
                opened[name].write(np.ascontiguousarray(values).tobytes())
    (path / NAMES).write_text(json.dumps(dimension_names(table), indent=1, ensure_ascii=False) + "\n")


def file_arrays(table: Table, keys: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Keys and arrays under names of their own: one called like a key, or ``names``, is ``<array>.<array>``."""
    return keys | {array_name(table, name): rows for name, rows in arrays.items()}


def array_name(table: Table, array: str) -> str:
    """What an array is called beside the keys and the names along dimensions."""
    return f"{array}.{array}" if array in {_GROUP, *(key.name for key in table.keys)} else array


def dimension_names(table: Table) -> dict[str, dict[str, list[str]]]:
    """By array and dimension, the names along it."""
    found: dict[str, dict[str, list[str]]] = {}
    for array, spec in table.arrays.items():
        named = {dim: list(names) for dim, names in zip(spec.dims[-1:], (spec.columns,), strict=False) if names}
        named |= {dim: list(names) for dim, names in zip(spec.dims[-2:-1], (spec.joints,), strict=False) if names}
        if named:
            found[array_name(table, array)] = named
    return found


def _longest(table: Table, key: str) -> int:
    """Characters of the longest text of a key."""
    return max([1, *(len(text or "") for block in table.blocks() for text in block.keys[key])])
