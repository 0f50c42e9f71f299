"""Features that other programs made, taken into a feature store: a file of each session becomes a version.

Values are stored as float32, with the file's own times, or one row for each frame. Nothing is published unless every
file can be. What a version is of is the digest of its file; neither its name nor its path is stored, because both may
name a person.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

import storyframes
from storyframes.features import CLOCK, FEATURES
from storyframes.spec import MAIN, ArraySpec, Axis, FeatureSpec, SpecError, may_be_called, of_track
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.maintenance import is_intact
from storyframes.store.publish import FeatureWriter
from storyframes.store.record_status import read_status
from storyframes.store.records import Caveat, canonical_json
from storyframes.store.session_times import SessionTimes
from storyframes.store.storage.files import sha256_file
from storyframes.times import SOUND_FITS_S, last_frame_end_s

VERSION = 1
"""Of this code; raised when it would give other values of the same file."""
ABOUT = "adopted from files that another program made"
MEASURED = "measured"
_LARGEST_WHOLE = 2**24  # float32 has every whole number up to this one
_MAY_LACK, _MAY_LACK_S = 0.1, 1.0
"""The share of a recording, and the seconds, that may be without rows at its end where they come at a rate."""
TIME_UNITS = {"s": (1, 1), "ms": (1, 1_000), "us": (1, 1_000_000), "min": (60, 1)}
"""By unit of times, seconds as a fraction."""
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib")


class AdoptError(StoreError):
    """Files cannot be adopted; each line of the message says which, and why."""


@dataclass(frozen=True)
class Adoption:
    """How files become a feature. One of ``time``, ``rate`` and ``per_frame`` is given.

    Attributes:
        name: of the feature.
        about: one sentence on what it is, stored with it.
        time: the column with each row's time on the track's recording; increasing.
        unit: of these times, one of ``TIME_UNITS``; empty for seconds, where times that look like others are refused.
        rate: rows a second, the first at second 0.
        per_frame: there is a row for each frame of the track's video.
        columns: of the values; empty for all others, which have to be numbers.
        mask: the column that is 1 in rows that are measurements and 0 in others; empty where every row with a value is.
    """

    name: str
    about: str = ABOUT
    time: str = ""
    unit: str = ""
    rate: float | None = None
    per_frame: bool = False
    columns: tuple[str, ...] = ()
    mask: str = ""
    track: str = MAIN

    def spec(self, columns: Sequence[str]) -> FeatureSpec:
        """The feature's specification.

        Raises:
            SpecError: the feature or a column cannot be called so.
        """
        axis = Axis.FRAME if self.per_frame else Axis.MOMENT
        time = ArraySpec(axis, "float64", "when the row is, on the recording's clock, by its file", units="s")
        values = ArraySpec(axis, "float32", "as in the file; NaN where it has none", (len(columns),), ("column",),
                           columns=tuple(columns))  # fmt: skip
        mask = ArraySpec(axis, "uint8", "1 where the row is a measurement", fill=0)
        arrays = {"values": values, **({} if self.per_frame else {"time": time}), MEASURED: mask}
        return FeatureSpec(self.name, self.about, arrays, mask=MEASURED)


class Change(StrEnum):
    """What adopting a file does to the store."""

    NEW = "new"
    REPLACED = "replaced"
    UNCHANGED = "up to date"


@dataclass(frozen=True)
class Adopted:
    """A file that is, or would be, a version.

    Attributes:
        sha256: of the file.
        measured: the share of the rows that are measurements.
        first_s, last_s: times of the first and last row; None of a row for each frame.
    """

    session_id: str
    file: Path
    sha256: str
    change: Change
    rows: int
    columns: tuple[str, ...]
    measured: float
    first_s: float | None
    last_s: float | None


def adopt(
    store: FeatureStore,
    files: Mapping[str, Path],
    how: Adoption,
    *,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Adopted]:
    """Publish one feature of some sessions from files; nothing is published unless all of it can be.

    Args:
        files: by session, Parquet, CSV (comma, or tab in .tsv) or NumPy's .npy, of shape (rows, columns).
        force: also replace versions that were adopted from the same file.
        dry_run: read and check everything, and publish nothing.
        progress: called with (session_id, number, how many) before each file is read.

    Raises:
        AdoptError: files that cannot be adopted, all of them named; or the options do not fit each other.
        StorageError: the store cannot be read or written.
        OSError: a file cannot be read.
    """
    _check(how)
    looked_at, problems = [], []
    for number, (session_id, file) in enumerate(files.items(), start=1):
        progress(session_id, number, len(files))
        try:
            looked_at.append(_look_at(store, session_id, file, how, force=force))
        except (AdoptError, SpecError) as error:
            problems.append(f"{file.name}: {error}")
    if not problems:
        problems += _differences(store, looked_at, how)
    if problems:
        raise AdoptError("\n".join(problems))
    if dry_run:
        return looked_at
    for adopted in looked_at:
        if adopted.change is not Change.UNCHANGED:
            _publish(store, adopted, how)
    catalogue.compact(store.storage, [(adopted.session_id, of_track(how.name, how.track)) for adopted in looked_at])
    return looked_at


def _check(how: Adoption) -> None:
    if how.name in FEATURES or not may_be_called(how.name):
        raise AdoptError(
            f"--name {how.name}: is a feature of storyframes, or cannot be one's name: lower-case letters, digits and "
            "'_', at most 64, a letter first, and no word with a meaning of its own"
        )
    if (how.time != "") + (how.rate is not None) + how.per_frame != 1:
        raise AdoptError("say when rows are, by one of --time COLUMN, --rate HZ and --per-frame")
    if how.unit and (how.unit not in TIME_UNITS or not how.time):
        raise AdoptError(f"--time-unit {how.unit}: is of --time COLUMN, and one of {', '.join(TIME_UNITS)}")


def _look_at(store: FeatureStore, session_id: str, file: Path, how: Adoption, *, force: bool) -> Adopted:
    if session_id not in store.sessions:
        raise AdoptError(f"the store has no session {session_id!r}: extract its frames first, or say --session-from")
    sha256 = sha256_file(file)
    rows = _read(file, how)
    how.spec(rows.columns)
    _check_times(store, session_id, rows, how)
    status = read_status(store.storage, session_id, of_track(how.name, how.track))
    current = status.record if status else None
    change = Change.REPLACED if current else Change.NEW
    if current:
        made_of = current.provenance.get("adopted")
        if not isinstance(made_of, dict):
            raise AdoptError(f"{session_id}/{current.feature} was extracted, not adopted: choose another --name")
        if made_of.get("sha256") == sha256 and not force and is_intact(store.storage, current):
            if current.fingerprint != _fingerprint(sha256, how):
                raise AdoptError(f"{session_id}/{current.feature} is of this file in another way: add --force")
            change = Change.UNCHANGED
    first, last = (float(rows.time[0]), float(rows.time[-1])) if rows.time is not None else (None, None)
    return Adopted(
        session_id, file, sha256, change, len(rows.values), rows.columns, float(rows.mask.mean()), first, last
    )


def _differences(store: FeatureStore, looked_at: Sequence[Adopted], how: Adoption) -> Iterator[str]:
    """Sessions whose columns would not be those of the first file: no clips could be read of both."""
    if not looked_at:
        return
    spec, feature = how.spec(looked_at[0].columns), of_track(how.name, how.track)
    for adopted in looked_at[1:]:
        if adopted.columns != looked_at[0].columns:
            yield f"{adopted.file.name}: has other columns than {looked_at[0].file.name}: say --columns"
    of_files: dict[str, str] = {}  # by digest, the session
    these = {adopted.session_id for adopted in looked_at}
    others = [name for name in store.sessions if name not in these and store.has(name, feature)]
    for session_id, other in store.specs(others, feature).items():
        if other.arrays != spec.arrays:
            yield f"{session_id}/{feature} has other columns or rows: adopt all sessions alike, or say another --name"
        made_of = store.attributes(session_id, feature).get("provenance", {}).get("adopted")
        of_files[made_of["sha256"] if isinstance(made_of, dict) else ""] = session_id
    for adopted in looked_at:
        session_id = of_files.setdefault(adopted.sha256, adopted.session_id)
        if session_id != adopted.session_id and adopted.measured:
            yield f"{adopted.file.name}: is the very file of {session_id}: each session has values of its own"


def _publish(store: FeatureStore, adopted: Adopted, how: Adoption) -> None:
    rows = _read(adopted.file, how)
    if sha256_file(adopted.file) != adopted.sha256:
        raise AdoptError(f"{adopted.file.name}: changed while it was being read: adopt it again")
    with FeatureWriter(store.storage, adopted.session_id, how.spec(rows.columns), track=how.track) as out:
        out.caveat(Caveat.MADE_ELSEWHERE)
        out.write("values", rows.values)
        if rows.time is not None:
            out.write("time", rows.time)
        out.write(MEASURED, rows.mask)
        out.publish(
            _fingerprint(adopted.sha256, how),
            {
                "adopted": {"sha256": adopted.sha256, "bytes": adopted.file.stat().st_size, "version": VERSION},
                "settings": _settings(how),
                "code": f"storyframes {storyframes.__version__}",
            },
        )


def _settings(how: Adoption) -> dict[str, Any]:
    settings = asdict(how) | {"columns": list(how.columns)}
    return settings if how.unit else {name: value for name, value in settings.items() if name != "unit"}


def _fingerprint(sha256: str, how: Adoption) -> str:
    content = {"adopted": sha256, "extractor": VERSION, "settings": _settings(how)}
    return hashlib.sha256(canonical_json(content)).hexdigest()


# --- what a file says ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """The rows of a file.

    Attributes:
        values: (n, columns) float32.
        time: (n,) float64, seconds; None where there is a row for each frame.
        mask: (n,) uint8.
    """

    columns: tuple[str, ...]
    values: np.ndarray
    time: np.ndarray | None
    mask: np.ndarray


def _read(file: Path, how: Adoption) -> _Rows:
    table = _columns(file, has_times=how.time != "")
    chosen = {name: [column for column in table if _is_of(name, column, table)] for name in how.columns}
    for name in (how.time, how.mask, *how.columns):
        if name and not chosen.get(name, name in table):
            few = ", ".join([*table][:12])
            raise AdoptError(f"has no column {name!r}; it has {few}{', …' if len(table) > 12 else ''}")
    names = tuple(column for columns in chosen.values() for column in columns)
    names = names or tuple(name for name in table if name not in (how.time, how.mask))
    if not names or not len(table[names[0]]):
        raise AdoptError("has no rows, or no column of values")
    columns = [_numbers(name, table[name], _LARGEST_WHOLE) for name in names]
    with np.errstate(over="ignore"):  # refused below
        values = np.stack(columns, axis=1).astype(np.float32)
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0].tolist()
        raise AdoptError(f"row {row + 1}: {names[column]!r} is {columns[column][row]:g}, which float32 does not hold")
    time = None
    if how.time:
        seconds, units = TIME_UNITS[how.unit or "s"]
        time = _numbers(how.time, table[how.time]) * seconds / units
    elif how.rate is not None:
        time = np.arange(len(values)) / how.rate
    is_measured = np.asarray((~np.isnan(values)).any(axis=1))
    if how.mask:
        given = _numbers(how.mask, table[how.mask])
        if wrong := np.flatnonzero(~np.isin(given, (0, 1))).tolist():
            raise AdoptError(f"row {wrong[0] + 1}: the mask {how.mask!r} is {given[wrong[0]]:g}, neither 0 nor 1")
        is_measured &= given == 1
    return _Rows(names, values, time, is_measured.astype(np.uint8))


def _is_of(name: str, column: str, table: Collection[str]) -> bool:
    """Whether a column is the one of this name or, where there is none, an entry of its lists."""
    return column == name or (name not in table and re.fullmatch(rf"{re.escape(name)}_\d{{3,}}", column) is not None)


def _columns(file: Path, *, has_times: bool) -> dict[str, Any]:
    """The columns of a file by name: Arrow's, or of a NumPy file by their numbers.

    Args:
        has_times: its rows say when they are; otherwise an empty line is a row, or those after it would be too early.
    """
    kind = file.suffix.lower()
    try:
        if kind == ".npy":
            array = np.load(file, allow_pickle=False)
            if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
                raise AdoptError(f"is {array.shape} {array.dtype}: it has to be numbers of the shape (rows, columns)")
            return {str(number): column for number, column in enumerate(array.reshape(len(array), -1).T)}
        if kind == ".parquet":
            table = pq.read_table(str(file), partitioning=None)
        elif kind in (".csv", ".tsv"):
            whole = pyarrow.csv.ReadOptions(block_size=min(file.stat().st_size + 1, 2**31 - 1))  # types are of all rows
            sign = pyarrow.csv.ParseOptions(delimiter="\t" if kind == ".tsv" else ",", ignore_empty_lines=has_times)
            table = pyarrow.csv.read_csv(str(file), read_options=whole, parse_options=sign)
        elif kind in _PICKLES:
            raise AdoptError(
                "is a pickle, and opening one runs whatever its author wrote: in a Python that may, write each "
                "session's array with numpy.save('SESSION.npy', array), and adopt these"
            )
        else:
            raise AdoptError(f"is no .parquet, .csv, .tsv or .npy but {kind or 'without an ending'}")
    except (pa.ArrowException, ValueError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # of the system; Arrow's own have no number
            raise
        why = ": ".join(str(error).splitlines()[0].split(": ")[:2])  # then Arrow quotes the row
        raise AdoptError(f"cannot be read ({why[:200]})") from None
    names = [name.strip() for name in table.column_names]
    if len(names) == 1 and ";" in names[0]:
        raise AdoptError("has semicolons between its columns: save it with commas, and points in its numbers")
    if kind in (".csv", ".tsv") and _are_numbers(names):
        raise AdoptError("has no header, or one of numbers alone: its first line has to be the names of the columns")
    if twice := [name for name in names if names.count(name) > 1]:
        raise AdoptError(f"has two columns {twice[0]!r}")
    columns: dict[str, Any] = {}
    for name, column in zip(names, table.columns, strict=True):
        columns |= _flattened(name, column)
    return columns


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether these are measurements, not names; 0, 1, 2, … are how pandas names columns without names."""
    given = [name for name in names if name]
    try:
        return bool([*map(float, given)]) and given != [str(number) for number in range(len(given))]
    except ValueError:
        return False


