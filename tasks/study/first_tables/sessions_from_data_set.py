"""Writing the first tables of a study from a data set that a plug-in reads; its files stay where they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from storyframes.store.storage.files import write_atomically
from tasks.media.video_header import Streams
from tasks.models.digests import name_as_text
from tasks.study.csv_text import csv_bytes
from tasks.study.first_tables.first_settings import first_settings
from tasks.study.first_tables.recording_names import FilesError
from tasks.study.first_tables.sessions_from_files import Made, check_tables, unusable_recordings
from tasks.study.labels import listed
from tasks.study.load import SETTINGS_FILE
from tasks.study.rows import TABLES

_NAMED = 5  # files that a message lists

Rows: TypeAlias = Mapping[str, Sequence[Mapping[str, str]]]
OpenRecordings: TypeAlias = Callable[
    [Sequence[PurePosixPath]], tuple[dict[PurePosixPath, str], dict[PurePosixPath, str]]
]
"""Opens recordings of the data set: the column of each (video or audio), and why others cannot be used."""
ReadDataSet: TypeAlias = Callable[[Path, OpenRecordings], tuple[Rows, Mapping[str, str], Sequence[str]]]
"""What an entry point ``storyframes.data_sets`` is: gives the rows of each table, what is set aside, and remarks."""


def make_study_of(root: Path, data: Path, read: ReadDataSet) -> Made:
    """Write the tables of a study, and a configuration whose ``[recording] root`` is the data set.

    Args:
        root: the study's folder, which has no table yet.
        data: the data set's folder; it is only read.

    Raises:
        FilesError: the study has tables or a configuration, or no recording can be used.
        UnusableFileError: ``read`` refuses the data set.
        OSError: a table cannot be written.
    """
    for name in (SETTINGS_FILE, *(f"{table}{suffix}" for table in TABLES for suffix in (".csv", ".parquet"))):
        if (root / name).exists():
            raise FilesError(f"{root / name} is there already: a data set makes a new study, so give another folder")
    try:
        as_toml = json.dumps(str(data.resolve()).encode().decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
    except UnicodeEncodeError:
        raise FilesError(
            f"{name_as_text(data)}: the path is not UTF-8, so storyframes.toml cannot name it: rename the folder"
        ) from None
    headers: dict[PurePosixPath, Streams] = {}

    def open_recordings(paths: Sequence[PurePosixPath]) -> tuple[dict[PurePosixPath, str], dict[PurePosixPath, str]]:
        why = unusable_recordings(data, paths, headers, ())
        return {path: "video" if header.has_video else "audio" for path, header in headers.items()}, why

    rows, set_aside, remarks = read(data, open_recordings)
    aside = tuple(f"{name}: {why}" for name, why in set_aside.items())
    if not rows.get("sessions"):
        raise FilesError(f"no recording in {data} can be used\n{listed(aside, _NAMED, chr(10))}")
    tables = {f"{name}.csv": _content(of_table) for name, of_table in rows.items() if of_table}
    check_tables(tables, rows["sessions"])
    settings = first_settings(list(headers.values()), [*rows["sessions"], *rows.get("tracks", ())])
    settings += f"\n[recording]\n# The data set, in which the files stay.\nroot = {as_toml}\n"
    write_atomically(root / SETTINGS_FILE, settings.encode())
    for name in sorted(tables, key=lambda name: name == "sessions.csv"):  # last: without them there is no study
        write_atomically(root / name, tables[name])
    return Made(
        len(rows["sessions"]),
        len({row["participant_id"] for row in rows["sessions"]}),
        tuple(dict.fromkeys(remarks)),
        len(rows.get("tracks", ())),
        has_settings=True,
        set_aside=aside,
        labels=len(rows.get("labels", ())),
    )


def _content(rows: Sequence[Mapping[str, str]]) -> bytes:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return csv_bytes(columns, ([row.get(name, "") for name in columns] for row in rows))
