"""A feature as the store describes it, so that code can show any feature without knowing its extractor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from storyframes.spec import Axis, FeatureSpec
from storyframes.store.feature_store import FeatureStore

ROW_TIMES = ("time", "start")  # arrays with the times of rows, in seconds of the recording
CLOCKS = (*ROW_TIMES, "end")


@dataclass(frozen=True, repr=False)
class StoredFeature:
    """One feature of one session."""

    store: FeatureStore
    session_id: str
    name: str  # its name in the store; of another track than the session's own, ``<feature>@<track>``
    spec: FeatureSpec
    attributes: Mapping[str, Any]  # of its group: caveats (``stamps``), provenance and the extractor's own

    @classmethod
    def of(cls, store: FeatureStore, session_id: str, feature: str) -> StoredFeature:
        """Open a feature.

        Raises:
            StoreError: the store lacks it, or its description contradicts itself.
        """
        return cls(store, session_id, feature, store.spec(session_id, feature), store.attributes(session_id, feature))

    def __repr__(self) -> str:
        return f"{self.session_id}/{self.name}: {', '.join(self.spec.arrays)}"

    def read(self, array: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows ``start`` to ``stop`` of an array, as :meth:`storyframes.store.feature_store.FeatureStore.read`."""
        return self.store.read(self.session_id, self.name, start, stop, array=array)

    def blocks(self, array: str, rows: int, *, overlap: int = 0) -> Iterator[np.ndarray]:
        """The array in blocks of at most ``rows`` rows; each but the first starts with ``overlap`` rows of the last."""
        length = self.rows(array)
        for start in range(0, length, rows):
            yield self.read(array, max(start - overlap, 0), min(start + rows, length))
            if not self.store.is_far:  # of a far one, opening an array is a request
                self.store.let_go(self.session_id)  # or all of the array would stay mapped, and count as memory in use

    def rows(self, array: str) -> int:
        return self.store.describe(self.session_id, self.name, array).shape[0]

    def frame_rows(self) -> int | None:
        """The number of rows of its per-frame arrays; None where it has no such array."""
        return next((self.rows(name) for name, array in self.spec.arrays.items() if array.axis is Axis.FRAME), None)

    def time_array(self, array: str) -> str | None:
        """The array with the times of the rows of ``array``; None where the feature has none."""
        axis = self.spec.arrays[array].axis
        times = (name for name in ROW_TIMES if name in self.spec.arrays)
        return next((name for name in times if self.spec.arrays[name].axis is axis), None)

    def mask_of(self, array: str) -> str | None:
        """The array that is 1 where a row of ``array`` is a measurement; None where every row is."""
        mask = self.spec.mask
        if not mask or array in (mask, *CLOCKS) or self.spec.arrays[mask].axis is not self.spec.arrays[array].axis:
            return None
        return mask
