"""Labels that change all the time, as labels of windows: the mean of a curve over each."""

from __future__ import annotations

import numpy as np
import pandas as pd

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.label_curves import of_scheme
from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.training.settings import MODALITIES, TrainSettings

LEAST = 0.5
"""The share of a window's frames, or points, that need a value of the curve; with fewer it has no label."""
_AT_ONCE = 256  # windows that are read


def curve_labels(store: FeatureStore, index: pd.DataFrame, settings: TrainSettings) -> pd.Series:
    """The mean of a curve over each window of the clip index, float64; NaN where fewer than half of it has one.

    Args:
        store: the features.
        index: its whole clip index.
        settings: ``label`` is the curve's feature; where an input has a rate, its points are taken instead of frames.

    Raises:
        ValueError: no session has the curve, or windows differ in length and no input has a rate.
        StoreError: the store does not hold its rows (any more).
    """
    rates = [part.rate for name in MODALITIES for part in settings.parts(name) if part.rate]
    wanted = ClipInput(settings.label, rate=rates[0] if rates else None)
    dataset = ClipDataset(store, [wanted], drop_missing=True)
    windows = dataset.windows()
    means = np.full(len(windows), np.nan)
    first = [int(clips[0]) for clips in windows["clips"]]
    for begin in range(0, len(first), _AT_ONCE):
        batch = dataset.read(first[begin : begin + _AT_ONCE])
        there = batch[f"{settings.label}_mask"] & np.isfinite(batch[settings.label])
        total = np.where(there, batch[settings.label], 0).sum(axis=1, dtype=np.float64)
        enough = there.mean(axis=1) >= LEAST
        means[begin : begin + len(total)] = np.where(enough, total / np.maximum(there.sum(axis=1), 1), np.nan)
    of_window = {
        (session, start): mean
        for session, start, mean in zip(windows["session_id"], windows["start_frame"], means, strict=True)
    }
    of_clip = [of_window.get(each, np.nan) for each in zip(index["session_id"], index["start_frame"], strict=True)]
    return pd.Series(of_clip, index=index.index, dtype="float64")


def curve_range(store: FeatureStore, label: str) -> tuple[float, float] | None:
    """What the scheme of a curve says of its smallest and largest value; None where it does not, or not alike."""
    told = {
        (attributes.get("minimum"), attributes.get("maximum"))
        for session in store.sessions
        if store.has(session, label)
        for attributes in [store.attributes(session, label)]
    }
    (low, high), *others = told or {(None, None)}
    return None if others or low is None or high is None else (float(low), float(high))


def hint(store: FeatureStore, label: str) -> str:
    """What is meant where a label is not in the clip index, but there is a curve of its scheme; else empty."""
    feature = of_scheme(label)
    return f"; it is a curve, which is called {feature}" if feature in store.all_features else ""
