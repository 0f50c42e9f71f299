"""Tables as HDF5: a file for each, a dataset for each array; texts are UTF-8, as h5py and hdf5r read them.

Names of columns are datasets below ``names``, because an attribute holds at most 64 kB.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from storyframes.export.npy_files import array_name, dimension_names, file_arrays
from storyframes.store.tables import Table


def write_hdf5(table: Table, path: Path) -> None:
    """Write ``<path>.h5``: (rows, …) datasets, their units and a sentence as attributes, names along dimensions."""
    text = h5py.string_dtype()
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
                    made = file.create_dataset(name, shape, text if values.dtype == object else values.dtype)
                    for note, value in zip(("about", "units"), about[name], strict=True):
                        if value:
                            made.attrs.create(note, value, dtype=text)
                    for place, dim in enumerate((str(table.axis), *dims.get(name, ()))):
                        made.dims[place].label = dim
                file[name][start : start + len(values)] = values
            start += len(next(iter(block.keys.values())))
        for array, along in dimension_names(table).items():
            for dim, names in along.items():
                file.create_dataset(f"names/{array}/{dim}", data=names, dtype=text)


def _storable(rows: np.ndarray, *, is_key: bool) -> np.ndarray:
    """The mask as 0 and 1, row numbers in 32 bits (R has no others without a package), no text as the empty one.

    A feature's own whole numbers stay as they are: 32 bits may not hold them.
    """
    if rows.dtype == bool:
        return rows.astype(np.uint8)
    if rows.dtype == object:
        return np.array([text or "" for text in rows], object)
    return rows.astype(np.int32) if is_key and rows.dtype == np.int64 else rows
