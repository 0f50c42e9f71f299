"""Features of many sessions in one file, as multimodal sentiment analysis has them.

These are pickles of MMSA's layout, whose samples are cut from recordings, and computational sequences of the
CMU-MultimodalSDK (``.csd``, or a pickle of the same), whose rows have intervals. Each id in them is of a session by a
table, or is the session's own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from storyframes import SOUND_FITS_S, install_line
from storyframes.store import sha256_file
from storyframes_adopt.adopted_files import TIME_UNITS, AdoptError, Adoption, Rows, read_file, rows_of
from storyframes_adopt.safe_pickle import PickledArray, UnsafePickleError, as_array, read_pickle
from tasks.study import Table

_PICKLES, _SEQUENCES = (".pkl", ".pickle"), (".csd",)
_SPARE_ROWS = 2  # that a sample may have or lack: its beginning and end are rounded
_MOST_DEFLATED = 1032  # bytes that one byte in HDF5's compression (zlib) becomes at most
_NAMED = 5  # ids and faults that an error lists


class Piece(NamedTuple):
    """A part of a session in a file of many: its id there, and where its second 0 and its end are in the session."""

    id: str
    start_s: float = 0.0
    end_s: float | None = None


@dataclass(frozen=True)
class Source:
    """The rows of one session in a file.

    Attributes:
        entries: of a file of many sessions, by id the arrays ``features`` (n, columns) and, as the file has them,
            ``intervals`` (n, 2) seconds or ``mask`` (n,).
        pieces: those of the session.
    """

    file: Path
    digest: FileDigest
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pieces: tuple[Piece, ...] = ()

    def read(self, how: Adoption) -> Rows:
        """The session's rows.

        Raises:
            AdoptError: the file cannot be read, or its rows do not fit the options.
        """
        if not self.pieces:
            return read_file(self.file, how)
        parts = [_read_piece(self.entries[piece.id], piece, how) for piece in self.pieces]
        return _in_order([part for part in parts if part is not None])


class FileDigest:
    """The SHA-256 of a file, read once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def sha256(self) -> str:
        return sha256_file(self.path)


def holds_many(file: Path) -> bool:
    """Whether a file has the features of many sessions, by its ending."""
    return file.suffix.lower() in _PICKLES + _SEQUENCES


def sources_of_many(
    file: Path, ids: Path | None, how: Adoption, sessions: Collection[str]
) -> tuple[dict[str, Source], list[str]]:
    """By session, its rows in a file of many; and the ids of the table that are of a session and not in the file.

    Args:
        ids: a table with the columns ``id`` and ``session_id``, and ``start_s``, where the id's second 0 is in the
            session (0 without it), and ``end_s``, where it ends; an id with an empty ``session_id`` is left out.
            Without a table every id is a session's.
        sessions: of the store.

    Raises:
        AdoptError: the file or the table cannot be read, or an id is of no session.
        OSError: a file cannot be read.
    """
    file.stat()  # h5py's words for a file that is not there are others
    try:
        entries = _sequences(file) if file.suffix.lower() in _SEQUENCES else _pickled(read_pickle(file), how)
    except UnsafePickleError as error:
        raise AdoptError(f"{file.name}: {error}") from None
    known = None if ids is None else _pieces(ids)
    of_sessions: dict[str, list[Piece]] = {}
    used: set[str] = set()
    unknown = []
    for entry in entries:
        video = entry.partition("[")[0]  # as the SDK calls the words of a video that it aligned
        name = video if known is None or entry not in known else entry
        session_id, piece = (video, Piece(entry)) if known is None else known.get(name, (None, None))
        used.add(name)
        if piece is None or not video or (session_id and session_id not in sessions):
            unknown.append(f"{entry} ({session_id})" if session_id and known else entry)
        elif session_id:
            of_sessions.setdefault(session_id, []).append(piece._replace(id=entry))
    if unknown:
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        raise AdoptError(
            f"{file.name}: of no session of the store: {', '.join(unknown[:_NAMED])}{more}: give --ids TABLE with the "
            "columns id and session_id (empty to leave an id out)"
        )
    if not of_sessions:
        raise AdoptError(f"{file.name}: has no entry of a session")
    digest = FileDigest(file)
    unused = [name for name, (session_id, _) in (known or {}).items() if session_id and name not in used]
    return {session: Source(file, digest, entries, tuple(pieces)) for session, pieces in of_sessions.items()}, unused


