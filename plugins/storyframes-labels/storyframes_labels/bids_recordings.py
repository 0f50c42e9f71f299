"""Reading the recordings and events of a BIDS data set, as the proposal BEP047 names them.

This follows pull request 2231 of bids-specification as of 2026-07-01 (commit 07ca171). What that text leaves open is
not guessed: such files and rows are set aside, each with the reason.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePosixPath
from typing import Any

from storyframes import MAIN
from storyframes.store import ID_PATTERN

_ENTITIES = ("sub", "ses", "task", "acq", "run", "split", "recording")
_OF_SESSION = _ENTITIES[:5]  # the others tell the files of one run apart
_SUFFIXES = {
    "audiovideo": (".mp4", ".mkv", ".avi"),
    "video": (".mp4", ".mkv", ".avi"),
    "audio": (".flac", ".mp3", ".ogg", ".wav"),
}
"""The recordings of the proposal; a session's own is the first of them that has no ``recording-``."""
_MISSING = ("n/a", "")
_LABEL = re.compile(r"[A-Za-z0-9]+")
_LONGEST_FIELD = 131_072  # characters that a field of a CSV table may have
_LONGEST_S = 1e9


@dataclass
class Run:
    """The recordings of one run of a person.

    Attributes:
        session_id: the entities that they have in common, ``sub-01_ses-1_task-rest``.
        entities: the same by name.
        files: by entity ``recording`` (perhaps empty) and suffix, the files; several where it is split.
    """

    session_id: str
    entities: dict[str, str]
    files: dict[tuple[str, str], list[PurePosixPath]] = field(default_factory=dict)

    @property
    def participant_id(self) -> str:
        """As participants.tsv has it."""
        return f"sub-{self.entities['sub']}"

    def devices(self) -> dict[str, tuple[str, str]]:
        """The keys of :attr:`files` by track, ``main`` first."""
        order = sorted(self.files, key=lambda key: (bool(key[0]), list(_SUFFIXES).index(key[1]), key[0]))
        devices = {MAIN: order[0]}
        for recording, suffix in order[1:]:
            name = recording or suffix
            devices[f"{recording}-{suffix}" if name in devices and recording else name] = recording, suffix
        return devices


