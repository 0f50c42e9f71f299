"""Reading a file of annotations, by its suffix."""

from __future__ import annotations

from pathlib import Path

from tasks.study.importers.annotation_file import AnnotationFile, ImportFaultError
from tasks.study.importers.elan import read_elan
from tasks.study.importers.label_table import UNITS, TimeColumns, read_label_table
from tasks.study.importers.praat import read_textgrid


def read_annotations(path: Path, unit: str | None = None, time_columns: TimeColumns | None = None) -> AnnotationFile:
    """The annotations at ``path``.

    Args:
        path: .eaf, .TextGrid or .csv.
        unit: of a CSV's times: s or ms; None where nothing is said.
        time_columns: of a CSV, which columns are times; None where they have the names that are known.

    Raises:
        ImportFaultError: it is of no such kind, or not as its kind should be.
        OSError: it cannot be read.
    """
    suffix = path.suffix.lower()
    if unit is not None and unit not in UNITS:
        raise ImportFaultError(f"--unit {unit}: there are {' and '.join(UNITS)}")
    if unit is not None and suffix != ".csv":
        raise ImportFaultError(f"{path.name}: its format says the unit of its times: leave --unit out")
    if time_columns is not None and suffix != ".csv":
        raise ImportFaultError(f"{path.name}: has no columns: leave --start, --end and --duration out")
    match suffix:
        case ".eaf":
            return read_elan(path)
        case ".textgrid":
            return read_textgrid(path)
        case ".csv":
            path.stat()  # absent: an error of the system, not a fault of the table
            return read_label_table(path, unit, time_columns)
    raise ImportFaultError(f"{path.name}: labels are read from .eaf (ELAN), .TextGrid (Praat) and .csv")
