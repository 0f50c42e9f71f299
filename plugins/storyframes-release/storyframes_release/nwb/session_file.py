"""Writes the file of one session: an empty file with every series first, then the rows of each table in blocks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import numpy as np

import storyframes
from storyframes import FeatureName
from storyframes.store import StorageError, StoreError, Table
from storyframes_release.annotations.tiers import Tier
from storyframes_release.nwb.poses import Pose, find_poses

UNKNOWN_START = datetime(1900, 1, 1, tzinfo=UTC)
"""Stands in a file for the start of a session that the study does not know."""
_CHUNK_BYTES, _CACHE_BYTES = 2**16, 2**17  # of each series; together HDF5's caches would hold a session of poses
_SECOND = 1_000_000  # microseconds
_END = "end"
_Rows = Callable[[Mapping[str, np.ndarray], np.ndarray], np.ndarray]
"""Gives rows of a dataset from a block's flat arrays and its mask."""


class SessionFile:
    """The contents of one file. Series are added first; ``write`` makes the file.

    Args:
        session_id: of the session.
        participant_id: of the study; the only thing that the file says of a person.
        recorded_at: when the recording began; None where the study does not say.
    """

    def __init__(self, session_id: str, participant_id: str, recorded_at: datetime | None) -> None:
        from pynwb import NWBFile  # of the extra storyframes-release[nwb]
        from pynwb.file import Subject

        self._file = NWBFile(
            session_description=f"Features of a recording, exported by storyframes {storyframes.__version__}. Times "
            f"are seconds since its first frame or sound. {about_start(recorded_at)}",
            identifier=str(uuid.uuid4()),
            session_start_time=_start(recorded_at),
            session_id=session_id,
        )
        self._file.subject = Subject(
            subject_id=participant_id,
            species="Homo sapiens",
            sex="U",
            age="P0D/",
            description="Age and sex are not in the feature store: 'P0D/' is any age, 'U' is unknown.",
        )
        about = "features of the recording: behaviour of its people, sound and language"
        self._behavior = self._file.create_processing_module("behavior", about)
        self._skeletons: list[Any] = []
        self._fills: list[tuple[Table, list[tuple[Any, _Rows]]]] = []
        self.rows: dict[str, int] = {}

    def add_table(self, table: Table) -> None:
        """Add the series of a table, or its intervals where its rows have ends.

        Raises:
            StoreError: the rows of intervals cannot be read.
        """
        about = str(table.attributes.get("about", ""))
        notes = f"{about}. Rows that are not measurements are NaN." + "".join(
            f" Caveat: {caveat}." for caveat in table.caveats
        )
        if _END in (key.name for key in table.keys):
            self._add_intervals(table, notes)
        else:
            self._add_series(table, notes)
        self.rows[table.name] = table.rows

    def add_tiers(self, name: str, about: str, tiers: Iterable[Tier]) -> None:
        """Add annotations as a table of intervals; none without annotations."""
        rows = sorted(((span, tier) for tier in tiers for span in tier.spans), key=lambda row: row[0])
        if not rows:
            return
        columns = {
            "start_time": ("when it begins", [span.start / _SECOND for span, _ in rows]),
            "stop_time": ("when it ends; of a moment as start_time", [span.end / _SECOND for span, _ in rows]),
            "label": ("what was annotated", [span.text for span, _ in rows]),
            "tier": ("the annotation's scheme, person, target and rater, as in ELAN", [tier.name for _, tier in rows]),
            "person": ("whom it is about; empty where the study names nobody", [tier.person for _, tier in rows]),
            "rater": ("who gave it; empty where the study names nobody", [tier.rater for _, tier in rows]),
        }
        self._file.add_time_intervals(_intervals(name, about, columns))
        self.rows[name] = len(rows)

    def write(self, path: Path) -> tuple[str, str] | None:
        """Write the file; tables are read once, in blocks.

        Returns:
            the table that cannot be read, which makes the file useless, and why; None where all can.
        """
        import h5py
        from ndx_pose import Skeletons
        from pynwb import NWBHDF5IO

        if self._skeletons:
            self._behavior.add(Skeletons(skeletons=self._skeletons))
        with h5py.File(path, "w", rdcc_nbytes=_CACHE_BYTES) as hdf5, NWBHDF5IO(file=hdf5, mode="w") as file:
            file.write(self._file)
            for table, fills in self._fills:
                try:
                    _fill(table, fills)
                except (StoreError, StorageError) as error:
                    return table.name, str(error)
        return None

    def _add_intervals(self, table: Table, notes: str) -> None:
        """Rows that last, such as words: few, so they are read at once."""
        blocks = list(table.blocks())
        keys = {name: np.concatenate([block.keys[name] for block in blocks]) for name in blocks[0].keys}
        begin = keys.get("start", keys["time"])
        columns: dict[str, tuple[str, Any]] = {
            "start_time": ("when the row begins", begin),
            "stop_time": ("when the row ends", keys[_END]),
        }
        for key in table.keys:
            if key.name not in ("time", "start", _END, "mask", str(table.axis)):
                values = keys[key.name]
                is_text = values.dtype == object
                columns[key.name] = (key.about, [text or "" for text in values] if is_text else values)
        for array, spec in table.arrays.items():
            places = [column.place for column in table.columns if column.array == array]
            rows = _rows(table, array, places)
            columns[array] = (
                f"{spec.about}. {notes}",
                np.concatenate([rows(block.flat, block.keys["mask"].astype(bool)) for block in blocks]),
            )
            self._add_columns(table, array, places)
        self._file.add_time_intervals(_intervals(table.name, notes, columns))

    def _add_series(self, table: Table, notes: str) -> None:
        from pynwb import TimeSeries

        seconds = _empty((table.rows,), np.dtype("float64"))
        fills: list[tuple[Any, _Rows]] = [(seconds, lambda flat, _: flat["time"])]
        timestamps: Any = seconds
        poses = list(find_poses(table))
        for pose in poses:
            timestamps = self._add_pose(table, pose, notes, timestamps, fills)
        for array, spec in table.arrays.items():
            in_poses = {place for pose in poses if pose.array == array for place in pose.places.ravel().tolist()}
            chosen = [column for column in table.columns if column.array == array and column.place not in in_poses]
            if not chosen:
                continue
            rows = _rows(table, array, [column.place for column in chosen])
            shape = (table.rows, len(chosen)) if spec.shape else (table.rows,)
            data = _empty(shape, _dtype(table, array))
            units = {column.unit for column in chosen}
            several = f"of each column, in {_series_name(table, array)}.columns"
            series = TimeSeries(
                name=_series_name(table, array),
                data=data,
                unit=several if len(units) > 1 else units.pop() or "not stated",
                timestamps=timestamps,
                description=f"{spec.about}. {notes}",
            )
            timestamps = series if timestamps is seconds else timestamps
            self._behavior.add(series)
            self._add_columns(table, array, [column.place for column in chosen])
            fills.append((data, rows))
        if timestamps is seconds:  # of the clock of frames, which has no array but their times
            number = _empty((table.rows,), np.dtype("int64"))
            fills.append((number, lambda flat, _: flat[str(table.axis)]))
            about = f"{notes} The number of each {table.axis}, from 0."
            self._behavior.add(
                TimeSeries(name=table.name, data=number, unit="count", timestamps=seconds, description=about)
            )
        self._fills.append((table, fills))

    def _add_pose(self, table: Table, pose: Pose, notes: str, timestamps: Any, fills: list[tuple[Any, _Rows]]) -> Any:
        """Add a pose; all of a table's series share the timestamps of the first, which is returned."""
        from ndx_pose import PoseEstimation, PoseEstimationSeries, Skeleton
        from pynwb import TimeSeries

        added = []
        for number, point in enumerate(pose.points):
            data = _empty((table.rows, pose.places.shape[1]), np.dtype("float32"))
            fills.append((data, _rows(table, pose.array, pose.places[number].tolist())))
            confidence = None
            if pose.confidence in table.arrays:
                confidence = _empty((table.rows,), np.dtype("float32"))
                places = [int(pose.confidence_places[number])]
                fills.append((confidence, _rows(table, pose.confidence, places, is_flat=True)))
            series = PoseEstimationSeries(
                name=point,
                data=data,
                unit=pose.unit,
                reference_frame=pose.frame,
                timestamps=timestamps,
                confidence=confidence,
                confidence_definition=table.arrays[pose.confidence].about if confidence is not None else None,
                description=f"{point} of {pose.name}",
            )
            timestamps = timestamps if isinstance(timestamps, TimeSeries) else series
            added.append(series)
        skeleton = Skeleton(name=pose.name, nodes=list(pose.points))
        self._skeletons.append(skeleton)
        self._behavior.add(
            PoseEstimation(
                name=pose.name,
                pose_estimation_series=added,
                description=f"{table.arrays[pose.array].about}. {notes}",
                skeleton=skeleton,
                source_software=FeatureName(table.feature).feature,
            )
        )
        return timestamps

    def _add_columns(self, table: Table, array: str, places: Collection[int]) -> None:
        """Add the names and units of the columns of a series, where it has several."""
        from hdmf.common import DynamicTable, VectorData

        if not table.arrays[array].shape:
            return
        name = _series_name(table, array)
        chosen = [column for column in table.columns if column.array == array and column.place in places]
        units = [column.unit or "not stated" for column in chosen]
        names = [column.name for column in chosen]
        self._behavior.add(
            DynamicTable(
                name=f"{name}.columns",
                description=f"the columns of the data of {name}, in their order",
                columns=[
                    VectorData(name="column", description="its name in storyframes", data=names),
                    VectorData(name="unit", description="its unit", data=units),
                ],
            )
        )


