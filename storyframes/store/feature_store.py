"""A feature store to read: :class:`FeatureStore`, and the view of one session for notebooks.

Features become data frames (pandas, or polars with the extra ``storyframes[export]``), and a whole session becomes an
xarray DataTree (the extra ``storyframes[explore]``). The tree reads nothing before it is asked for: mapped arrays stay
mapped, others are opened when they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from storyframes.features import STORIES, in_order
from storyframes.installation import install_line
from storyframes.spec import MAIN_ARRAY, ArraySpec, Axis, FeatureSpec
from storyframes.store.clip_table import to_frame
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.layout import CLIPS, StoreError
from storyframes.store.table_files import parse_table, read_table
from storyframes.store.tables import DEVICE, MASK, STORY_ID, TIME, Table, chosen_table, flat_arrays, named_columns
from storyframes.tracks import feature_and_track, of_track

if TYPE_CHECKING:
    import polars as pl
    import xarray

INDICES = (TIME, f"{DEVICE}{TIME}", STORY_ID)
"""The key that is a data frame's index: the first of these that the table has."""


class FeatureStore(FeatureReader):
    """The features of a study, read by session, feature and rows.

    Arrays are opened when they are first read and stay open, 16,384 of them; one that is memory-mapped holds no file
    descriptor.
    Threads may share a store. It can be pickled and forked: another process opens for itself, the same versions, and
    shares neither a lock nor a file's position.

    Args:
        location: the folder of the store, or the URL of one (``s3://bucket/prefix``).
        options: for a URL, see :func:`storyframes.store.layout.open_storage`.
        cache: of a store at a URL: a folder of this machine that keeps what was read, to be mapped from then on.
            Processes may share one, and a killed one leaves nothing wrong in it. Its files are its owner's alone.
        cache_bytes: with ``cache``, the most that the folder may hold (None: as much as the disk has): when it is
            full, copies that this process does not use go, then nothing more is kept. Without it, memory for chunks
            of arrays that are compressed or far away (None: 256 MB); mapped ones need none.

    Attributes:
        storage: the place where the store lies.

    Raises:
        StoreError: there is no feature store at ``location``, its catalogue is damaged, or ``cache`` cannot be used.
        StorageError: the place cannot be reached.

    Example:
        >>> store = FeatureStore("STORE")
        >>> store.sessions[:2], store.features("s00")[:3]
        (['s00', 's01'], ['dope', 'frames', 'glove'])
        >>> store.read("s00", "frames", array="time")[:2].round(3)  # seconds of the recording
        array([0.   , 0.067])
        >>> faces = store.read("s00", "openface", 0, 120)
        >>> faces.shape, faces.dtype.name
        ((120, 714), 'float32')
        >>> tracked = store.read("s00", "openface", 0, 120, array="valid")  # 1: the row is a measurement
        >>> faces[tracked == 1].shape == (tracked.sum(), 714)
        True
    """

    def session(self, session_id: str) -> SessionView:
        """One session, to look around in.

        Raises:
            StoreError: the store has no such session.
        """
        if not self.tracks(session_id):
            raise StoreError(self._absence(session_id, "frames"))
        return SessionView(self, session_id)

    def to_pandas(
        self, session_id: str, feature: str, *, rows: str | None = None, rate: float | None = None
    ) -> pd.DataFrame:
        """A feature of a session as a data frame, see :meth:`SessionView.to_pandas`."""
        return self.session(session_id).to_pandas(feature, rows=rows, rate=rate)

    def to_polars(
        self, session_id: str, feature: str, *, rows: str | None = None, rate: float | None = None
    ) -> pl.DataFrame:
        """The same for polars, see :meth:`SessionView.to_polars`."""
        return self.session(session_id).to_polars(feature, rows=rows, rate=rate)

    def to_xarray(self, session_id: str) -> xarray.DataTree:
        """A session for xarray, see :meth:`SessionView.to_xarray`."""
        return self.session(session_id).to_xarray()

    def story_ids(self, feature: str) -> tuple[str, ...]:
        """The stories that the rows of a feature of the story texts belong to; empty where there is none."""
        return tuple(self.attributes(STORIES, feature)["story_ids"]) if self.has(STORIES, feature) else ()

    def clips(self) -> pd.DataFrame:
        """The clip index: one row per window and what it is labelled of, with the columns that docs/store.md lists.

        Sorted by session, phase, start frame, position and target. ``attrs["schemes"]`` says of each column of labels
        whether it is nominal, ordinal or interval. Unlike the catalogue it is read anew at every call.

        Raises:
            StoreError: there is none, it is damaged, or of a newer format.
        """
        content = read_table(self.storage, CLIPS)
        if content is None:
            where = self.storage.location
            raise StoreError(f"{where} has no {CLIPS}: 'storyframes index STUDY {where}' writes it")
        return to_frame(parse_table(content, CLIPS))


