"""A BIDS derivative data set: a headerless ``.tsv.gz`` with a JSON sidecar for each table, under BIDS's names.

The proposal BEP047 (pull request 2231 of bids-specification, commit 07ca171) has no suffix for values that are computed
from recordings. These files end in ``_features``, and ``.bidsignore`` lists them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import storyframes
from storyframes import MAIN, FeatureName
from storyframes.store import Table
from storyframes_release.export.arrow_files import arrow_schema, arrow_table
from storyframes_release.export.formats import ExportError

if TYPE_CHECKING:
    from storyframes_release.export.readme import Exported
    from storyframes_release.study_sessions import StudySessions

SUFFIX = "features"
_BIDS_VERSION = "1.11.1"
_MASK = "mask"
_MOMENTS = ("time", "device_time", "start", "device_start")  # the columns that say when a row is or begins
_REGULAR_S = 1e-5  # by which the times of evenly spaced rows may be off
_OF_RAW = re.compile(r"sub-([A-Za-z0-9]+)((?:_(?:ses|task|acq|run)-[A-Za-z0-9]+)*)")
_DATA_SET = {
    "Name": "Features of recordings",
    "BIDSVersion": _BIDS_VERSION,
    "DatasetType": "derivative",
    "GeneratedBy": [{"Name": "storyframes", "Version": storyframes.__version__}],
}


def write_bids(table: Table, path: Path) -> None:
    """Write ``<path>.tsv.gz`` and ``<path>.json``; what is masked or missing is ``n/a``."""
    schema = arrow_schema(table)
    fills = {column.name: column.fill for column in table.columns}
    moments: list[np.ndarray] = []
    moment = next((key.name for name in _MOMENTS for key in table.keys if key.name == name), None)
    options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    # without a name and a time in the header, equal values are equal files
    with (
        path.with_name(f"{path.name}.tsv.gz").open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as file,
    ):
        for block in table.blocks():
            rows = arrow_table(table.named(block), schema)
            if not len(rows):
                continue
            moments += [block.keys[moment]] if moment else []
            texts = [_texts(rows[name], block.keys[_MASK], fills.get(name)) for name in rows.column_names]
            lines = pa.BufferOutputStream()
            pa.csv.write_csv(pa.table(texts, rows.column_names), lines, options)
            file.write(lines.getvalue())
    about = {key.name: (key.about, key.unit) for key in table.keys}
    about |= {column.name: (column.about, column.unit) for column in table.columns}
    described = {
        name: {"Description": what} | ({"Units": unit} if unit else {}) for name, (what, unit) in about.items()
    }
    sidecar: dict[str, Any] = {
        **described,  # first: a column of the name of a field of BIDS is described by its name alone
        "Description": str(table.attributes.get("about", "")),
        **_sampling(np.concatenate([*moments, np.empty(0)]), is_of_session=not (moment or "").startswith("device_")),
        "Columns": schema.names,
        "StudySession": table.session_id,
        "Feature": table.name,
        "Caveats": table.caveats,
    }
    path.with_name(f"{path.name}.json").write_text(json.dumps(sidecar, indent=1, ensure_ascii=False) + "\n")


def _texts(values: pa.ChunkedArray, mask: np.ndarray, fill: float | None) -> pa.ChunkedArray:
    """A column as text.

    Args:
        fill: of a column of values, what stands where none was measured; None of a key, which no mask hides. A whole
            number from 0 on may also be measured, so there the mask alone decides.
    """
    if fill is not None:
        hidden = ~mask
        if fill < 0 and not pa.types.is_floating(values.type):
            hidden |= values.to_numpy() == fill
        values = pc.if_else(pa.array(hidden), pa.scalar(None, values.type), values)
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    text = values.cast(pa.string())
    if pa.types.is_string(values.type):
        text = pc.replace_substring_regex(text, r'[\t\r\n"]', " ")
    return text.fill_null("n/a")


def _sampling(moments: np.ndarray, *, is_of_session: bool) -> dict[str, Any]:
    """When the rows begin, and how many there are a second: ``n/a`` where their times are not even.

    Args:
        is_of_session: the moments are the session's seconds, not a device's, which say nothing of when it began.
    """
    if not len(moments) or not np.isfinite(moments).all():
        return {"SamplingFrequency": "n/a", "StartTime": "n/a"}
    even = np.linspace(moments[0], moments[-1], len(moments))
    is_even = len(moments) > 1 and moments[-1] > moments[0] and np.abs(moments - even).max() <= _REGULAR_S
    rate = (len(moments) - 1) / (moments[-1] - moments[0]) if is_even else 0.0
    return {
        "SamplingFrequency": round(rate, 6) if is_even else "n/a",
        "StartTime": float(moments[0]) if is_of_session else "n/a",
    }


class BidsNames:
    """The names of BIDS for the sessions and tracks of an export: letters and digits, and no two alike.

    Raises:
        ExportError: names are alike without their other characters, or the participant of a session is not known.
    """

    def __init__(self, chosen: Mapping[str, Iterable[tuple[str, str]]], known: StudySessions) -> None:
        people = {session: known.participant(session) for session in chosen}
        if unknown := [session for session, person in people.items() if not person]:
            raise ExportError(
                f"--format bids: the store does not know the participant of the session {unknown[0]}: "
                "'storyframes index STUDY STORE' reads it from the tables"
            )
        self._people = _labels("participants", people.values(), lambda name: name.removeprefix("sub-"))
        self._entities: dict[str, tuple[str, str]] = {}
        self._tracks = {
            session: _labels(f"tracks of {session}", (FeatureName(feature).track for feature, _ in features))
            for session, features in chosen.items()
        }
        for session, person in people.items():
            raw, label = _OF_RAW.fullmatch(session), self._people[person]
            of_session = raw[2] if raw and raw[1] == label else f"_ses-{_plain(session)}"
            self._entities[session] = label, of_session
        _labels("sessions", people, lambda session: "".join(self._entities[session]))

    def path(self, table: Mapping[str, Any], stem: str, suffix: str) -> str:
        """Where a file of a table lies in the data set."""
        person, of_session = self._entities[table["session_id"]]
        folders = [f"sub-{person}", *re.findall(r"ses-[A-Za-z0-9]+", of_session), "beh"]
        track = "" if table["track"] == MAIN else f"_recording-{self._tracks[table['session_id']][table['track']]}"
        desc = _plain(stem.replace(f"@{table['track']}", ""))
        return "/".join([*folders, f"sub-{person}{of_session}{track}_desc-{desc}_{SUFFIX}{suffix}"])


def arrange_bids(folder: Path, done: Exported, names: BidsNames) -> None:
    """Give the files of an export their names in BIDS, and describe the data set.

    Raises:
        ExportError: two tables would have one name.
    """
    taken: dict[str, str] = {}
    for table in done.tables:
        moved = []
        for file in table["files"]:
            name, _, suffix = file.rpartition("/")[2].partition(".tsv" if file.endswith(".tsv.gz") else ".json")
            path = names.path(table, name, ".tsv.gz" if suffix else ".json")
            if (other := taken.setdefault(path.lower(), file)) != file:
                raise ExportError(f"--format bids: {other} and {file} would both be {path}: export one with --features")
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).rename(folder / path)
            moved.append(path)
        table["files"] = moved
    for session in {table["session_id"] for table in done.tables}:
        if not any((folder / session).iterdir()):  # a session may be called sub-01
            (folder / session).rmdir()
    (folder / "dataset_description.json").write_text(json.dumps(_DATA_SET, indent=1) + "\n")
    (folder / ".bidsignore").write_text(f"export.json\n**/*_{SUFFIX}.tsv.gz\n**/*_{SUFFIX}.json\n")


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", name)


def _labels(what: str, names: Iterable[str], prepared: Any = str) -> dict[str, str]:
    """The label of each name, its letters and digits."""
    labels: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name in dict.fromkeys(names):
        labels[name] = _plain(prepared(name))
        if (other := owners.setdefault(labels[name].lower(), name)) != name:
            raise ExportError(
                f"--format bids: labels have letters and digits only, so the {what} {other!r} and {name!r} would both "
                f"be {labels[name]!r}: export them apart, with --session or --features"
            )
    return labels
