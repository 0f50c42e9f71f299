"""Reading files of annotations: the table of formats, and what the user says of their columns.

Plug-ins add formats under the entry point ``storyframes.importers``, each with the suffix of its files as its name.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from storyframes import PlugInError, PlugIns
from storyframes_labels.annotation_file import (
    NO_TIMES,
    Annotation,
    AnnotationFile,
    ImportFaultError,
    Tier,
    backwards,
    overlaps,
    without_empty,
)
from storyframes_labels.label_table import UNITS, SheetOptions, TimeColumns, read_label_table
from storyframes_labels.mapping import TIMES, Role, Target, parse_map
from storyframes_labels.programs.boris import is_boris, read_boris, read_old_boris
from storyframes_labels.programs.datavyu import is_datavyu, read_datavyu
from storyframes_labels.programs.elan import read_elan
from storyframes_labels.programs.elan_export import read_elan_export
from storyframes_labels.programs.nova import read_nova
from storyframes_labels.programs.praat import read_textgrid
from storyframes_labels.sheet import SHEETS, read_sheet
from tasks.study import UnusableFileError

READERS: dict[str, Callable[[Path], AnnotationFile]] = {
    ".eaf": read_elan,
    ".textgrid": read_textgrid,
    ".annotation": read_nova,
}
"""By suffix in small letters, the function that reads such a file of an annotation program."""
IMPORTERS = "storyframes.importers"
TABLES = (".csv", ".tsv", ".txt", *SHEETS)


def read_annotations(path: Path, options: SheetOptions | None = None) -> AnnotationFile:
    """The annotations at ``path``.

    Args:
        path: .eaf, .TextGrid, .annotation, or a sheet: .csv, .tsv, .txt, .xlsx.
        options: what the user says of a sheet; None where it is as usual.

    Raises:
        ImportFaultError: nothing reads its suffix, or it is not as a file of this format should be.
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
    if suffix in READERS:
        return READERS[suffix](path)
    try:
        if (name := suffix.removeprefix(".")) in PlugIns(IMPORTERS):
            return _read_by_plug_in(PlugIns(IMPORTERS)[name], path)
    except PlugInError as error:
        raise ImportFaultError(f"{path.name}: the plug-in that reads {suffix}: {error}") from None
    raise ImportFaultError(
        f"{path.name}: labels are read from .eaf (ELAN), .TextGrid (Praat), .annotation (NOVA) and sheets "
        f"({', '.join(TABLES)}), also BORIS's and Datavyu's; plug-ins read others (docs/extending.md)"
    )


def _read_by_plug_in(read: Callable[[Path], Iterable[Mapping[str, Any]]], path: Path) -> AnnotationFile:
    """The annotations that a plug-in's reader yields: mappings with the names of :class:`Annotation`'s fields."""
    known = {field.name for field in fields(Annotation)}
    annotations = []
    try:
        for number, row in enumerate(read(path), start=1):
            if unknown := [*row.keys() - known]:
                raise UnusableFileError(f"annotation {number} has {', '.join(unknown)}, which no annotation has")
            tier, _ = str(row["tier"]), row["value"]
            start_s, end_s = (None if row.get(name) is None else float(row[name]) for name in ("start_s", "end_s"))
            if (start_s is None) != (end_s is None) or not all(map(math.isfinite, (start_s or 0, end_s or 0))):
                raise UnusableFileError(
                    f"annotation {number} needs both start_s and end_s, in seconds, or none of them"
                )
            texts = {name: str(text) for name, text in row.items() if text is not None}  # a confidence of 0.0 is one
            made: dict[str, Any] = {"place": f"tier {tier!r}, annotation {number}", "value": "", **texts}
            annotations.append(Annotation(**made | {"tier": tier, "start_s": start_s, "end_s": end_s}))
    except UnusableFileError as error:
        raise ImportFaultError(f"{path.name}: {error}") from None
    except OSError:
        raise
    except Exception as error:  # a plug-in's may be any, and its text may quote a value
        raise ImportFaultError(f"{path.name}: its reader cannot read it ({type(error).__name__})") from None
    kept, empty = without_empty(annotations)
    tiers = tuple(map(Tier, dict.fromkeys(annotation.tier for annotation in annotations)))
    unit = NO_TIMES if all(annotation.start_s is None for annotation in kept) else "seconds"
    return AnnotationFile(path.name, unit, tiers, kept, (*empty, *overlaps(kept)), backwards(kept))


def _read_table(path: Path, options: SheetOptions) -> AnnotationFile:
    """A sheet, or an export as a sheet of a program, unless the user says what its columns are."""
    is_said = bool(options.roles or options.times or options.rate)
    if not is_said and path.suffix.lower() not in SHEETS:
        if is_datavyu(path):
            return read_datavyu(path)
        if old := read_old_boris(path):
            return read_boris(old, path)
        if export := read_elan_export(path):
            return export
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
