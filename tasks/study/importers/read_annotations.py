"""Reading files of annotations: the table of formats, and what the user says of their columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tasks.study.importers.annotation_file import AnnotationFile, ImportFaultError
from tasks.study.importers.boris import is_boris, read_boris, read_old_boris
from tasks.study.importers.datavyu import is_datavyu, read_datavyu
from tasks.study.importers.elan import read_elan
from tasks.study.importers.label_table import UNITS, SheetOptions, TimeColumns, read_label_table
from tasks.study.importers.mapping import TIMES, Role, Target, parse_map
from tasks.study.importers.nova import read_nova
from tasks.study.importers.praat import read_textgrid
from tasks.study.importers.sheet import SHEETS, read_sheet

READERS: dict[str, Callable[[Path], AnnotationFile]] = {
    ".eaf": read_elan,
    ".textgrid": read_textgrid,
    ".annotation": read_nova,
}
"""By suffix in small letters, the function that reads such a file of an annotation program."""
TABLES = (".csv", ".tsv", ".txt", *SHEETS)


def read_annotations(path: Path, options: SheetOptions | None = None) -> AnnotationFile:
    """The annotations at ``path``.

    Args:
        path: .eaf, .TextGrid, .annotation, or a sheet: .csv, .tsv, .txt, .xlsx.
        options: what the user says of a sheet; None where it is as usual.

    Raises:
        ImportFaultError: it has another suffix, or is not as a file of this format should be.
        OSError: it cannot be read.
    """
    suffix, options = path.suffix.lower(), options or SheetOptions()
    if options.unit is not None and options.unit not in UNITS:
        raise ImportFaultError(f"--unit {options.unit}: there are {' and '.join(UNITS)}")
    if suffix in TABLES:
        return _read_table(path, options)
    if options.unit is not None:
        raise ImportFaultError(f"{path.name}: its format says the unit of its times: leave --unit out")
    if options != SheetOptions():
        raise ImportFaultError(
            f"{path.name}: has no columns: leave --start, --end, --duration, --time, --rate, --sheet and @roles out"
        )
    if suffix not in READERS:
        raise ImportFaultError(
            f"{path.name}: labels are read from .eaf (ELAN), .TextGrid (Praat), .annotation (NOVA) and sheets "
            f"({', '.join(TABLES)}), also BORIS's and Datavyu's"
        )
    return READERS[suffix](path)


def _read_table(path: Path, options: SheetOptions) -> AnnotationFile:
    """A sheet, or an export as a sheet of a program, unless the user says what its columns are."""
    is_said = bool(options.roles or options.times or options.rate)
    if not is_said and path.suffix.lower() not in SHEETS:
        if is_datavyu(path):
            return read_datavyu(path)
        if old := read_old_boris(path):
            return read_boris(old, path)
    table = read_sheet(path, options.sheet)
    return read_boris(table, path) if not is_said and is_boris(table) else read_label_table(table, path, options)


def read_all(
    paths: Sequence[Path],
    pairs: Sequence[str],
    times: Mapping[Role, str | None],
    *,
    unit: str | None = None,
    rate: float | None = None,
    sheet: str | None = None,
) -> tuple[list[AnnotationFile], dict[str, Target]]:
    """The files, and the targets of their tiers.

    Args:
        paths: of the files.
        pairs: as ``--map`` has them.
        times: the columns that are times, by role, which ``pairs`` may name as well; None where the user names none.
        unit, rate, sheet: see :class:`SheetOptions`.

    Raises:
        ImportFaultError: a file, or what is said of it, is wrong.
        OSError: a file cannot be read.
    """
    targets, roles = parse_map(pairs)
    columns = {role: column for role, column in times.items() if column}
    columns |= {role: column for column, role in roles.items()}
    start, end, duration, moment = (columns.get(role) or "" for role in TIMES)
    said = TimeColumns(start, end, duration, moment)
    options = SheetOptions(unit, said if said.names else None, roles, rate, sheet)
    files = [read_annotations(path, options) for path in paths]
    whole = [os.path.abspath(path) for path in paths]
    if len({*map(os.path.dirname, whole)}) > 1:  # their folders may distinguish them, or say the session
        common = os.path.commonpath(whole)
        files = [replace(file, name=os.path.relpath(path, common)) for file, path in zip(files, whole, strict=True)]
    return files, targets
