"""Labels of a scheme that is a curve: a file of moments for each session and rater, named in the table curves."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from storyframes.store import scratch_folder, write_atomically
from storyframes_labels.annotation_file import ImportFaultError
from tasks.study import CurveSamples, Scheme, Table, UnusableFileError

FOLDER = "curves"
_ROW = re.compile(r".*?: row (\d+), (?:time_s|value)")
_OWNER = ("session_id", "scheme", "rater_id", "track")


@dataclass(frozen=True)
class LabelRow:
    """A row of the table labels, or a moment of a curve as such a row.

    Attributes:
        cells: by column.
        place: the file and the row or annotation that it comes from.
    """

    cells: Mapping[str, str]
    place: str


@dataclass(frozen=True)
class CurveFile:
    """A curve to be written.

    Attributes:
        row: of the table curves.
        content: of its file.
        places: where each of its moments comes from.
    """

    row: Mapping[str, str]
    content: bytes
    places: Sequence[str]

    @property
    def moments(self) -> int:
        """How many there are."""
        return len(self.places)


def curve_files(rows: Sequence[LabelRow]) -> list[CurveFile]:
    """The curves of these rows, each the value of a moment.

    Raises:
        ImportFaultError: a row is no moment, or a curve is of several persons.
    """
    moments: dict[tuple[str, ...], list[LabelRow]] = {}
    for moment in rows:
        row = moment.cells
        if not row["start_s"] or row["start_s"] != row["end_s"]:
            raise ImportFaultError(
                f"{row['scheme']} is a curve, whose values are of moments: name their times with --time, or give --rate"
            )
        moments.setdefault(tuple(row.get(name, "") for name in _OWNER), []).append(moment)
    files = []
    stems: set[str] = set()
    for owner, of_owner in moments.items():
        values = [moment.cells for moment in of_owner]
        named = {name: cell for name, cell in zip(_OWNER, owner, strict=True) if cell}
        if len({value.get("person_id", "") for value in values}) > 1:
            raise ImportFaultError(
                f"{named['scheme']} is a curve, and that of {named['session_id']} names several persons: the table "
                "curves has none: give each person's a scheme of its own"
            )
        stem = "_".join(named.values())
        while stem.casefold() in stems:  # session s, scheme a_b and session s_a, scheme b
            stem += "_"
        stems.add(stem.casefold())
        path = f"{FOLDER}/{stem}.csv"
        content = Table.csv_bytes(("time_s", "value"), [(value["start_s"], value["value"]) for value in values])
        files.append(CurveFile(named | {"path": path}, content, [moment.place for moment in of_owner]))
    return files


def check_curves(root: Path, files: Sequence[CurveFile], schemes: Mapping[str, Scheme]) -> None:
    """Check that the files are curves of their schemes, and that none is there already.

    Raises:
        ImportFaultError: naming the file, the row and the rule.
    """
    if files and (root / FOLDER).is_symlink():
        raise ImportFaultError(f"{FOLDER}: is a link, which may leave the study: make it a folder")
    for file in files:
        if os.path.lexists(root / file.row["path"]):
            raise ImportFaultError(f"{file.row['path']}: is there already; nothing is written")
    with scratch_folder("curves") as folder:
        for file in files:
            path = folder / Path(file.row["path"]).name
            path.write_bytes(file.content)
            try:
                CurveSamples.read(path, schemes[file.row["scheme"]])
            except UnusableFileError as error:
                raise ImportFaultError(f"{_in_its_file(str(error), file)}; nothing is written") from None


def _in_its_file(fault: str, file: CurveFile) -> str:
    """A fault of a curve's file with the place in the imported file that its row comes from."""
    if not (row := _ROW.search(fault)):
        return fault
    return f"{file.places[int(row[1]) - 2]}{fault[row.end() :]}"  # row 1 is the header


def write_curves(root: Path, files: Sequence[CurveFile]) -> None:
    """Write the files into the study's folder ``curves``.

    Raises:
        OSError: one cannot be written.
    """
    for file in files:
        (root / FOLDER).mkdir(exist_ok=True)
        write_atomically(root / file.row["path"], file.content)