def _flattened(name: str, column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """A column, or one for each entry of lists of one length (embeddings): ``name_000``, ``name_001``, …"""
    if not pa.types.is_list(column.type) and not pa.types.is_fixed_size_list(column.type):
        return {name: column}
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise AdoptError(f"the lists in the column {name!r} are not of one length: {lengths[:5]}")
    return {f"{name}_{number:03d}": pc.list_element(column, number) for number in range(lengths[0])}


def _numbers(name: str, column: Any, largest_whole: int = 2**53) -> np.ndarray:
    """(n,) float64; NaN where the file has no value."""
    is_whole = pa.types.is_integer(column.type) if isinstance(column, pa.ChunkedArray) else column.dtype.kind in "iu"
    if isinstance(column, pa.ChunkedArray):
        kind = column.type
        if pa.types.is_boolean(kind):
            column = column.cast(pa.int8())
        elif not any(is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)):
            raise AdoptError(f"the column {name!r} is {kind}, not numbers: name the columns of numbers by --columns")
        column = column.to_numpy() if column.null_count == 0 else column.cast(pa.float64(), safe=False).to_numpy()
    numbers = np.asarray(column, np.float64)
    if is_whole and (np.abs(numbers) > largest_whole).any():
        raise AdoptError(f"the column {name!r} has whole numbers above {largest_whole}, which are not stored exactly")
    return numbers


