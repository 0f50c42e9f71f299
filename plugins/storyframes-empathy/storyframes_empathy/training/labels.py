"""What is learned of a label: a number from 0 to 1, which labels count as similar, and means of curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from storyframes import ClipDataset, ClipInput, FeatureName, FeatureStore
from storyframes_empathy.training.settings import MODALITIES, TrainSettings

EMPATHY_RANGE, EMPATHY_SIMILAR = (1.0, 5.0), 3.0
"""Ratings of empathy, and the one above which they count as similar."""


@dataclass(frozen=True)
class LabelScale:
    """How a label becomes what is learned.

    Attributes:
        name: the scheme.
        low, high: the ends of its range.
        similar_above: labels above it count as similar.
        scale: ``scaled``: from low to high is from 0 to 1; ``unit``: divided by high; ``binary``: 1 where similar.
    """

    name: str
    low: float
    high: float
    similar_above: float
    scale: Literal["scaled", "unit", "binary"] = "scaled"

    def learned(self, labels: np.ndarray) -> np.ndarray:
        """What is learned of labels, (n,) float64."""
        labels = np.asarray(labels, np.float64)
        if self.scale == "binary":
            return (labels > self.similar_above).astype(np.float64)
        return labels / self.high if self.scale == "unit" else (labels - self.low) / (self.high - self.low)

    @property
    def score_threshold(self) -> float:
        """The score above which a clip is said to be similar."""
        return 0.5 if self.scale == "binary" else float(self.learned(np.array([self.similar_above]))[0])


def best_cut(scores: np.ndarray, similar: np.ndarray, copies: np.ndarray) -> float:
    """The cut of scores, strictly above which clips are said to be similar, that has the highest F1.

    It is the middle between two scores; of equally good ones the highest is taken, where fewest are similar.

    Args:
        scores: (n,) finite.
        similar: (n,) whether they are.
        copies: (n,) how often each counts.
    """
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    right = np.cumsum((similar * copies)[order])
    said = np.cumsum(copies[order])
    last = np.append(ordered[:-1] > ordered[1:], True)  # of clips with one score all are, or none is
    f1 = np.where(last, 2 * right / (said + right[-1]), -1)
    place = int(np.argmax(f1))
    if place + 1 == len(ordered):
        return float(np.nextafter(ordered[place], -np.inf))
    return float((ordered[place] + ordered[place + 1]) / 2)


def numbers(column: pd.Series) -> np.ndarray:
    """Labels as float64; of names that have an order, their places in it; NaN where there is none."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy(np.float64)
        return np.where(codes < 0, np.nan, codes)
    return column.to_numpy(np.float64, na_value=np.nan)


def scale_of(column: pd.Series, settings: TrainSettings, said: tuple[float, float] | None = None) -> LabelScale:
    """The scale of the label that is learned.

    Args:
        column: of the whole clip index; its smallest and largest label are the range where nothing else says it, so
            that runs of all seeds have one scale.
        settings: what is asked for.
        said: the range that the label's own scheme says, where it says one.

    Raises:
        ValueError: there is only one value, so that there is no range, or labels are outside the range.
    """
    labels = numbers(column)
    labels = labels[~np.isnan(labels)]
    if settings.label_range is not None:
        low, high = settings.label_range
    elif settings.label == "empathy":
        low, high = EMPATHY_RANGE
    elif said is not None:
        low, high = said
    elif isinstance(column.dtype, pd.CategoricalDtype):
        low, high = 0.0, float(len(column.cat.categories) - 1)
    else:
        low, high = float(labels.min()), float(labels.max())
    if not low < high:
        raise ValueError(f"the label {settings.label!r} is {low:g} in all clips: there is nothing to learn")
    if not low <= labels.min() <= labels.max() <= high:
        raise ValueError(
            f"labels {settings.label!r} go from {labels.min():g} to {labels.max():g}, beyond label_range = "
            f"[{low:g}, {high:g}]"
        )
    is_rating = settings.label == "empathy" and (low, high) == EMPATHY_RANGE
    middle = EMPATHY_SIMILAR if is_rating else (low + high) / 2
    similar = middle if settings.similar_above is None else settings.similar_above
    return LabelScale(settings.label, low, high, similar, settings.label_scale)


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
    feature = FeatureName.of_scheme(label)
    return f"; it is a curve, which is called {feature}" if feature in store.all_features else ""