def _pieces(ids: Path) -> dict[str, tuple[str, Piece]]:
    """By id, its session and where it is."""
    table = Table.read(ids)
    faults = [fault.text(ids.name) for fault in table.faults]
    lacking = [name for name in ("id", "session_id") if name not in table.columns]
    if lacking and not faults:
        faults = [f"{ids.name}: has no column {lacking[0]!r}"]
    pieces: dict[str, tuple[str, Piece]] = {}
    for row in [] if faults else table.rows:
        pairs = zip(table.columns, row.values, strict=True)
        cells = {name: cell for name, cell in pairs if not table.is_empty_cell(cell)}
        start, end = (table.number_in(cells[name]) if name in cells else None for name in ("start_s", "end_s"))
        entry, session_id = (str(cells.get(name, "")).strip() for name in ("id", "session_id"))
        if entry in pieces or not entry:
            faults.append(f"{ids.name}: row {row.number}: the id is empty or there already")
        if any(time is not None and not 0 <= time < np.inf for time in (start, end)):
            faults.append(f"{ids.name}: row {row.number}: start_s and end_s are seconds of the session")
        elif end is not None and end <= (start or 0.0):
            faults.append(f"{ids.name}: row {row.number}: end_s {end:g} is not after start_s {start or 0.0:g}")
        pieces[entry] = session_id, Piece(entry, start or 0.0, end)
    if faults:
        raise AdoptError("\n".join(faults[:_NAMED]))
    return pieces


@dataclass(frozen=True)
class _Sequence(Mapping[str, Mapping[str, Any]]):
    """A computational sequence; an entry's ``features`` and ``intervals`` are read when they are asked for."""

    file: Path
    root: str
    ids: tuple[str, ...]

    def __getitem__(self, entry: str) -> Mapping[str, Any]:
        import h5py

        try:
            with h5py.File(self.file) as opened:
                group = _own(_own(_own(opened, self.root), "data"), entry)
                return {name: read_numbers(_own(group, name), self.file) for name in ("features", "intervals")}
        except AdoptError as error:
            raise AdoptError(f"{entry}: {error}") from None
        except (OSError, KeyError, ValueError, AttributeError, TypeError, MemoryError) as error:
            raise AdoptError(f"{entry}: cannot be read ({type(error).__name__})") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