@dataclass
class BidsRecordings:
    """What a data set has; ``set_aside`` and ``remarks`` get what is not taken, and why."""

    root: Path
    set_aside: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    events: dict[str, PurePosixPath] = field(default_factory=dict)

    def find(self) -> None:
        """Fill ``runs`` and ``events`` from the folders ``beh`` of all people."""
        others: dict[str, int] = {}
        found = [path for glob in ("sub-*/beh/*", "sub-*/ses-*/beh/*") for path in self.root.glob(glob)]
        for path in sorted(path.relative_to(self.root) for path in found):
            name = PurePosixPath(path.as_posix())
            if name.suffix == ".json" or name.name.startswith("."):
                continue
            entities, suffix, fault = _parsed(name)
            if suffix not in (*_SUFFIXES, "image", "events"):
                others[suffix] = others.get(suffix, 0) + 1
            elif fault := fault or self._fault(name, suffix):
                self.set_aside[str(name)] = fault
            else:
                self._take(name, entities, suffix)
        if others:
            counts = ", ".join(f"{count} of _{suffix}" for suffix, count in sorted(others.items()))
            self.remarks.append(f"files in beh that are neither recordings nor events, left out: {counts}")
        sessions: dict[str, str] = {}
        for run in self.runs.values():
            self._check_splits(run)
            self._check_names(run, sessions.setdefault(run.session_id.lower(), run.session_id))

    def incomplete_runs(self) -> set[str]:
        """The ids of the sessions of which a recording is set aside."""
        ids = set()
        for name in self.set_aside:
            entities, suffix, _ = _parsed(PurePosixPath(name))
            if suffix in _SUFFIXES and entities.keys() <= {*_ENTITIES}:
                ids.add(_session_id(entities))
        return ids

    def _take(self, name: PurePosixPath, entities: Mapping[str, str], suffix: str) -> None:
        of_run = {entity: entities[entity] for entity in _OF_SESSION if entity in entities}
        session_id = _session_id(entities)
        if not ID_PATTERN.fullmatch(session_id):
            self.set_aside[str(name)] = (
                f"{session_id} cannot be an id of a session: letters, digits, - and _, at most 64"
            )
        elif suffix == "events":
            self.events[session_id] = name
        else:
            run = self.runs.setdefault(session_id, Run(session_id, of_run))
            run.files.setdefault((entities.get("recording", ""), suffix), []).append(name)

    def _fault(self, name: PurePosixPath, suffix: str) -> str:
        """Why a file is not read, before it is opened."""
        if suffix == "image":
            return "a still image, and storyframes reads recordings"
        if name.suffix not in _SUFFIXES.get(suffix, (".tsv",)):
            return f"_{suffix} has no {name.suffix} in the proposal: {', '.join(_SUFFIXES.get(suffix, ('.tsv',)))}"
        path = self.root / name
        if os.path.islink(path) and not path.exists():
            return "a link to nothing: 'datalad get' fetches a file of a DataLad data set"
        if not path.resolve().is_relative_to(self.root.resolve()):
            return "leaves the data set through a symbolic link"
        return "" if path.is_file() else "is not a file"

    def _check_splits(self, run: Run) -> None:
        for key, files in list(run.files.items()):
            files.sort(key=_split_of)
            numbers = [_parsed(file)[0].get("split") for file in files]
            whole = [str(number) for number in range(1, len(files) + 1)]
            if numbers != [None] and [str(number).lstrip("0") for number in numbers] != whole:
                for file in run.files.pop(key):
                    self.set_aside[str(file)] = (
                        "one of several files of one recording that are not split-1, split-2, … without a gap: "
                        + ", ".join(file.name for file in files)
                    )

    def _check_names(self, run: Run, session_id: str) -> None:
        """Set aside recordings whose session or track could not have its name in a study."""
        tracks: dict[str, str] = {}
        for track, key in run.devices().items() if run.files else ():
            earlier = tracks.setdefault(track.lower(), track)
            fault = ""
            if not ID_PATTERN.fullmatch(track):
                fault = f"{track} cannot be the name of a track: at most 64 characters"
            elif session_id != run.session_id:
                fault = f"{run.session_id} and the session {session_id} differ in case only"
            elif earlier != track:
                fault = f"{track} and the track {earlier} differ in case only"
            if fault:
                self.set_aside |= {str(file): fault for file in run.files.pop(key)}

    def acq_times(self, run: Run) -> dict[tuple[str, str], datetime]:
        """When the recordings of a run began, as far as ``scans.tsv`` says it; of a split one the first file."""
        person = Path(f"sub-{run.entities['sub']}")
        folders = {person: person.name}
        if ses := run.entities.get("ses"):
            folders[person / f"ses-{ses}"] = f"{person.name}_ses-{ses}"
        written: dict[str, str] = {}
        for folder, name in folders.items():
            for _, row in self.rows(PurePosixPath(folder / f"{name}_scans.tsv")):
                file, time = (folder / row.get("filename", "")).as_posix(), row.get("acq_time", "n/a")
                if "filename" in row and written.setdefault(file, time) != time:
                    self.remarks.append(f"{file}: is twice in scans.tsv with different times, left out")
                    written[file] = "n/a"
        times = {}
        for key, files in run.files.items():
            text = written.get(files[0].as_posix(), "n/a")
            try:
                if text not in _MISSING and "T" in text:
                    times[key] = datetime.fromisoformat(text)
            except ValueError:
                self.remarks.append(f"{files[0]}: acq_time {text!r} in scans.tsv is not a date and time, left out")
        if len({time.tzinfo is None for time in times.values()}) > 1:
            self.remarks.append(f"{run.session_id}: acq_time with and without a time zone, left out")
            return {}
        return times

    def labels(self, run: Run, events: PurePosixPath) -> Iterator[dict[str, str]]:
        """The rows of the table of labels: a scheme for each column of the events whose values are levels."""
        columns: tuple[str, ...] | None = None
        levels = [name for name, about in self.sidecar(events).items() if isinstance(about, dict) and "Levels" in about]
        seen = set()
        for number, row in self.rows(events):
            if columns is None:
                columns = tuple(name for name in row if name == "trial_type" or name in levels)
                for name in columns:
                    if not ID_PATTERN.fullmatch(name):
                        self.set_aside[f"{events}, {name}"] = "cannot be the id of a scheme: rename the column"
                columns = tuple(name for name in columns if ID_PATTERN.fullmatch(name))
                if not {"onset", "duration"} <= row.keys() or not columns:
                    self.set_aside[str(events)] = (
                        "has no column onset, duration, or of labels: trial_type, or one with Levels in its sidecar"
                    )
                    return
                if left_out := [name for name in row if name not in ("onset", "duration", *columns)]:
                    self.remarks.append(f"{events}: columns without Levels, left out: {', '.join(left_out)}")
            where = f"{events}, row {number}"
            span = _span(row["onset"], row["duration"])
            if span is None:
                self.set_aside[where] = (
                    f"onset {row['onset']}, duration {row['duration']}: not seconds from 0 to 1e9 (n/a is unknown)"
                )
                continue
            for column in columns:
                if row[column] in _MISSING:
                    continue
                if (column, *span) in seen:
                    self.set_aside[f"{where}, {column}"] = (
                        "a second event of the same time: a scheme has one label there"
                    )
                    continue
                seen.add((column, *span))
                yield {
                    "session_id": run.session_id,
                    "scheme": column,
                    "value": row[column],
                    "start_s": span[0],
                    "end_s": span[1],
                }

    def rows(self, name: PurePosixPath) -> Iterator[tuple[int, dict[str, str]]]:
        """The rows of a table with their numbers, the header as row 1; none where there is no such table."""
        try:
            text = (self.root / name).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            self.set_aside[str(name)] = f"cannot be read ({type(error).__name__})"
            return
        first, *lines = text.split("\n")  # splitlines would also break lines inside a field
        header = first.split("\t")
        if repeated := [column for number, column in enumerate(header) if column in header[:number]]:
            self.set_aside[str(name)] = f"has the column {repeated[0]!r} twice"
            return
        for number, line in enumerate(lines, start=2):
            cells = line.split("\t")
            if max(map(len, cells)) > _LONGEST_FIELD:
                self.set_aside[f"{name}, row {number}"] = f"has a field of over {_LONGEST_FIELD:,} characters"
            elif "\0" in line:
                self.set_aside[f"{name}, row {number}"] = "has a zero byte"
            elif len(cells) == len(header):
                yield number, {column: cell.strip() for column, cell in zip(header, cells, strict=True)}
            elif line:
                self.set_aside[f"{name}, row {number}"] = f"has {len(cells)} fields, and the header {len(header)}"

    def sidecar(self, name: PurePosixPath) -> dict[str, Any]:
        """The JSON metadata of a file: of all files that apply to it, from the data set's folder down to its own."""
        entities, suffix, _ = _parsed(name)
        content: dict[str, Any] = {}
        for folder in reversed(name.parents):
            for path in sorted((self.root / folder).glob(f"*{suffix}.json"), key=lambda path: len(path.name)):
                own, kind, _ = _parsed(PurePosixPath(path.name))
                if kind == suffix and own.items() <= entities.items():
                    try:
                        read = json.loads(path.read_bytes())
                    except (OSError, ValueError, RecursionError):
                        self.set_aside[(folder / path.name).as_posix()] = "is not JSON"
                        continue
                    content |= read if isinstance(read, dict) else {}
        return content


