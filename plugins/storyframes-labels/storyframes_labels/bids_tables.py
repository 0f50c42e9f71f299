"""A BIDS data set as the rows of a study's tables: ``storyframes init STUDY --bids ROOT``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath

from storyframes import MAIN
from storyframes.store import ID_PATTERN
from storyframes_labels.bids_recordings import BidsRecordings, Run
from tasks.study import UnusableFileError

_WHOLE_SECONDS_ERROR_S = 0.41  # the standard error of the difference of two times that are rounded to seconds

Rows = dict[str, list[dict[str, str]]]
OpenRecordings = Callable[[Sequence[PurePosixPath]], tuple[dict[PurePosixPath, str], dict[PurePosixPath, str]]]


def read_bids(root: Path, open_recordings: OpenRecordings) -> tuple[Rows, dict[str, str], list[str]]:
    """The rows of each table, the files and rows that are set aside with the reason, and remarks.

    Args:
        root: the data set's folder.
        open_recordings: gives the column of each recording (video or audio), and why others cannot be used.

    Raises:
        UnusableFileError: the folder is not a raw BIDS data set.
    """
    _check_data_set(root)
    found = BidsRecordings(root)
    found.find()
    columns = _columns(found, open_recordings)
    incomplete = found.incomplete_runs()
    rows: Rows = {name: [] for name in ("sessions", "tracks", "clocks", "labels")}
    unaligned = []
    for run in found.runs.values():
        times = found.acq_times(run)
        if not _add_recordings(run, columns, times, rows):
            unaligned.append(run.session_id)
        if (events := found.events.pop(run.session_id, None)) is not None:
            if run.session_id in incomplete:
                found.set_aside[str(events)] = "a recording of its run is set aside, which may be the one with second 0"
            elif reason := _unclear_start(run, times):
                found.set_aside[str(events)] = reason
            else:
                rows["labels"] += found.labels(run, events)
    found.set_aside |= {str(name): "events of a run without a recording" for name in found.events.values()}
    if unaligned:
        found.remarks.append(
            "without a usable acq_time in scans.tsv the proposal leaves the alignment of recordings open; they "
            f"count as begun together until 'storyframes sync' measures it: {', '.join(unaligned)}"
        )
    rows["participants"] = _participants(found)
    schemes = dict.fromkeys(row["scheme"] for row in rows["labels"])
    rows["schemes"] = [{"scheme": name, "type": "nominal"} for name in schemes]
    return rows, found.set_aside, found.remarks


def _check_data_set(root: Path) -> None:
    try:
        described = json.loads((root / "dataset_description.json").read_bytes())
        kind, version = described.get("DatasetType", "raw"), described["BIDSVersion"]
    except (OSError, ValueError, KeyError, AttributeError):
        raise UnusableFileError(
            f"--bids {root}: has no dataset_description.json with a BIDSVersion: give the data set's folder"
        ) from None
    if kind != "raw":
        raise UnusableFileError(
            f"--bids {root}: has the type {kind!r} (BIDS {version}); recordings are in a raw data set"
        )


def _columns(found: BidsRecordings, open_recordings: OpenRecordings) -> dict[PurePosixPath, str]:
    """The column of each recording; those that cannot be opened are set aside, with all of their splits."""
    paths = [file for run in found.runs.values() for files in run.files.values() for file in files]
    columns, why = open_recordings(paths)
    found.set_aside |= {str(path): reason for path, reason in why.items()}
    for run in found.runs.values():
        for key, files in list(run.files.items()):
            if broken := [file for file in files if file in why]:
                for file in run.files.pop(key):
                    found.set_aside.setdefault(str(file), f"belongs to one recording with {broken[0].name}")
    found.runs = {name: run for name, run in found.runs.items() if run.files}
    return columns


def _add_recordings(
    run: Run,
    columns: Mapping[PurePosixPath, str],
    times: Mapping[tuple[str, str], datetime],
    rows: Rows,
) -> bool:
    """Add the rows of a run's recordings; whether it is known how they are aligned."""
    devices, session = run.devices(), {"session_id": run.session_id}
    began, is_aligned = times.get(devices[MAIN]), True
    for track, key in devices.items():
        first, *others = run.files[key]
        file = {columns[first]: "+".join([str(first), *(other.name for other in others)])}
        if track == MAIN:
            recorded_at = {"recorded_at": began.isoformat()} if began else {}
            rows["sessions"].append(session | {"participant_id": run.participant_id} | file | recorded_at)
            continue
        row = session | {"track": track} | file
        if began is None or (starts := times.get(key)) is None:
            is_aligned = False
        else:
            row["clock"] = track
            error = {} if began.microsecond or starts.microsecond else {"error_s": str(_WHOLE_SECONDS_ERROR_S)}
            offset = {"clock_s": "0", "session_s": str((starts - began).total_seconds())}
            rows["clocks"].append(session | {"clock": track} | offset | error)
        rows["tracks"].append(row)
    return is_aligned


def _unclear_start(run: Run, times: Mapping[tuple[str, str], datetime]) -> str:
    """Why it is open which moment second 0 of a run's events is; empty where it is that of the session's own recording.

    The proposal's text has events in seconds of the recording of the same name; its review speaks of the run's first.
    """
    own = run.devices()[MAIN]
    if len(run.files) == 1:
        return ""
    if len(times) == len(run.files):
        starts = {*times.values()} if own[0] else {times[own], min(times.values())}
        return (
            "" if len(starts) == 1 else "its recordings began at different times, and the proposal leaves second 0 open"
        )
    return "scans.tsv does not say when its recordings began, so which of them has second 0 is open"


def _participants(found: BidsRecordings) -> list[dict[str, str]]:
    """The ids of participants.tsv, and of the folders that it lacks; its other columns stay in the data set."""
    known: dict[str, None] = {}
    for number, row in found.rows(PurePosixPath("participants.tsv")):
        name = row.get("participant_id", "")
        if name in known or not ID_PATTERN.fullmatch(name):
            found.set_aside[f"participants.tsv, row {number}"] = "participant_id is not an id, or is there twice"
            continue
        known[name] = None
        if len(known) == 1 and len(row) > 1:
            others = ", ".join(column for column in row if column != "participant_id")
            found.remarks.append(f"participants.tsv: columns that are not read: {others}")
    recorded = dict.fromkeys(run.participant_id for run in found.runs.values())
    if lacking := [name for name in recorded if name not in known]:
        found.remarks.append(f"participants.tsv lacks {', '.join(lacking)}")
    return [{"participant_id": name} for name in (*known, *lacking)]
