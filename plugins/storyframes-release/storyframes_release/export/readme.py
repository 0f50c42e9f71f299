"""The result of an export and its README: what each file is, how it is opened, and the caveats of its values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import storyframes
from storyframes import STORIES, Axis
from storyframes_release.export.formats import Format, about_format
from storyframes_release.export.whole_folder import Described

_OPENED = {
    Format.PARQUET: """
`<session>/<feature>.parquet` is a table. pandas: `pandas.read_parquet(file)`; polars: `polars.read_parquet(file)`;
R: `arrow::read_parquet(file)`; MATLAB: `parquetread(file)`. Units are in the metadata of each column.
""",
    Format.CSV: """
`<session>/<feature>.csv` is a table with names in its first line. Numbers have as many digits as bring the same number
back; missing ones are `NaN`; `mask` is 1 or 0. pandas: `pandas.read_csv(file)`; R: `read.csv(file, check.names = F)`;
MATLAB: `readtable(file)`.
""",
    Format.NPY: """
`<session>/<feature>/<array>.npy` is an array: `numpy.load(file)`. `names.json` beside it has the names along its
dimensions. Rows of all arrays in a folder are the same rows.
""",
    Format.HDF5: """
`<session>/<feature>.h5` has a dataset for each array, and the names along its dimensions in `names/<array>/<dim>`.
Units are the array's attribute `units`, or where its columns have different ones in `names/<array>/<dim>_units`.
Python: `h5py.File(file)["values"][:]`. R: `hdf5r::H5File$new(file, "r")[["values"]][, ]`, and MATLAB:
`h5read(file, "/values")`, both with the dimensions in reverse order (columns, rows). `mask` is 1 or 0.
""",
    Format.MAT: """
`<session>/<feature>.mat` has a matrix for each array; one with more dimensions is (rows, all others). MATLAB:
`s = load(file); t = array2table(s.values, 'VariableNames', s.values_columns);`. Names in MATLAB have at most 63
letters, digits and `_`, and are no words of the language: `values_names`, and `<feature>.columns.csv`, have what each
is called in the store.
""",
    Format.BIDS: """
This folder is a BIDS derivative data set: `sub-*/[ses-*/]beh/*_desc-<feature>_features.tsv.gz` is a table without a
header, and the JSON file beside it names its columns, with their units, the rate of its rows (`n/a` where they are not
even: the column `time` has the true times) and the first row's time. `n/a` is what is missing, and every value of a row
whose `mask` is 0. pandas: `pandas.read_csv(file, sep="\\t", names=sidecar["Columns"], na_values="n/a")`. BIDS has no
suffix for such tables yet, so `.bidsignore` lists them.
""",
    Format.DATASETS: """
