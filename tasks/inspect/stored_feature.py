"""A feature as the store describes it, so that nobody who looks at it has to know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from storyframes.spec import Axis, FeatureSpec
from storyframes.store.feature_store import FeatureStore

ROW_TIMES = ("time", "start")  # arrays that say when a row is, in seconds on the recording's clock
CLOCKS = (*ROW_TIMES, "end")


@dataclass(frozen=True, repr=False)
class StoredFeature:
    """One feature of one session.

    Attributes:
        name: as it is called in the store: of another track than the session's own, ``<feature>@<track>``.
        spec: what the store says of it.
        attributes: of its group: caveats (``stamps``), provenance and whatever its extractor notes.
    """

    store: FeatureStore
    session_id: str
    name: str
    spec: FeatureSpec
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, store: FeatureStore, session_id: str, feature: str) -> StoredFeature:
        """The feature that is in the store.

        Raises:
            StoreError: it is not there, or what the store says of it contradicts itself.
        """
        return cls(store, session_id, feature, store.spec(session_id, feature), store.attributes(session_id, feature))

    def __repr__(self) -> str:
        return f"{self.session_id}/{self.name}: {', '.join(self.spec.arrays)}"

    def read(self, array: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows ``start`` to ``stop`` of an array, as :meth:`storyframes.store.feature_store.FeatureStore.read`."""
        return self.store.read(self.session_id, self.name, start, stop, array=array)

    def blocks(self, array: str, rows: int, *, overlap: int = 0) -> Iterator[np.ndarray]:
        """The array in blocks of at most ``rows`` rows; from the second on with ``overlap`` rows of the one before."""
        length = self.rows(array)
        for start in range(0, length, rows):
            yield self.read(array, max(start - overlap, 0), min(start + rows, length))

    def rows(self, array: str) -> int:
        return self.store.describe(self.session_id, self.name, array).shape[0]

    def frame_rows(self) -> int | None:
        """How many rows its per-frame arrays have; None where it has none."""
        return next((self.rows(name) for name, array in self.spec.arrays.items() if array.axis is Axis.FRAME), None)

    def time_array(self, array: str) -> str | None:
        """The array that says when each row of ``array`` is; None where there is none beside it."""
        axis = self.spec.arrays[array].axis
        there = (name for name in ROW_TIMES if name in self.spec.arrays)
        return next((name for name in there if self.spec.arrays[name].axis is axis), None)

    def mask_of(self, array: str) -> str | None:
        """The array that is 1 where a row of ``array`` is a measurement; None where all rows are."""
        mask = self.spec.mask
        if not mask or array in (mask, *CLOCKS) or self.spec.arrays[mask].axis is not self.spec.arrays[array].axis:
            return None
        return mask
