"""When each of two people speaks, from features of a store: words with their speakers, or voice activity."""

from __future__ import annotations

import numpy as np
import pandas as pd

from storyframes import FeatureStore
from storyframes.store import StoreError
from storyframes_dyads.turns import JOIN_S, Talkspurts, talkspurts


class SpeechError(ValueError):
    """A feature that does not say when two people speak; the message names it, and the rule."""


def speech_of(
    store: FeatureStore,
    session_id: str,
    features: list[str],
    *,
    column: str | None = None,
    threshold: float = 0.5,
    join_s: float = JOIN_S,
) -> Talkspurts:
    """The talkspurts of two people.

    Args:
        features: one feature of words or utterances with two speakers (``glove``), whose labels are the people; or two
            features, one of each person (``glove@a`` and ``glove@b``, or ``vad@a`` and ``vad@b``), whose names are.
        column: of features with a probability of speech in each row: its column; None takes the only one.
        threshold: the probability from which a row is speech.

    Raises:
        SpeechError: a feature is not there, has neither words nor probabilities, or has not the right speakers; or
            the clock of a track is not known.
    """
    if len(features) == 2 and features[0] != features[1]:
        speech = {}
        for feature in features:
            frame = _frame(store, session_id, feature)
            if "speaker" in frame and (speakers := frame["speaker"].dropna().nunique()) > 1:
                raise SpeechError(f"{session_id}/{feature} has words of {speakers} speakers, not of one: name it alone")
            speech[feature] = _spurts(frame, feature, column, threshold, join_s)
        return speech
    if len(features) != 1:
        raise SpeechError("name one feature of words with two speakers, or two features, one of each person")
    frame = _frame(store, session_id, features[0])
    if "speaker" not in frame:
        raise SpeechError(f"{session_id}/{features[0]} does not say who speaks: name one feature of each person")
    names = [str(name) for name in frame["speaker"].dropna().unique() if str(name)]
    if len(names) != 2:
        raise SpeechError(f"{session_id}/{features[0]} has {len(names)} speakers; turns are of two people")
    return {name: _spurts(frame[frame["speaker"] == name], features[0], column, threshold, join_s) for name in names}


def _frame(store: FeatureStore, session_id: str, feature: str) -> pd.DataFrame:
    try:
        frame = store.to_pandas(session_id, feature)
    except StoreError as error:
        raise SpeechError(str(error)) from None
    if frame.index.name == "device_time":
        raise SpeechError(
            f"{session_id}/{feature}: the store does not know the clock of its track; "
            "'storyframes index STUDY STORE' writes it"
        )
    if frame.index.name != "time":
        raise SpeechError(f"{session_id}/{feature} has no rows with times")
    return frame


def _spurts(frame: pd.DataFrame, feature: str, column: str | None, threshold: float, join_s: float) -> np.ndarray:
    if "end" in frame:
        return talkspurts(frame.index.to_numpy(float), frame["end"].to_numpy(float), join_s)
    names = [name for name in frame.columns if name not in {"row", "mask", "device_time"}]
    if column is None and len(names) != 1:
        raise SpeechError(f"{feature} has {len(names)} columns: name the one with the probability of speech")
    name = names[0] if column is None else column
    if name not in names:
        raise SpeechError(f"{feature} has no column {name!r}")
    time = frame.index.to_numpy(float)
    if len(time) < 2:
        return np.empty((0, 2))
    speaks = frame["mask"].to_numpy(bool) & (frame[name].to_numpy(float) >= threshold)
    step = float(np.median(np.diff(time)))
    return talkspurts(time[speaks], time[speaks] + step, join_s)