def _check_times(store: FeatureStore, session_id: str, rows: _Rows, how: Adoption) -> None:
    """Refuse rows that are not of this recording."""
    clock = of_track(CLOCK, how.track)
    has_frames = store.has(session_id, clock)
    if rows.time is None:
        frames = store.describe(session_id, clock, "time").shape[0] if has_frames else 0
        if len(rows.values) != frames:
            raise AdoptError(f"has {len(rows.values)} rows, but {session_id} has {frames} frames: say --time or --rate")
        return
    if wrong := np.flatnonzero(~np.isfinite(rows.time)).tolist():
        raise AdoptError(f"row {wrong[0] + 1}: has no time")
    if wrong := np.flatnonzero(np.diff(rows.time) <= 0).tolist():
        before, after = rows.time[wrong[0]], rows.time[wrong[0] + 1]
        raise AdoptError(f"row {wrong[0] + 2}: is at {after:g} s, after a row at {before:g} s: times have to increase")
    end = _end_s(store, session_id, how)
    if rows.time[0] < 0 or rows.time[-1] > end + SOUND_FITS_S:
        number = int(np.flatnonzero((rows.time < 0) | (rows.time > end + SOUND_FITS_S))[0])
        raise AdoptError(
            f"row {number + 1}: is at {rows.time[number]:g} s, outside of the recording of {session_id}, which ends at "
            f"{end:.2f} s: times are in seconds since its first frame{_likely_unit(rows.time, end, how)}"
        )
    if how.time and not how.unit and (guess := _likely_unit(rows.time, end, how)):
        raise AdoptError(
            f"its last row is at {rows.time[-1]:g}, and the recording of {session_id} ends at {end:.2f} s{guess}; "
            "--time-unit s, where they are seconds"
        )
    if how.rate is not None and end - (rows_end := len(rows.time) / how.rate) > max(_MAY_LACK_S, _MAY_LACK * end):
        raise AdoptError(
            f"{len(rows.time)} rows at {how.rate:g} a second end at {rows_end:.2f} s, and the recording of "
            f"{session_id} at {end:.2f} s: is --rate {len(rows.time) / end:.4g} meant? Of a part, give --time"
        )


