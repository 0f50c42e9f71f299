"""How many rows the longest clip of a study has: what padded inputs are as long as, for every split and filter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from storyframes.store import FeatureStore


def longest_audio(index: pd.DataFrame) -> int:
    """Most openSMILE rows of a clip of the index."""
    return int((index["audio_stop"] - index["audio_start"]).max())


def longest_words(store: FeatureStore, index: pd.DataFrame) -> int:
    """Most words that start in a clip of the index."""

    def count(start: np.ndarray, end: np.ndarray, clips: pd.DataFrame) -> np.ndarray:
        return np.searchsorted(start, clips["stop_s"]) - np.searchsorted(start, clips["start_s"])

    return _longest(store, index, "glove", count)


def longest_utterances(store: FeatureStore, index: pd.DataFrame) -> int:
    """Most utterances that overlap a clip of the index."""

    def count(start: np.ndarray, end: np.ndarray, clips: pd.DataFrame) -> np.ndarray:
        begun = np.searchsorted(start, clips["stop_s"])
        over = np.searchsorted(end, clips["start_s"], side="right")
        return begun - over

    return _longest(store, index, "sbert", count)


def _longest(
    store: FeatureStore,
    index: pd.DataFrame,
    feature: str,
    count: Callable[[np.ndarray, np.ndarray, pd.DataFrame], np.ndarray],
) -> int:
    longest = 0
    for session, clips in index.groupby("session_id"):
        if feature in store.features(session):
            start, end = (np.sort(store.view(session, feature, array=array)) for array in ("start", "end"))
            longest = max(longest, int(count(start, end, clips).max()))
    return longest
