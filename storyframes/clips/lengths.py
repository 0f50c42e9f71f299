"""The largest number of words, utterances and audio rows in any clip of a study.

Inputs whose number of rows varies are padded to it, whatever the split and the filter, so that shapes do not change.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from storyframes.features import AUDIO_HOP_S
from storyframes.store.feature_store import FeatureStore
from storyframes.ticks import ticks


def rows_before_sound(first_s: float, start_s: npt.ArrayLike) -> np.ndarray:
    """How many rows of 10 ms lie between the start of a clip and the first row of the sound; 0 where sound comes first.

    Args:
        first_s: time of the session's first openSMILE row, seconds.
        start_s: of clips, seconds.
    """
    return np.maximum((ticks(first_s) - ticks(start_s)) // ticks(AUDIO_HOP_S), 0)


def longest_audio(store: FeatureStore, index: pd.DataFrame) -> int:
    """Most rows of 10 ms from the start of a clip of the index to its last openSMILE row."""
    longest = int((index["audio_stop"] - index["audio_start"]).max())
    begins_inside = (index["audio_start"] == 0) & (index["audio_stop"] > 0)
    for session, clips in index[begins_inside.fillna(False)].groupby("session_id"):
        if "opensmile" not in store.features(session):  # the index is older than the store: nobody reads these clips
            continue
        (first_s,) = store.view(session, "opensmile", 0, 1, array="time")
        longest = max(longest, int((rows_before_sound(first_s, clips["start_s"]) + clips["audio_stop"]).max()))
    return longest


def longest_words(store: FeatureStore, index: pd.DataFrame) -> int:
    """Most words that start in a clip of the index."""

    def count(start: np.ndarray, end: np.ndarray, clips: pd.DataFrame) -> np.ndarray:
        return np.searchsorted(start, ticks(clips["stop_s"])) - np.searchsorted(start, ticks(clips["start_s"]))

    return _longest(store, index, "glove", count)


def longest_utterances(store: FeatureStore, index: pd.DataFrame) -> int:
    """Most utterances that overlap a clip of the index."""

    def count(start: np.ndarray, end: np.ndarray, clips: pd.DataFrame) -> np.ndarray:
        begun = np.searchsorted(start, ticks(clips["stop_s"]))
        over = np.searchsorted(end, ticks(clips["start_s"]), side="right")
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
            start, end = (np.sort(ticks(store.view(session, feature, array=array))) for array in ("start", "end"))
            longest = max(longest, int(count(start, end, clips).max()))
    return longest
