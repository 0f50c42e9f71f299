"""Recordings of several files: which files are parts of one recording by their names, and how these are joined.

Tables that are there already are right: what they join is joined without a question, what they name apart stays apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from tasks.media.container import RecordingError, file_names
from tasks.media.video_header import Streams, read_streams
from tasks.study.first_tables.recording_names import continues
from tasks.study.labels import listed

# Names of files that are parts of one recording: a camera of GoPro begins a new file at 4 GB (GOPR0001, GP010001, ...
# and GX010001, GX020001, ...), and people write _part1, -pt2, "Teil 3".
_PARTS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<head>)GOPR(?P<tail>\d{4})",
        r"(?P<head>)GP(?P<number>\d{2})(?P<tail>\d{4})",
        r"(?P<head>G[HX])(?P<number>\d{2})(?P<tail>\d{4})",
        r"(?P<head>.+?)[ _.-]+(?:part|pt|teil)[ _.-]*(?P<number>\d{1,2})(?P<tail>.*)",
    )
]
_WRITTEN = _PARTS[-1]


def with_parts_joined(
    root: Path,
    paths: Sequence[PurePosixPath],
    headers: dict[PurePosixPath, Streams],
    named: Mapping[str, str],
    join: Callable[[Sequence[str]], bool],
    remarks: list[str],
) -> list[PurePosixPath]:
    """The recordings, with those as one that are parts of one by their names; not those that the tables name apart.

    Further parts of a recording that the tables join are left out.

    Args:
        headers: of the recordings, by their paths; those that are joined are replaced.
        named: the session of files and joined files that the tables name, about which nothing is asked.
        join: whether these joined files are one recording each.
        remarks: what should be checked is added here.
    """
    paths = _without_further_parts(paths, headers, named, remarks)
    joined: dict[PurePosixPath, list[PurePosixPath]] = {}
    opened: dict[PurePosixPath, Streams] = {}
    for parts in _proposed_parts(path for path in paths if path in headers):
        whole = parts[0].with_name("+".join(part.name for part in parts))
        if str(whole) not in named and any(str(part) in named for part in parts):
            if new := [str(part) for part in parts if str(part) not in named]:
                remarks.append(
                    f"by their names further parts of a recording, and not joined: {listed(new)}: {whole} in "
                    "one row joins them"
                )
            continue
        try:
            opened[whole] = read_streams(root / whole)
            joined[whole] = parts
        except RecordingError as error:
            remarks.append(f"{whole} is not one recording: {error}")
    asked = [str(whole) for whole in joined if str(whole) not in named]
    if asked and not join(asked):
        names = listed(asked)
        remarks.append(f"by their names parts of one recording, and not joined: {names}: --join joins them")
        joined = {whole: parts for whole, parts in joined.items() if str(whole) in named}
    elif asked:
        remarks.append(
            f"by their names parts of one recording, and joined: {listed(asked)}: a row for each file keeps them apart"
        )
    whole_of = {part: whole for whole, parts in joined.items() for part in parts}
    for part, whole in whole_of.items():
        headers[whole] = opened[whole]
        del headers[part]
    return list(dict.fromkeys(whole_of.get(path, path) for path in paths))


def leave_out_singles(
    column: str,
    files: dict[PurePosixPath, str],
    singles: Sequence[str],
    known: Collection[str],
    remarks: list[str],
) -> None:
    """Leave out what belongs to one file of a recording in several: its times begin anew, or it ends early.

    Args:
        files: names, by path.
        singles: the names of the files of recordings in several.
        known: what the tables name stays.
    """
    left_out = [
        path
        for path, key in files.items()
        if not parts_of(path) and str(path) not in known and any(continues(key, single) for single in singles)
    ]
    for path in left_out:
        del files[path]
    if left_out:
        remarks.append(
            f"{column}: of single files of a recording in several, whose times begin anew, left out: "
            f"{listed([*map(str, left_out)])}: name one file for the whole recording in the table"
        )


def parts_of(path: PurePosixPath) -> list[PurePosixPath]:
    """The files of a recording in several; of another one none."""
    names = file_names(path.name)
    return [path.parent / name for name in names] if len(names) > 1 else []


def name_of_parts(stems: Sequence[str]) -> str:
    """What a recording of several files is called: its first file's name, without _part1."""
    match = _WRITTEN.fullmatch(stems[0])
    return match["head"] + match["tail"] if match else stems[0]


def _proposed_parts(paths: Iterable[PurePosixPath]) -> list[list[PurePosixPath]]:
    """Files that by their names are parts of one recording, in their order: numbered from 0 or 1 without a gap."""
    groups: dict[tuple[str, ...], dict[int, PurePosixPath]] = {}
    for path in paths:
        if part := _part_of(path):
            groups.setdefault(part[0], {})[part[1]] = path
    return [
        [parts[number] for number in sorted(parts)]
        for parts in groups.values()
        if len(parts) > 1 and sorted(parts) in (list(range(len(parts))), list(range(1, len(parts) + 1)))
    ]


def _without_further_parts(
    paths: Sequence[PurePosixPath],
    headers: dict[PurePosixPath, Streams],
    named: Mapping[str, str],
    remarks: list[str],
) -> list[PurePosixPath]:
    """The files without those that no table names and that by their names are further parts of what a table joins."""
    cells = {
        part[0]: cell for cell in named if (files := parts_of(PurePosixPath(cell))) and (part := _part_of(files[0]))
    }
    further: dict[str, list[tuple[int, PurePosixPath]]] = {}
    for path in paths:
        if path in headers and str(path) not in named and (part := _part_of(path)) and (cell := cells.get(part[0])):
            further.setdefault(cell, []).append((part[1], path))
    left_out = set()
    for cell, numbered in further.items():
        parts = [path for _, path in sorted(numbered)]
        new_cell = "+".join([cell, *(part.name for part in parts)])
        remarks.append(
            f"by their names further parts of a recording, left out: {listed([*map(str, parts)])}: write "
            f"{new_cell} in place of {cell} in the row of session {named[cell]}"
        )
        left_out.update(parts)
    for path in left_out:
        del headers[path]
    return [path for path in paths if path not in left_out]


def _part_of(path: PurePosixPath) -> tuple[tuple[str, ...], int] | None:
    """What the names of all parts of a recording have in common, and the number of this part; None for another name."""
    match = next((match for pattern in _PARTS if (match := pattern.fullmatch(path.stem))), None)
    if match is None:
        return None
    alike = str(path.parent), match["head"].lower(), match["tail"].lower(), path.suffix.lower()
    return alike, int(match.groupdict().get("number") or 0)
