"""A session to look around in: its features as data frames, or as an xarray DataTree with named coordinates.

The latter needs xarray (the extra ``storyframes[explore]``), and reads nothing before it is asked for: the arrays of
the working profile stay mapped, others are opened lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from storyframes.features import in_order
from storyframes.spec import ArraySpec, Axis
from storyframes.store.frames import pandas_frame, polars_frame
from storyframes.store.tables import chosen_table
from storyframes.tracks import feature_and_track, of_track

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray

    from storyframes.store.feature_store import FeatureStore


class SessionView:
    """One session of a feature store, as :meth:`FeatureStore.session` gives it.

    Example:
        >>> from storyframes import FeatureStore
        >>> session = FeatureStore("FEATURES").session("s00")
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

    @property
    def caveats(self) -> dict[str, list[str]]:
        """What users of the values must know, by feature; nothing of features without any."""
        rows = self.store.catalogue_of(self.session_id)
        known = dict(zip(rows["feature"], rows["stamps"], strict=True))
        noted = {feature: list(map(str, known.get(feature, ()))) for feature in self._features()}
        return {feature: caveats for feature, caveats in noted.items() if caveats}

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
            raise ModuleNotFoundError(
                "to_xarray needs xarray: pip install 'storyframes[explore]'", name="xarray"
            ) from None

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
            >>> session = FeatureStore("FEATURES").session("s00")
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