class SessionView:
    """One session of a feature store, as :meth:`FeatureStore.session` gives it.

    Example:
        >>> from storyframes import FeatureStore
        >>> session = FeatureStore("STORE").session("s00")
        >>> tree = session.to_xarray()
        >>> tree["openface/values"].sel(column="AU12_r").shape
        (240,)
    """

    def __init__(self, store: FeatureReader, session_id: str) -> None:
        self.store = store
        self.session_id = session_id

    def __repr__(self) -> str:
        lines = [f"SessionView {self.session_id} of {self.store.storage.location}"]
        caveats = self.caveats
        for feature in in_order(self._features()):
            arrays = self.store.spec(self.session_id, feature).arrays
            lines += [f"  {feature}/{name}: {array!r}" for name, array in arrays.items()]
            lines += [f"  {feature} has the caveat: {caveat}" for caveat in caveats.get(feature, ())]
        return "\n".join(lines)

    @property
    def caveats(self) -> dict[str, list[str]]:
        """What users of the values must know, by feature; nothing of features without any."""
        statuses = self.store.statuses(self.session_id)
        return {each.feature: each.current.caveats for each in statuses if each.current and each.current.caveats}

    def to_xarray(self) -> xarray.DataTree:
        """Every feature as a node, with the coordinates time (of frames), column, joint and so on.

        A feature of another track than the session's own is the node ``<feature>@<track>``; its times are that track's.

        Raises:
            StoreError: the store has no such session.
            ModuleNotFoundError: xarray is not installed; the message says how to get it.
        """
        try:
            import xarray
        except ModuleNotFoundError as error:
            if error.name != "xarray":
                raise
            raise ModuleNotFoundError(f"to_xarray needs xarray: {install_line('explore')}", name="xarray") from None

        nodes = {feature: self._dataset(feature) for feature in self._features()}
        return xarray.DataTree.from_dict(nodes, name=self.session_id)

    def to_pandas(self, feature: str, *, rows: str | None = None, rate: float | None = None) -> pd.DataFrame:
        """A feature as a data frame: a column for each value, the times as its index.

        Before the values stand which row it is, ``mask`` (whether it is a measurement; what it is not is given all
        the same, as it is stored) and, of words and utterances, ``end`` and ``speaker``. ``attrs`` has the caveats
        and the units. Of another track the store may not know the clock: then the index is ``device_time``.

        Args:
            feature: of the session; of another track than its own, ``<feature>@<track>``.
            rows: what a row is to stand for, where the feature has several kinds (``frame``, ``word``, …); the kind of
                its main array without it.
            rate: rows a second, from the session's second 0 on, each that nearest to it; NaN where none is near.

        Raises:
            StoreError: there is no such feature, or it has no such rows.

        Example:
            >>> from storyframes import FeatureStore
            >>> session = FeatureStore("STORE").session("s00")
            >>> frame = session.to_pandas("openface", rate=15)
            >>> frame.index.name, frame.loc[frame["mask"], "AU12_r"].dtype.name
            ('time', 'float32')
        """
        return pandas_frame(chosen_table(self.store, self.session_id, feature, rows, rate))

    def to_polars(self, feature: str, *, rows: str | None = None, rate: float | None = None) -> pl.DataFrame:
        """The same for polars (the extra ``storyframes[export]``), with the times as a column.

        Raises:
            StoreError: as of :meth:`to_pandas`.
            ModuleNotFoundError: polars is not installed.
        """
        return polars_frame(chosen_table(self.store, self.session_id, feature, rows, rate))

    def _features(self) -> list[str]:
        """The session's features, those of other tracks with the track in their names."""
        tracks = self.store.tracks(self.session_id)
        return [of_track(name, track) for track in tracks for name in self.store.features(self.session_id, track)]

    def _dataset(self, feature: str) -> xarray.Dataset:
        import xarray

        group = self.store.open_group(self.session_id, feature)
        variables: dict[str, Any] = {}
        coordinates: dict[str, Any] = {}
        for name, array in self.store.spec(self.session_id, feature).arrays.items():
            data = self.store.array(self.session_id, feature, name)
            variables[name] = xarray.Variable(array.dimension_names, data, attrs=_notes(group[name]))
            coordinates |= _labels(array)
        frames = [variable.sizes[Axis.FRAME] for variable in variables.values() if Axis.FRAME in variable.dims]
        time = self._frame_times(of_track("frames", feature_and_track(feature)[1]))
        if time is not None and frames and set(frames) == {len(time)}:  # of an older recording it may have others
            notes = {"units": "s", "about": "presentation time of the frame"}
            coordinates.setdefault("frame_time", (str(Axis.FRAME), time, notes))
        there = {name: value for name, value in coordinates.items() if name not in variables}
        return xarray.Dataset(variables, coords=there, attrs=_notes(group))

    def _frame_times(self, clock: str) -> np.ndarray | None:
        if not self.store.has(self.session_id, clock):
            return None
        return self.store.read(self.session_id, clock, array="time")


