"""A session as an xarray DataTree with named coordinates, for looking around in a notebook.

Needs xarray (the extra ``storyframes[explore]``). Nothing is read before it is asked for: the arrays of the working
profile stay mapped, others are opened lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zarr

from storyframes.features import in_order

if TYPE_CHECKING:
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
        for feature in in_order(self.store.features(self.session_id)):
            arrays = self.store.spec(self.session_id, feature).arrays
            lines += [f"  {feature}/{name}: {array!r}" for name, array in arrays.items()]
        return "\n".join(lines)

    def to_xarray(self) -> xarray.DataTree:
        """Every feature as a node, with the coordinates time (of frames), column, joint and so on.

        Raises:
            StoreError: the store has no such session.
        """
        import xarray

        nodes = {feature: self._dataset(feature) for feature in self.store.features(self.session_id)}
        return xarray.DataTree.from_dict(nodes, name=self.session_id)

    def _dataset(self, feature: str) -> xarray.Dataset:
        import xarray

        group = self.store.open_group(self.session_id, feature)
        variables: dict[str, Any] = {}
        coordinates: dict[str, Any] = self._frame_times()
        for name, array in group.arrays():
            dims: Any = getattr(array.metadata, "dimension_names", None)  # our arrays are all Zarr v3 and have them
            data = self.store.array(self.session_id, feature, name)
            variables[name] = xarray.Variable(dims, data, attrs=_notes(array))
            coordinates |= _labels(array, dims)
        used = {dim for variable in variables.values() for dim in variable.dims}
        there = {name: value for name, value in coordinates.items() if value[0] in used}
        return xarray.Dataset(variables, coords=there, attrs=_notes(group))

    def _frame_times(self) -> dict[str, Any]:
        if "frames" not in self.store.features(self.session_id):
            return {}
        time = self.store.read(self.session_id, "frames", array="time")
        return {"frame_time": ("frame", time, {"units": "s", "about": "presentation time of the frame"})}


def _labels(array: zarr.Array, dims: tuple[str, ...]) -> dict[str, Any]:
    """The names of columns and joints as coordinates of their dimensions."""
    labels = {}
    if columns := array.attrs.get("columns"):
        labels[dims[-1]] = (dims[-1], columns)
    if joints := array.attrs.get("joints"):
        labels[dims[-2]] = (dims[-2], joints)
    return labels


def _notes(node: zarr.Array | zarr.Group) -> dict[str, Any]:
    return {key: value for key, value in node.attrs.items() if key not in {"columns", "joints", "provenance"}}
