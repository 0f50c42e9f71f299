"""A feature store to read: :class:`FeatureStore`, and the view of one session for notebooks.

Features become data frames (pandas, or polars), and a whole session becomes an xarray DataTree; polars and xarray are
in the extra ``storyframes[explore]``. The tree reads nothing before it is asked for: mapped arrays stay mapped, others
are opened when they are read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd

from storyframes.features import CLOCK, STORIES, in_order
from storyframes.mistakes import explained, no_attribute
from storyframes.notebook import Band, clip_bands, draw_curves, html_table, label_bands, plot_columns, strip
from storyframes.spec import ArraySpec, Axis, feature_and_track, of_track
from storyframes.store import tables
from storyframes.store.clip_table import to_frame
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.layout import CLIPS, StoreError
from storyframes.store.named.selection import Selection, import_xarray, pandas_frame, polars_frame
from storyframes.store.session_times import SessionTimes
from storyframes.store.study import Forgotten, StudyRecord, note_given, read_forgotten, read_study_record
from storyframes.store.table_files import stored_table

if TYPE_CHECKING:
    import polars as pl
    import xarray

_INSTEAD = {
    "open": "store['p01-s01'] for a session",
    "info": "print(store) for what it has, store.catalogue for every attempt",
    "index": "store.clips()",
    "labels": "store.clips(), which has the labels of each window",
    "keys": "store.sessions",
}
_IN_SESSION = {
    "features": "list(session)",
    "keys": "list(session)",
    "read": "session['openface'][0:120]",
    "shape": "session['openface'].shape",
}


class FeatureStore(FeatureReader):
    """The features of a study, read by session, feature and rows.

    Arrays are opened when they are first read and stay open, up to 16,384 of them; a memory-mapped array needs no file
    descriptor. Threads may share a store. It can be pickled and forked: another process opens the same versions for
    itself, and shares neither a lock nor a file's position.

    Args:
        location: the folder of the store, or the URL of one (``s3://bucket/prefix``).
        options: for a URL, see :func:`storyframes.store.layout.open_storage`.
        cache: for a store at a URL, a folder of this machine that keeps what was read, to be mapped from then on.
            Processes may share it, and a killed one leaves nothing wrong in it. Its files have mode 0600.
        cache_bytes: with ``cache``, the most that the folder may take (None: as much as is free); when it is full,
            copies that this process does not use are removed, then nothing more is kept. Without ``cache``, memory for
            chunks of compressed or far arrays (None: 256 MB); mapped arrays need none.

    Raises:
        StoreError: ``location`` is no feature store, its catalogue is damaged, or ``cache`` cannot be used.
        StorageError: the storage cannot be reached.

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
        >>> store["s00"]["openface.gaze"].between(3.0, 5.0)[:].shape  # the same by names and seconds
        (30, 8)
        >>> len(store), "s00" in store
        (10, True)
    """

    def __bool__(self) -> bool:
        """True, also of a store without sessions."""
        return True

    def __len__(self) -> int:
        return len(self.sessions)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sessions)

    def __contains__(self, session_id: object) -> bool:
        return session_id in self.sessions

    def __getitem__(self, session_id: str) -> SessionView:
        """The same as :meth:`session`."""
        return self.session(session_id)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, _INSTEAD)

    def _ipython_key_completions_(self) -> list[str]:
        return self.sessions

    def session(self, session_id: str) -> SessionView:
        """One session, to look at in a notebook.

        Raises:
            StoreError: the store has no such session.
        """
        if not isinstance(session_id, str):
            raise StoreError(f"{session_id!r} is not a session: store[{self.sessions[:1]}] takes its id, not a number")
        if not self.tracks(session_id):
            raise self._absence(session_id, "frames")
        return SessionView(self, session_id)

    @explained("store.to_pandas('p01-s01', 'openface.gaze'), or store.catalogue or store.clips() for tables of all")
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

    @explained("store.to_xarray('p01-s01')")
    def to_xarray(self, session_id: str) -> xarray.DataTree:
        """A session for xarray, see :meth:`SessionView.to_xarray`."""
        return self.session(session_id).to_xarray()

    def story_ids(self, feature: str) -> tuple[str, ...]:
        """The stories of the rows of a feature of the story texts; empty where the store does not have the feature."""
        return tuple(self.attributes(STORIES, feature)["story_ids"]) if self.has(STORIES, feature) else ()

    def _repr_html_(self) -> str:
        """How many sessions have each feature, and which in their order: no ids and no folders."""
        sessions = self.sessions
        rows = []
        for feature in in_order(self._versions.counts()):
            having = np.array([self.has(session_id, feature) for session_id in sessions], bool)
            rows.append((feature, int(having.sum()), strip(having)))
        return html_table(f"FeatureStore: {len(sessions)} sessions", ("feature", "sessions", "which have it"), rows)

    def clips(self) -> pd.DataFrame:
        """The clip index: one row per window and target of its labels, with the columns that docs/store.md lists.

        Sorted by session, phase, start frame, position and target. ``attrs["schemes"]`` says for each label
        column whether it is nominal, ordinal or interval. Unlike the catalogue it is read again at every call.

        Raises:
            StoreError: the store has none, it is damaged, or of a newer format.
        """
        table = stored_table(self.storage, CLIPS)
        if table is None:
            where = self.storage.location
            raise StoreError(f"{where} has no {CLIPS}: 'storyframes index STUDY {where}' writes it")
        return to_frame(table)

    def feature_tables(
        self,
        session_id: str,
        feature: str,
        *,
        part: str = "",
        rate: float | None = None,
        times: SessionTimes | None = None,
    ) -> list[tables.Table]:
        """See :func:`storyframes.store.tables.tables_of`."""
        return tables.tables_of(self, session_id, feature, rate, times, part=part)

    def study_record(self) -> StudyRecord | None:
        """What the store knows of its study; None where it has no record of it.

        Raises:
            StoreError: the record is damaged.
        """
        return read_study_record(self.storage)

    def forgotten(self) -> Forgotten:
        """What the store was told to forget."""
        return read_forgotten(self.storage)

    def note_given(self, what: str, name: str, sessions: Collection[str]) -> None:
        """Note that a ``release`` or an ``export`` was made; a store that cannot be written is left as it is."""
        note_given(self.storage, what, name, sessions)


class SessionView:
    """One session of a feature store, as ``store["s00"]`` gives it: its features by name.

    A name is that of a feature, of a part of one (a group of columns, a column, an array, a kind of row) or of several
    side by side: ``openface``, ``openface.gaze``, ``openface.AU12_r``, ``opensmile.per_frame``, ``glove.frame``,
    ``vision``; of another track ``openface@child_b.gaze``.

    Example:
        >>> from storyframes import FeatureStore
        >>> session = FeatureStore("STORE")["s00"]
        >>> session["openface.AU12_r"][0:120].shape, session["vision"].shape
        ((120,), (240, 2762))
        >>> tree = session.to_xarray()
        >>> tree["openface/values"].sel(column="AU12_r").shape
        (240,)
    """

    def __init__(self, store: FeatureStore, session_id: str) -> None:
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

    def __len__(self) -> int:
        return len(self._features())

    def __iter__(self) -> Iterator[str]:
        return iter(in_order(self._features()))

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self[name])
        except (StoreError, KeyError):  # KeyError: of a recording, where it was not asked for
            return False

    def __getitem__(self, name: str) -> Selection:
        """What a name selects.

        Raises:
            StoreError: the session has no such feature, or the feature no such part.
        """
        return Selection(self.store, self.session_id, self._asked(name), self._frame)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            own = {} if name.startswith("_") else {feature: f"session[{feature!r}]" for feature in self._features()}
            raise no_attribute(self, name, _IN_SESSION | own)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def _asked(self, name: str) -> str:
        """The name, once it is known that it may be asked for."""
        return name

    def _repr_html_(self) -> str:
        """The features with which of their rows are measurements: no values, no words, no names of files."""
        return self._html("SessionView")

    def _html(self, title: str, notes: Iterable[str] = ()) -> str:
        rows: list[tuple[object, ...]] = []
        for feature in in_order(self._features()):
            try:
                (table,) = tables.chosen_tables(self.store, self.session_id, feature)
                measured = replace(table, arrays={}).read(0, table.rows).keys[tables.MASK]
            except (StoreError, OSError):
                rows.append((feature, "cannot be read", "", "", ""))
                continue
            width = sum(math.prod(array.shape) for array in table.arrays.values())
            share = f"{measured.mean():.0%}" if len(measured) else ""
            rows.append((feature, f"{table.rows:,} × {table.axis}", width, share, strip(measured)))
        caveats = [f"{feature}: {caveat}" for feature, of_it in self.caveats.items() for caveat in of_it]
        headings = ("feature", "rows", "numbers a row", "measured", "which rows are measurements")
        return html_table(title, headings, rows, [*caveats, *notes])

    def plot(
        self,
        feature: str | Sequence[str],
        columns: Sequence[str] | None = None,
        *,
        labels: str | pd.DataFrame | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw columns against time, with gaps where rows are no measurements.

        Args:
            feature: of the session; of another track, ``<feature>@<track>``. Or a list: the columns to draw, of any
                features, in seconds of the session; ``<feature>.<column>`` where several features have the column, and
                ``loudness`` for the level of openSMILE's sound in dB. A unit has axes of its own.
            columns: of one feature, which; None takes the first 12.
            labels: with a list, what lies behind the curves as bands, a lane for each rater or target. A column of the
                clip index, in which each moment has the label of the window with the nearest middle; or the labelled
                parts themselves, as rows with ``start_s``, ``end_s``, ``value`` of one scheme, as the study's table
                ``labels`` has them.
            ax: matplotlib's axes to draw on; None makes a figure, which a notebook shows as ``plot(…).figure``.

        Returns:
            The axes; for a list those of each unit, an array.

        Raises:
            StoreError: there is no such feature, or no clip index.
            ValueError: there is no such column, or several are called so; or labels cannot be drawn.
            ModuleNotFoundError: matplotlib is not installed; the message says how to get it.

        Example:
            >>> from storyframes import FeatureStore
            >>> session = FeatureStore("STORE").session("s00")
            >>> axes = session.plot("openface", ["AU12_r", "AU06_r"])
            >>> [line.get_label() for line in axes.lines], axes.get_xlabel()
            (['AU12_r', 'AU06_r'], 's')
            >>> axes = session.plot(["AU12_r", "loudness"], labels="empathy")
            >>> [panel.lines[0].get_label() for panel in axes]
            ['AU12_r', 'loudness']
        """
        if not isinstance(feature, str):
            if columns is not None:
                raise ValueError("columns is for one feature; a list of columns has their features' names in it")
            return self._plot_curves(feature, labels, ax)
        if labels is not None:
            raise ValueError("labels needs a list of columns: plot([…], labels=…)")
        return plot_columns(self.to_pandas(feature), columns, ax)

    def _plot_curves(self, names: Sequence[str], labels: str | pd.DataFrame | None, axes: Any) -> Any:
        times = SessionTimes(self.store, self.session_id)

        def to_session(track: str, seconds: Any) -> np.ndarray:
            clock = times.clock(of_track(CLOCK, track))
            if clock is None:
                raise ValueError(f"the labels are in seconds of the track {track}, whose clock the store does not know")
            return np.array(clock.to_session(self.session_id, seconds))

        bands: list[Band] = []
        if isinstance(labels, str):
            bands = clip_bands(self.store.clips(), self.session_id, labels, to_session)
        elif labels is not None:
            bands = label_bands(labels, self.session_id, to_session)
        curves = tables.find_curves(self.store, self.session_id, in_order(self._features()), names, times)
        return draw_curves(self.session_id, curves, bands, axes)

    @property
    def caveats(self) -> dict[str, list[str]]:
        """The caveats of the features that have any, by feature."""
        statuses = self.store.statuses(self.session_id)
        return {each.feature: each.current.caveats for each in statuses if each.current and each.current.caveats}

    @overload
    def to_xarray(self, name: None = None) -> xarray.DataTree: ...

    @overload
    def to_xarray(self, name: str) -> xarray.DataArray: ...

    def to_xarray(self, name: str | None = None) -> xarray.DataTree | xarray.DataArray:
        """Every feature as a node, with the coordinates time (of frames), column, joint and so on.

        A feature of another track is the node ``<feature>@<track>``; its times are on that track's clock.

        Args:
            name: a feature or a part of one alone, see :meth:`Selection.to_xarray`; None takes all features.

        Raises:
            StoreError: the store has no such session, feature or part.
            ModuleNotFoundError: xarray is not installed; the message says how to get it.
        """
        xarray = import_xarray()
        if name is not None:
            return self[name].to_xarray()
        nodes = {feature: self._dataset(feature) for feature in self._features()}
        return xarray.DataTree.from_dict(nodes, name=self.session_id)

    @explained("session.to_pandas('openface.gaze')")
    def to_pandas(self, feature: str, *, rows: str | None = None, rate: float | None = None) -> pd.DataFrame:
        """A feature as a data frame: a column for each value, the times as its index.

        The columns before the values are the row's number, ``mask`` (whether the row is a measurement; other rows are
        given as well, as they are stored) and, for words and utterances, ``end`` and ``speaker``. ``attrs`` has the
        caveats and the units. Where the store does not know the clock of a track, the index is ``device_time``.

        Args:
            feature: the name of a feature, of a part of one, or of several side by side (:class:`SessionView`).
            rows: the kind of row, where the feature has several (``frame``, ``word``, …); None takes that of its main
                array.
            rate: points a second, from the session's second 0 on, each with the row nearest to it; NaN where none is
                near. None takes the rows as they are stored.

        Raises:
            StoreError: there is no such feature, or it has no such rows.

        Example:
            >>> from storyframes import FeatureStore
            >>> session = FeatureStore("STORE").session("s00")
            >>> frame = session.to_pandas("openface", rate=15)
            >>> frame.index.name, frame.loc[frame["mask"], "AU12_r"].dtype.name
            ('time', 'float32')
        """
        return pandas_frame(tables.chosen_tables(self.store, self.session_id, feature, rows, rate))

    def to_polars(self, feature: str, *, rows: str | None = None, rate: float | None = None) -> pl.DataFrame:
        """The same for polars (the extra ``storyframes[explore]``), with the times as a column.

        Raises:
            StoreError: as of :meth:`to_pandas`.
            ModuleNotFoundError: polars is not installed.
        """
        return polars_frame(tables.chosen_tables(self.store, self.session_id, feature, rows, rate))

    def _frame(self, name: str, start: int, stop: int | None) -> pd.DataFrame:
        """The data frame of some rows, as :meth:`to_pandas` gives them."""
        return pandas_frame(tables.chosen_tables(self.store, self.session_id, name), start, stop)

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
        if time is not None and frames and set(frames) == {len(time)}:  # not of another recording
            notes = {"units": "s", "about": "presentation time of the frame"}
            coordinates.setdefault("frame_time", (str(Axis.FRAME), time, notes))
        coordinates = {name: value for name, value in coordinates.items() if name not in variables}
        return xarray.Dataset(variables, coords=coordinates, attrs=_notes(group))

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
