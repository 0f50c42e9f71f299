"""Tables as NumPy and HDF5 files: an array for each array of the store, with its shape.

NumPy files are in a folder for each table, with the names along dimensions in ``names.json``. An HDF5 file has a
dataset for each array, and these names in datasets below ``names``, with the columns' units where these differ, because
an attribute holds at most 64 kB.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from storyframes.store import Table

_GROUP = "names"  # of all names along dimensions, in HDF5
NAMES = f"{_GROUP}.json"


def write_npy(table: Table, path: Path) -> None:
    """Write ``<path>/<array>.npy``, and ``names.json``: the names along each array's dimensions."""
    path.mkdir()
    keys = [key for key, values in table.read(0, 0).keys.items() if values.dtype == object]
    texts = {key: max([1, *map(len, _different_texts(table, key))]) for key in keys}
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
    """Keys and arrays under unique names: an array called like a key, or ``names``, is ``<array>.<array>``."""
    return keys | {array_name(table, name): rows for name, rows in arrays.items()}


def array_name(table: Table, array: str) -> str:
    """The name of an array beside the keys and the names along dimensions."""
    return f"{array}.{array}" if array in {_GROUP, *(key.name for key in table.keys)} else array


def dimension_names(table: Table) -> dict[str, dict[str, list[str]]]:
    """By array and dimension, the names along it."""
    named_arrays: dict[str, dict[str, list[str]]] = {}
    for array, spec in table.arrays.items():
        named = {dim: list(names) for dim, names in zip(spec.dims[-1:], (spec.columns,), strict=False) if names}
        named |= {dim: list(names) for dim, names in zip(spec.dims[-2:-1], (spec.joints,), strict=False) if names}
        if named:
            named_arrays[array_name(table, array)] = named
    return named_arrays


def _different_texts(table: Table, key: str) -> set[str]:
    """The different texts of a key, a missing one as ""."""
    return {text or "" for block in table.blocks() for text in block.keys[key]}


def write_hdf5(table: Table, path: Path) -> None:
    """Write ``<path>.h5``: (rows, …) datasets with units and descriptions as attributes, names along dimensions."""
    import h5py  # of the extra storyframes-release[files]

    text = h5py.string_dtype()
    keys = [key for key, values in table.read(0, 0).keys.items() if values.dtype == object]
    texts = {key: _text_type(_different_texts(table, key)) for key in keys}
    about = {key.name: (key.about, key.unit) for key in table.keys}
    about |= {array_name(table, name): (spec.about, spec.units) for name, spec in table.arrays.items()}
    dims = {array_name(table, name): spec.dims for name, spec in table.arrays.items()}
    with h5py.File(path.with_name(f"{path.name}.h5"), "w") as file:
        notes = {"session_id": table.session_id, "feature": table.feature, "row": str(table.axis)}
        for name, value in (notes | {"caveats": "; ".join(table.caveats)}).items():
            file.attrs.create(name, value, dtype=text)
        start = 0
        for block in table.blocks():
            for name, rows in file_arrays(table, block.keys, block.arrays).items():
                values = _storable(rows, is_key=name in block.keys)
                if name not in file:
                    shape = (table.rows, *values.shape[1:])
                    made = file.create_dataset(name, shape, texts.get(name, values.dtype))
                    for note, value in zip(("about", "units"), about[name], strict=True):
                        if value:
                            made.attrs.create(note, value, dtype=text)
                    for place, dim in enumerate((str(table.axis), *dims.get(name, ()))):
                        made.dims[place].label = dim
                file[name][start : start + len(values)] = values.astype(file[name].dtype)
            start += len(next(iter(block.keys.values())))
        for array, along in dimension_names(table).items():
            for dim, names in along.items():
                _write_texts(file, f"{_GROUP}/{array}/{dim}", names)
        for array, spec in table.arrays.items():
            units = [] if spec.units else [table.unit(column) for column in spec.columns]
            if any(units):
                _write_texts(file, f"{_GROUP}/{array_name(table, array)}/{spec.dims[-1]}_units", units)


def _write_texts(file: Any, name: str, texts: Collection[str]) -> None:
    file.create_dataset(name, data=[text.encode() for text in texts], dtype=_text_type(texts))


def _text_type(texts: Collection[str]) -> np.dtype:
    """The dtype of texts of fixed length, in ASCII where that suffices: Octave reads no others."""
    import h5py

    longest = max([1, *(len(text.encode()) for text in texts)])
    return h5py.string_dtype("ascii" if all(map(str.isascii, texts)) else "utf-8", longest)


def _storable(rows: np.ndarray, *, is_key: bool) -> np.ndarray:
    """The mask as 0 and 1, row numbers in 32 bits (R reads no others without a package), texts as bytes.

    A missing text is "". A feature's own whole numbers stay as they are: 32 bits may be too few for them.
    """
    if rows.dtype == bool:
        return rows.astype(np.uint8)
    if rows.dtype == object:
        return np.array([(text or "").encode() for text in rows], bytes)
    return rows.astype(np.int32) if is_key and rows.dtype == np.int64 else rows