def _likely_unit(time: np.ndarray, end_s: float, how: Adoption) -> str:
    """A question about the unit of times that are hardly seconds; empty where they may be.

    Args:
        time: (n,) increasing; as the file has them where no unit is given.
    """
    if how.unit or not how.time or time[-1] <= 0:
        return ""
    ends = {unit: float(time[-1]) * seconds / units for unit, (seconds, units) in TIME_UNITS.items()}
    within = {unit: end for unit, end in ends.items() if end <= end_s + SOUND_FITS_S}
    nearest = max(within, key=lambda unit: within[unit], default="s")
    counts = len(time) > 2 and bool((np.diff(time) == 1).all())
    ends_early = end_s - ends["s"] > max(_MAY_LACK_S, _MAY_LACK * end_s)
    if counts and (ends_early or nearest != "s"):
        return ": are they numbers of frames? Divide them by the rate, or say --per-frame where every frame has a row"
    return f": are they in {nearest}? Say --time-unit {nearest}" if nearest != "s" else ""


def _end_s(store: FeatureStore, session_id: str, how: Adoption) -> float:
    """When the track ends by its own clock: with its last frame, or without a video the last row of what it has."""
    clock = of_track(CLOCK, how.track)
    if store.has(session_id, clock):
        return last_frame_end_s(np.asarray(store.view(session_id, clock, array="time")))
    times, ends = SessionTimes(store, session_id), [0.0]
    for feature in store.features(session_id, how.track):
        if feature != how.name:
            name = of_track(feature, how.track)
            for axis in {array.axis for array in store.spec(session_id, name).arrays.values()}:
                ends += [float(of_axis.max()) for of_axis in times.of_rows(name, axis).values() if len(of_axis)]
    if not max(ends):
        raise AdoptError(f"nothing in the store says how long {session_id}, {how.track} is: extract its frames first")
    return max(ends)
