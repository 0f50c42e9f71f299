"""The formats that features are exported to, and what each needs installed."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from storyframes.installation import install_line
from storyframes.store.layout import StoreError
from storyframes.store.tables import Table

Write = Callable[[Table, Path], None]
"""Writes a table into files whose names begin with the path."""


class ExportError(StoreError):
    """Features cannot be exported as requested; the message says what and why."""


class Format(StrEnum):
    """The format of the files; each session has a folder, with files for each table."""

    PARQUET = "parquet"
    CSV = "csv"
    NPY = "npy"
    HDF5 = "hdf5"
    MAT = "mat"


_WRITERS = {
    Format.PARQUET: ("arrow_files", "write_parquet", ""),
    Format.CSV: ("arrow_files", "write_csv", ""),
    Format.NPY: ("array_files", "write_npy", ""),
    Format.HDF5: ("array_files", "write_hdf5", "h5py"),
    Format.MAT: ("matlab_files", "write_matlab", "scipy"),
}


def writer(to: Format) -> Write:
    """The function that writes tables in a format.

    Raises:
        ExportError: it needs a package that is not installed.
    """
    module, name, needed = _WRITERS[to]
    if needed and find_spec(needed) is None:
        raise ExportError(f"exporting to {to} needs {needed}: {install_line('export')}")
    write: Write = getattr(import_module(f"storyframes.export.{module}"), name)
    return write
