"""The same feature of the same session in two stores: what its columns are called, and its rows side by side."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from storyframes.features import STORIES, feature_spec
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.records import Current


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

    def read(self, array: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        def rows(store: FeatureStore) -> np.ndarray:
            values = store.read(self.session_id, self.feature, start, stop, array=array)
            return values.reshape(len(values), -1).astype(np.float64)

        return rows(self.a), rows(self.b)


def mask_unmeasured(pair: FeaturePair, a: np.ndarray, b: np.ndarray, start: int, stop: int) -> None:
    """Rows without a face are no measurements: compared is only whether both have one (the array ``valid``)."""
    valid_a, valid_b = pair.read("valid", start, stop)
    tracked = (valid_a[:, 0] > 0) & (valid_b[:, 0] > 0)
    a[~tracked] = b[~tracked] = np.nan


def column_names(pair: FeaturePair, array: str) -> list[str]:
    stored = pair.of_a.arrays[array]
    sizes = stored.shape[1:]
    if not sizes:
        return [array]
    spec = feature_spec(pair.session_id, pair.feature).arrays[array]
    stored_columns = _stored_columns(pair, array)
    axes = [[str(number) for number in range(size)] for size in sizes]
    if len(stored_columns) == sizes[-1]:
        axes[-1] = stored_columns
    if spec.joints and len(sizes) > 1 and len(spec.joints) == sizes[-2]:
        axes[-2] = list(spec.joints)
    prefix = [] if array in ("values", "per_frame") else [array]
    return [".".join([*prefix, *names]) for names in product(*axes)]


def _stored_columns(pair: FeaturePair, array: str) -> list[str]:
    attributes = pair.a.open_group(pair.session_id, pair.feature)[array].attrs
    return [str(name) for name in attributes.get("columns", ())]  # type: ignore[union-attr]


def row_time(pair: FeaturePair, array: str, row: int) -> float | None:
    """When the row is, where it has a time of its own or is a frame's."""
    axis = feature_spec(pair.session_id, pair.feature).arrays[array].axis
    try:
        if axis == "frame":
            return float(pair.a.read(pair.session_id, "frames", row, row + 1, array="time")[0])
        name = {"audio_frame": "time", "word": "start", "utterance": "start"}.get(axis)
        return float(pair.a.read(pair.session_id, pair.feature, row, row + 1, array=name)[0]) if name else None
    except (StoreError, IndexError):
        return None  # no clock beside it: the row's number has to do


def _digests(current: Current, array: str) -> dict[str, str]:
    chunks = f"{array}/c/"
    return {path: file.sha256 for path, file in current.files.items() if path.startswith(chunks)}