def _fill(table: Table, fills: Sequence[tuple[Any, _Rows]]) -> None:
    start = 0
    for block in table.blocks():
        flat, mask = block.flat | block.keys, block.keys["mask"].astype(bool)
        for data, rows in fills:
            data.dataset[start : start + len(mask)] = rows(flat, mask)
        start += len(mask)


def why_left_out(table: Table) -> str:
    """Why a table cannot be in a file; empty where it can."""
    if "time" not in (key.name for key in table.keys):
        return "its rows have no time in the session's seconds"
    return "" if table.rows else "it has no rows"


def about_start(recorded_at: datetime | None) -> str:
    """One sentence on what the start time of the file is."""
    if recorded_at is None:
        return f"session_start_time is not known: {UNKNOWN_START:%Y-%m-%d} is a placeholder, not a date."
    zone = "" if recorded_at.tzinfo else "; its time zone is not known, and UTC is a placeholder"
    hour = "" if recorded_at.time() != time() else "; midnight is a placeholder if the table has the date alone"
    return f"session_start_time is recorded_at of the study's table of sessions{zone}{hour}."


def _start(recorded_at: datetime | None) -> datetime:
    if recorded_at is None:
        return UNKNOWN_START
    return recorded_at if recorded_at.tzinfo else recorded_at.replace(tzinfo=UTC)


