"""The formats that features are exported to, and what each needs installed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from storyframes import Axis, PlugInError, PlugIns, install_line
from storyframes.store import Pooling, StoreError, Table

Write = Callable[[Table, Path], None]
"""Writes a table into files whose names begin with the path."""

_GROUP = "storyframes.export_formats"  # of entry points: formats that plug-ins add


class ExportError(StoreError):
    """Features cannot be exported as requested; the message says what and why."""


class Format(StrEnum):
    """The format of the files; each session has a folder, with files for each table."""

    PARQUET = "parquet"
    CSV = "csv"
    NPY = "npy"
    HDF5 = "hdf5"
    MAT = "mat"
    DATASETS = "datasets"
    BIDS = "bids"


_OF_CLIPS = ("mmsa", "webdataset")  # alone (storyframes_release.export.clip_formats)
OF_ANNOTATIONS = ("eaf", "textgrid")  # alone (storyframes_release.annotations.run)
NWB = "nwb"  # alone (storyframes_release.nwb.run)
_WRITERS = {
    Format.PARQUET: ("arrow_files", "write_parquet", ""),
    Format.CSV: ("arrow_files", "write_csv", ""),
    Format.NPY: ("array_files", "write_npy", ""),
    Format.HDF5: ("array_files", "write_hdf5", "h5py"),
    Format.MAT: ("matlab_files", "write_matlab", "scipy"),
    Format.DATASETS: ("arrow_files", "write_named_sessions", ""),
    Format.BIDS: ("bids_files", "write_bids", ""),
}


def formats() -> list[str]:
    """The names of all formats: the project's own, then those of plug-ins."""
    own = (*Format, *_OF_CLIPS, *OF_ANNOTATIONS, NWB)
    return [*own, *(name for name in PlugIns(_GROUP) if name not in own)]


def writer(to: str) -> Write:
    """The function that writes tables in a format.

    Raises:
        ExportError: there is no such format, its plug-in cannot be loaded, or it needs a package that is not installed.
    """
    if to not in set(Format):
        return _plug_in_writer(to)
    module, name, needed = _WRITERS[Format(to)]
    if needed and find_spec(needed) is None:
        raise ExportError(f"exporting to {to} needs {needed}: {install_line('files', 'storyframes-release')}")
    write: Write = getattr(import_module(f"storyframes_release.export.{module}"), name)
    return write


def about_format(to: str) -> str:
    """What a plug-in says of its files: the documentation of its writer."""
    return inspect.getdoc(_plug_in_writer(to)) or f"Files of the format {to}."


def _plug_in_writer(to: str) -> Write:
    try:
        if to not in PlugIns(_GROUP):
            raise ExportError(f"--format {to!r}: there are {', '.join(formats())}")
        write: Write = PlugIns(_GROUP)[to]
    except PlugInError as error:
        raise ExportError(f"--format {to}: {error}") from None
    return write


def check_pooling(per: Axis | str | None, functionals: Sequence[str]) -> Axis | None:
    """What rows are pooled over; None where they are not.

    Raises:
        ExportError: it is neither words nor utterances, or there are no such functionals, or nothing to compute of.
    """
    if per is not None and per not in Pooling.OVER:
        raise ExportError(f"--per {per!r}: there are {', '.join(Pooling.OVER)}")
    if per is None and tuple(functionals) != Pooling.MEAN:
        raise ExportError("--functionals are computed over words or utterances: give --per word as well")
    try:
        Pooling.check_functionals(functionals)
    except (TypeError, ValueError) as error:
        raise ExportError(str(error)) from None
    return None if per is None else Axis(per)