def _sequences(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """A computational sequence by id."""
    if find_spec("h5py") is None:
        raise AdoptError(f"{file.name}: reading it needs h5py: {install_line('csd', 'storyframes-adopt')}")
    import h5py

    try:
        with h5py.File(file) as opened:
            (root,) = opened
            data = _own(_own(opened, root), "data")
            for entry in data:
                if not {"features", "intervals"} <= {*_own(data, entry)}:
                    raise KeyError("features")
            return _Sequence(file, root, tuple(data))
    except AdoptError as error:
        raise AdoptError(f"{file.name}: {error}") from None
    except (OSError, KeyError, ValueError, AttributeError, TypeError) as error:
        raise AdoptError(
            f"{file.name}: is no computational sequence, one group with data/ID/features and data/ID/intervals "
            f"({type(error).__name__})"
        ) from None


def _own(group: Any, name: str) -> Any:
    """A member of a group of HDF5; a link is not followed: it may lead to any file of this machine.

    Raises:
        KeyError: the group has none of this name.
    """
    import h5py

    links, key = group.id.links, name.encode()
    if not links.exists(key):
        raise KeyError(name)
    if links.get_info(key).type != h5py.h5l.TYPE_HARD:
        raise AdoptError(f"{name!r} is a link to another place or file, which is not followed")
    return group[name]


def read_numbers(dataset: Any, file: Path) -> np.ndarray:
    """A dataset of numbers that lie in the file itself, and take no more memory than its bytes can hold."""
    if dataset.is_virtual or dataset.external:
        raise AdoptError(f"{dataset.name} has its values in other files, which are not read")
    if dataset.dtype.kind not in "biuf":
        raise AdoptError(f"{dataset.name} is {dataset.dtype}, not numbers")
    held = min(dataset.id.get_storage_size(), file.stat().st_size)
    if max(dataset.size, math.prod(dataset.chunks or (0,))) * dataset.dtype.itemsize > _MOST_DEFLATED * held:
        raise AdoptError(f"{dataset.name} is said to be {dataset.shape}, more than its {held} bytes can hold")
    return np.asarray(dataset[()])


def _pickled(content: Any, how: Adoption) -> Mapping[str, Mapping[str, Any]]:
    """The entries of a pickle: of MMSA's layout, or of computational sequences."""
    if not isinstance(content, dict) or not all(isinstance(part, dict) for part in content.values()):
        raise UnsafePickleError("is no pickle of MMSA's layout, nor of the SDK's: a dictionary of dictionaries")
    if all({"features", "intervals"} <= part.keys() for part in content.values()):
        return {
            _text(entry): {name: as_array(of[name]) for name in ("features", "intervals")}
            for entry, of in content.items()
        }
    entries: dict[str, Mapping[str, Any]] = {}
    for split, part in content.items():
        arrays = {name: of for name, of in part.items() if isinstance(of, PickledArray) and len(of.shape) == 3}
        if how.array not in arrays or "id" not in part:
            shown = ", ".join(map(str, arrays)) or "none"
            raise AdoptError(f"say --array: {split} has the arrays {shown}, and needs 'id' beside them")
        values, names = arrays[how.array].read(), part["id"]
        if isinstance(names, PickledArray):
            names = names.content if isinstance(names.content, list) else names.read().tolist()
        lengths, mask = (
            None if of is None else as_array(of)
            for of in (part.get(f"{how.array}_lengths"), part.get(f"{how.array}_mask"))
        )
        if (
            not isinstance(names, list | tuple)
            or len(names) != len(values)
            or (lengths is not None and lengths.shape != values.shape[:1])
            or (mask is not None and mask.shape != values.shape[:2])
        ):
            raise UnsafePickleError(f"has other numbers of ids, lengths or masks than of samples in {split}")
        if values.dtype.kind not in "biuf" or (lengths is not None and lengths.dtype.kind not in "iu"):
            raise UnsafePickleError(f"has {how.array} or its lengths in {split} not as numbers")
        if mask is not None and (mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all()):
            raise UnsafePickleError(f"has {how.array}_mask in {split} not as 0 and 1")
        for number, name in enumerate(names):
            entry, rows = _text(name), values[number]
            if entry in entries:
                raise UnsafePickleError(f"has the id {entry!r} twice")
            is_measured = rows.any(axis=1) if mask is None else mask[number] != 0
            length = int(np.flatnonzero(is_measured).max(initial=-1)) + 1 if lengths is None else int(lengths[number])
            if not 0 <= length <= len(rows):
                raise UnsafePickleError(f"has {length} rows of {entry!r} by {how.array}_lengths, and {len(rows)} rows")
            if is_measured[length:].any():
                raise UnsafePickleError(f"has rows behind the {length} of {entry!r}: padded at the front?")
            entries[entry] = {"features": rows[:length], "mask": is_measured[:length]}
    return entries


def _text(name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "backslashreplace")
    if not isinstance(name, str):
        raise UnsafePickleError(f"has an id that is no text but {type(name).__name__}")
    return name


def _read_piece(entry: Mapping[str, Any], piece: Piece, how: Adoption) -> Rows | None:
    """Its rows; None where it has none."""
    features = np.asarray(entry["features"])
    count = len(features) if features.ndim else 0
    if features.ndim != 2 or features.dtype.kind not in "biuf":
        shape = f"{features.shape} {features.dtype}"
        raise AdoptError(f"{piece.id}: is {shape}: it has to be numbers of the shape (rows, columns)")
    if not count:
        return None
    if "intervals" in entry:
        intervals = np.asarray(entry["intervals"])
        if intervals.dtype.kind not in "biuf":
            raise AdoptError(f"{piece.id}: has intervals of {intervals.dtype}, not of numbers")
        if how.rate is not None or how.array or intervals.shape != (count, 2):
            raise AdoptError(
                f"{piece.id}: has {count} rows with intervals of the shape {intervals.shape}, which say when they are: "
                "without --rate and --array"
            )
        seconds, units = TIME_UNITS[how.unit or "s"]
        start, end = (intervals.astype(np.float64) * seconds / units + piece.start_s).T
        if wrong := np.flatnonzero(~((start <= end) & (end < np.inf))).tolist():
            raise AdoptError(
                f"{piece.id}: row {wrong[0] + 1}: its interval is from {start[wrong[0]]:g} to {end[wrong[0]]:g} s: it "
                "must not end before it begins"
            )
        if piece.start_s and (first := float(start.min())) < piece.start_s - SOUND_FITS_S:
            raise AdoptError(
                f"{piece.id}: its rows begin at {first:g} s of the session, and by --ids it does at {piece.start_s:g} "
                "s: is start_s where its second 0 is?"
            )
        if piece.end_s is not None and (last := float(end.max())) > piece.end_s + SOUND_FITS_S:
            raise AdoptError(
                f"{piece.id}: its rows end at {last:g} s of the session, and by --ids it does at {piece.end_s:g} s: is "
                "start_s where its second 0 is?"
            )
        return rows_of(_by_number(features), how, start, end=end)
    if how.rate is None or piece.end_s is None:
        raise AdoptError(
            f"{piece.id}: has no times: say --rate HZ, and in --ids TABLE when it begins and ends, start_s and end_s"
        )
    lasts, said = count / how.rate, piece.end_s - piece.start_s
    if abs(count - said * how.rate) > _SPARE_ROWS:
        raise AdoptError(
            f"{piece.id}: {count} rows at {how.rate:g} a second last {lasts:.2f} s, and --ids says {said:.2f} s: its "
            f"last row would be off by {abs(lasts - said):.2f} s. Is --rate {count / said:.4g} meant, or was it cut?"
        )
    is_measured = np.asarray(entry["mask"])
    values = np.where(is_measured[:, None], features, np.nan)
    return rows_of(_by_number(values), how, piece.start_s + np.arange(count) / how.rate, is_measured=is_measured)


def _by_number(features: np.ndarray) -> dict[str, np.ndarray]:
    return {str(number): column for number, column in enumerate(features.T)}


def _in_order(parts: Sequence[Rows]) -> Rows:
    """The pieces of a session by their times."""
    if not parts or len({part.columns for part in parts}) > 1:
        raise AdoptError("its pieces have different numbers of columns" if parts else "has no rows")
    parts = sorted(parts, key=lambda part: float(part.time[0]))  # type: ignore[index] # every piece has times
    end = None if parts[0].end is None else np.concatenate([part.end for part in parts if part.end is not None])
    return Rows(
        parts[0].columns,
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.time for part in parts if part.time is not None]),
        np.concatenate([part.mask for part in parts]),
        end,
    )