def _series_name(table: Table, array: str) -> str:
    return table.name if array == "values" else f"{table.name}.{array}"


def _intervals(name: str, about: str, columns: dict[str, tuple[str, Any]]) -> Any:
    from hdmf.common import VectorData
    from pynwb.epoch import TimeIntervals

    made = [VectorData(name=column, description=text, data=data) for column, (text, data) in columns.items()]
    return TimeIntervals(name=name, description=about, columns=made)


def _dtype(table: Table, array: str) -> np.dtype:
    """The dtype of a series: that of the store, widened where it needs a NaN for what was not measured."""
    dtype = np.dtype(table.arrays[array].dtype)
    if dtype.kind == "f":
        return np.dtype("float32") if dtype.itemsize < 4 else dtype
    return dtype if _is_mask(table, array) else np.dtype("float32" if dtype.itemsize <= 2 else "float64")


def _is_mask(table: Table, array: str) -> bool:
    return array == table.mask.array


def _rows(table: Table, array: str, places: Sequence[int], *, is_flat: bool = False) -> _Rows:
    """A function that gives the columns at these places of a block; NaN where the row is not a measurement.

    Args:
        is_flat: give one number a row instead of a row of one column.
    """
    dtype, keeps_all = _dtype(table, array), _is_mask(table, array)
    has_one = is_flat or not table.arrays[array].shape

    def rows(flat: Mapping[str, np.ndarray], mask: np.ndarray) -> np.ndarray:
        values = flat[array][:, list(places)].astype(dtype)
        if not keeps_all:
            values[~mask] = np.nan
        return values[:, 0] if has_one else values

    return rows


def _empty(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """A dataset of this shape that is filled once the file is there."""
    from hdmf.backends.hdf5.h5_utils import H5DataIO

    width = int(np.prod(shape[1:], dtype=int)) * dtype.itemsize
    chunks = (min(shape[0], max(1, _CHUNK_BYTES // width)), *shape[1:])
    return H5DataIO(shape=shape, dtype=dtype, chunks=chunks, compression="gzip", compression_opts=4, shuffle=True)