def _labels(array: ArraySpec) -> dict[str, Any]:
    """The names of columns and joints as coordinates of their dimensions."""
    labels: dict[str, Any] = {}
    if array.columns:
        labels[array.dims[-1]] = (array.dims[-1], list(array.columns))
    if array.joints:
        labels[array.dims[-2]] = (array.dims[-2], list(array.joints))
    return labels


def _notes(node: Any) -> dict[str, Any]:
    return {key: value for key, value in node.attrs.items() if key not in {"columns", "joints", "provenance"}}


def pandas_frame(table: Table) -> pd.DataFrame:
    """All rows of a table, the times as its index; ``attrs`` has the caveats, and the units of columns that have one.

    Raises:
        StoreError: they cannot be read.
    """
    block = table.read(0, table.rows)
    parts = [pd.DataFrame({name: pd.Series(values) for name, values in block.keys.items()})]
    for array, flat in flat_arrays(block).items():
        parts.append(pd.DataFrame(flat, columns=[column.name for column in table.columns if column.array == array]))
    frame = pd.concat(parts, axis=1)
    index = next((name for name in INDICES if name in block.keys), None)
    frame = frame if index is None else frame.set_index(index)
    frame.attrs = {
        "session_id": table.session_id,
        "feature": table.feature,
        "caveats": table.caveats,
        "units": {column.name: column.unit for column in table.columns if column.unit},
    }
    return frame


def polars_frame(table: Table) -> pl.DataFrame:
    """The same for polars, without an index.

    Raises:
        StoreError: they cannot be read.
        ModuleNotFoundError: polars is not installed.
    """
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"to_polars needs polars: {install_line('export')}", name="polars") from None
    columns = named_columns(table, table.read(0, table.rows))
    texts = {name for name, values in columns.items() if values.dtype == object}
    return pl.DataFrame(
        [pl.Series(name, values, pl.String if name in texts else None) for name, values in columns.items()]
    )


@dataclass(frozen=True)
class Part:
    """What is meant of a feature.

    Attributes:
        rows: what a row stands for; None as in the feature's main array.
        arrays: these; empty for all of such rows.
        columns: of the main array these; empty for all.
    """

    rows: str | None = None
    arrays: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def part_of(spec: FeatureSpec, name: str) -> Part:
    """The part of this name; the whole where it is empty.

    Raises:
        StoreError: there is none, or its arrays have not the same rows.
    """
    if not name:
        return Part()
    if name in spec.groups:
        return Part(str(spec.arrays[MAIN_ARRAY].axis), (MAIN_ARRAY,), spec.columns[spec.groups[name]])
    arrays = (name,) if name in spec.arrays else tuple(one for one in spec.arrays if one.startswith(f"{name}_"))
    axes = {str(spec.arrays[one].axis) for one in arrays}
    if len(axes) > 1:
        raise StoreError(f"{spec.name}: {', '.join(arrays)} have not the same rows: name one of them")
    if arrays:
        return Part(axes.pop(), arrays)
    kinds = list(dict.fromkeys(str(array.axis) for array in spec.arrays.values()))
    if name in kinds:
        return Part(name)
    raise StoreError(f"{spec.name} has no part {name!r}; it has {', '.join((*spec.groups, *spec.arrays, *kinds))}")


def part_frame(
    store: FeatureReader, session_id: str, feature: str, name: str, rate: float | None, *, unmeasured: bool
) -> pd.DataFrame:
    """A part of a feature as a data frame; see :meth:`SessionView.to_pandas`.

    Args:
        store: where it is.
        session_id: the session.
        feature: as the store calls it.
        name: of the part; see :func:`part_of`.
        rate: rows a second; None takes them as they are stored.
        unmeasured: also the numbers of rows that are no measurement; else they are NaN, so that no mean is made of
            them. Whole numbers stay.

    Raises:
        StoreError: there is no such feature or part.
    """
    part = part_of(store.spec(session_id, feature), name)
    table = chosen_table(store, session_id, feature, part.rows, rate)
    if part.arrays:  # times are no values: a part that is one has them as its index alone
        table = replace(table, arrays={one: spec for one, spec in table.arrays.items() if one in part.arrays})
    frame = pandas_frame(table)
    values = [column.name for column in table.columns]
    if part.columns:
        places = {column.place: column.name for column in table.columns}
        kept = [places[table.arrays[MAIN_ARRAY].columns.index(one)] for one in part.columns]
        frame = frame.drop(columns=[one for one in values if one not in set(kept)])
        values = kept
    if not unmeasured and not frame[MASK].all():
        floats = [one for one in values if np.issubdtype(frame[one].dtype, np.floating)]
        frame[floats] = frame[floats].where(frame[MASK])
    return frame