def _parsed(name: PurePosixPath) -> tuple[dict[str, str], str, str]:
    """The entities of a file's name, its suffix, and what is wrong with them."""
    *pairs, suffix = name.name.partition(".")[0].split("_")
    entities: dict[str, str] = {}
    fault = ""
    for pair in pairs:
        entity, _, label = pair.partition("-")
        if entity not in _ENTITIES or entity in entities or not _LABEL.fullmatch(label):
            fault = fault or f"{pair!r} is not an entity of the proposal, once and with letters and digits"
        entities[entity] = label
    folders = [f"{entity}-{entities[entity]}" for entity in ("sub", "ses") if entity in entities]
    if not fault and len(name.parts) > 1 and [*name.parts[:-1]] != [*folders, "beh"]:
        fault = f"its name is of another folder: {'/'.join([*folders, 'beh'])}"
    return entities, suffix, fault


def _session_id(entities: Mapping[str, str]) -> str:
    return "_".join(f"{entity}-{entities[entity]}" for entity in _OF_SESSION if entity in entities)


def _split_of(name: PurePosixPath) -> tuple[int, str]:
    """A key that sorts the files of one recording by their number, with or without zeros before it."""
    digits = _parsed(name)[0].get("split", "").lstrip("0")
    return len(digits), digits


def _span(onset: str, duration: str) -> tuple[str, str] | None:
    """The start and end of an event in seconds; None where they are not known, or before the recording."""
    try:
        start, lasts = Decimal(onset), Decimal(duration)
        is_span = (
            "_" not in onset + duration
            and start.is_finite()
            and lasts.is_finite()
            and min(start, lasts) >= 0
            and start + lasts < _LONGEST_S
        )
    except InvalidOperation:
        return None
    return (str(float(start)), str(float(start + lasts))) if is_span else None