`datasets.load_dataset(folder, "openface", split="train", streaming=True)`, where the folder is this one: each feature
is a configuration, and each of its rows begins with its `session_id`. Splits are those of the clip index; sessions
without clips are in `unassigned`. Labels are lost; units and caveats are in the Parquet files and below only.
""",
}
_STORED_ROWS = """
Rows are those of the feature store. A feature with several kinds of row has a file for each, and the kind in its name
(`glove.frame`: which word each frame has).
"""
_GRID_ROWS = """
Rows are {rate:g} points a second from each session's second 0 to the end of its own frames (without a video: of the
last of its features); so the same row of all files of a session is the same moment. Each has the values of the stored
row nearest to it; where none is near, values are missing and `mask` is false. Nothing is interpolated or averaged.
Arrays without times (story texts, everybody's poses) are left out.
"""
_POOLED_ROWS = """
Rows are {per}s, with their times. Features of frames and of sound have, of each column, {functionals} over the rows
during the {per}: those whose mask is true, and that have a value; a row counts for each {per} with which it shares more
than 10 microseconds. Where there is none, values are missing and `mask` is false. `std` is of the rows themselves.
"""
_MASK = """
A row whose `mask` is false is not a measurement. Its values are those of the store: missing (NaN), or a value that must
not be used, such as the last position of a face that was lost. So use only the rows whose mask is true. Such a row may
lack single values, which are NaN: the F0 of sound that is not voiced. Missing values of whole numbers are the number in
the column *missing* below.
"""
_DEVICES = """
For another camera or microphone (`<feature>@<track>`), `device_time` is in seconds of the device and `time` in seconds
of the session. Without a column `time`, the store does not know the device's clock.
"""


@dataclass
class Exported(Described):
    """The result of an export.

    Attributes:
        rate: points a second; None for rows as stored.
        per: words or utterances that rows are; None for rows as stored or at the rate.
        functionals: what is computed over each.
        splits: the split of each session that has clips.
        tables: the tables that were written, as in ``export.json``.
        left_out: session, feature and reason of each feature that could not be exported.
        people: which study the sessions are of, and what is to be known of those who left it.
        files: by path below the folder, size and SHA-256.
    """

    to: str
    rate: float | None
    per: Axis | None = None
    functionals: list[str] = field(default_factory=list)
    splits: dict[str, str] = field(default_factory=dict)
    tables: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    files: dict[str, dict[str, int | str]] = field(default_factory=dict)


def readme(done: Exported) -> str:
    """The README of an export."""
    return "\n".join(_lines(done)) + "\n"


def _lines(done: Exported) -> Iterator[str]:
    sessions = list(dict.fromkeys(table["session_id"] for table in done.tables))
    if done.to == Format.DATASETS:
        yield from _configs(done)
    yield "# Exported features\n"
    yield f"{len(done.tables)} tables of {len(sessions)} sessions, exported by storyframes {storyframes.__version__}."
    yield "They are measurements of persons: keep them as private as the recordings.\n"
    yield from (f"{line}\n" for line in done.people)
    yield _OPENED[Format(done.to)] if done.to in set(Format) else f"\n{about_format(done.to)}\n"
    yield from _rows(done)
    yield from _caveats(done)
    yield from _features(done)
    yield from _left_out(done)
    yield "## Versions\n"
    yield "Equal fingerprints: the same inputs, settings, models and code.\n"
    yield from markdown_table(
        ("session", "feature", "a row is", "rows", "version", "fingerprint"),
        [[str(table[key]) for key in ("session_id", "feature", "row", "rows", "version", "fingerprint")]
         for table in done.tables],
    )  # fmt: skip
    yield "`export.json` says the same to programs, and has the size and the SHA-256 of every file."


def _configs(done: Exported) -> Iterator[str]:
    """Which files are which split of which feature, as ``datasets`` reads it."""
    files: dict[str, dict[str, list[str]]] = {}
    for table in done.tables:
        for file in table["files"]:
            split = done.splits.get(table["session_id"], "unassigned")
            name = Path(file).stem if table["session_id"] != STORIES else f"{Path(file).stem}.{STORIES}"
            files.setdefault(name, {}).setdefault(split, []).append(file)
    yield from front_matter({"configs": data_configs(files)})


def data_configs(files: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By configuration and split the path or paths of files, as ``datasets`` and the hub read it."""
    return [
        {"config_name": name, "data_files": [{"split": split, "path": path} for split, path in splits.items()]}
        for name, splits in files.items()
    ]


def front_matter(content: Mapping[str, Any]) -> Iterator[str]:
    """The lines before a README that programs read: YAML, whose values are JSON."""
    yield "---"
    yield from (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in content.items())
    yield "---\n"


def _rows(done: Exported) -> Iterator[str]:
    yield "## Rows"
    if done.per:
        yield _POOLED_ROWS.format(per=done.per, functionals=", ".join(done.functionals))
    else:
        yield _STORED_ROWS if done.rate is None else _GRID_ROWS.format(rate=done.rate)
    yield _MASK.lstrip("\n")
    keys: dict[str, dict[str, str]] = {}
    for table in done.tables:
        for key in table["keys"]:
            keys.setdefault(key["name"], key)
    yield from markdown_table(
        ("column", "what", "unit"), [[f"`{n}`", key["about"], key["unit"]] for n, key in keys.items()]
    )
    if any(key.startswith("device_") for key in keys):
        yield _DEVICES.lstrip("\n")


def _caveats(done: Exported) -> Iterator[str]:
    caveats: dict[tuple[str, str], list[str]] = {}
    for table in done.tables:
        for caveat in table["caveats"]:
            sessions = caveats.setdefault((table["feature"], caveat), [])
            if table["session_id"] not in sessions:
                sessions.append(table["session_id"])
    yield "## Caveats\n"
    if caveats:
        yield from markdown_table(
            ("feature", "caveat", "sessions"), [[*key, ", ".join(of)] for key, of in caveats.items()]
        )
    else:
        yield "None.\n"


def _features(done: Exported) -> Iterator[str]:
    yield "## Features\n"
    seen: set[tuple[str, str]] = set()
    for table in done.tables:
        if (table["feature"], table["row"]) in seen:
            continue
        seen.add((table["feature"], table["row"]))
        yield f"**{table['feature']}**, a row for each {table['row']}: {table['about']}\n"
        if table["arrays"]:
            yield from markdown_table(("array", "dimensions", "unit", "missing", "what"), _arrays(table["arrays"]))


def _arrays(arrays: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str]]:
    for name, array in arrays.items():
        sizes = [f"{size} {dim}" for dim, size in zip(array["dims"][1:], array["shape"][1:], strict=True)]
        dims = " x ".join([array["dims"][0], *sizes])
        yield [f"`{name}`", dims, array["units"], str(array["missing"]), array["about"]]


def _left_out(done: Exported) -> Iterator[str]:
    if not done.left_out:
        return
    yield "## Left out\n"
    rows = [[omission["session_id"], omission["feature"], omission["reason"]] for omission in done.left_out]
    yield from markdown_table(("session", "feature", "why"), rows)


def markdown_table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table in Markdown, and an empty line."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in row)} |"
    yield ""
