"""The same feature of the same session in two stores: what its columns are called, and its rows side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from storyframes.array_roles import value_names
from storyframes.features import CLOCK, STORIES
from storyframes.spec import Axis
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.records import Current
from storyframes.tracks import feature_and_track, of_track
from tasks.inspect.stored_feature import StoredFeature


@dataclass(frozen=True)
class FeaturePair:
    """The same feature of the same session in both stores."""

    a: FeatureStore
    b: FeatureStore
    of_a: Current
    of_b: Current

    @property
    def session_id(self) -> str:
        return self.of_a.session_id

    @property
    def feature(self) -> str:
        return self.of_a.feature

    @property
    def label(self) -> str:
        """The feature's name; the stories' features are others than the sessions' of the same name."""
        return f"{STORIES}/{self.feature}" if self.session_id == STORIES else self.feature

    def identical(self, array: str) -> bool:
        """Whether the array's files have the same content, as their checksums say."""
        return _digests(self.of_a, array) == _digests(self.of_b, array) != {}

    @cached_property
    def stored_a(self) -> StoredFeature:
        """What A says of it."""
        return StoredFeature.of(self.a, self.session_id, self.feature)

    @cached_property
    def stored_b(self) -> StoredFeature:
        """What B says of it."""
        return StoredFeature.of(self.b, self.session_id, self.feature)

    def read(self, array: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of both, each (n, columns) float64; NaN in both where the row is no measurement in one of them.

        Rows of one number each (times, a confidence) may hold for rows that are none as well, and are left as they are.
        """
        a, b = self._rows(array, start, stop)
        mask = self.stored_a.mask_of(array)
        if mask and mask == self.stored_b.mask_of(array) and self.stored_a.spec.arrays[array].shape:
            measured_a, measured_b = self._rows(mask, start, stop)
            unmeasured = (measured_a[:, 0] == 0) | (measured_b[:, 0] == 0)
            a[unmeasured] = b[unmeasured] = np.nan
        return a, b

    def _rows(self, array: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        a, b = (stored.read(array, start, stop) for stored in (self.stored_a, self.stored_b))
        return tuple(rows.reshape(len(rows), -1).astype(np.float64) for rows in (a, b))  # type: ignore[return-value]

    def columns(self, array: str) -> list[str]:
        """What the values of a row are called, in both."""
        return value_names(self.stored_a.spec, array)

    def difference_of_columns(self, array: str) -> str:
        """What keeps the columns from being compared one by one, in words; empty where nothing does."""
        a, b = (value_names(stored.spec, array) for stored in (self.stored_a, self.stored_b))
        differing = [number for number, (one, other) in enumerate(zip(a, b, strict=True)) if one != other]
        if differing:
            first = differing[0]
            names = f"{a[first]} in A and {b[first]} in B"
            return f"{len(differing)} columns of {array} have other names, the first is {names}"
        return ""

    def row_time(self, array: str, row: int) -> float | None:
        """When a row is, in seconds of the track's own recording, as A says; None where it does not."""
        clock = of_track(CLOCK, feature_and_track(self.feature)[1])
        try:
            if self.stored_a.spec.arrays[array].axis is Axis.FRAME:
                return float(self.a.read(self.session_id, clock, row, row + 1, array="time")[0])
            times = self.stored_a.time_array(array)
            return float(self.stored_a.read(times, row, row + 1)[0]) if times else None
        except (StoreError, IndexError):
            return None  # no clock beside it: the row's number has to do


def _digests(current: Current, array: str) -> dict[str, str]:
    chunks = f"{array}/c/"
    return {path: file.sha256 for path, file in current.files.items() if path.startswith(chunks)}
