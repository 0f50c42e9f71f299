"""When each of two people speaks, from features of a store: words with their speakers, or voice activity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from storyframes import Axis, FeatureStore
from storyframes_dyads.signals import SignalError, columns_of, read_frame
from storyframes_dyads.turns import JOIN_S, Talkspurts, talkspurts


@dataclass(frozen=True)
class SpeechOptions:
    """How features are read as speech.

    Attributes:
        column: of features with a probability of speech in each row: its column; None takes the only one.
        threshold: the probability from which a row is speech.
        join_s: silences of a person up to this long are within a talkspurt.
    """

    column: str | None = None
    threshold: float = 0.5
    join_s: float = JOIN_S


@dataclass(frozen=True)
class SessionSpeech:
    """When two people of a session speak.

    Attributes:
        talkspurts: of each person.
        known: by person, (m, 2) the stretches of which it is known whether the person speaks, seconds, in order and
            apart: those with a probability; of words, all but words without a speaker.
    """

    talkspurts: Talkspurts
    known: Mapping[str, np.ndarray]


def speech_of(
    store: FeatureStore, session_id: str, features: list[str], options: SpeechOptions | None = None
) -> SessionSpeech:
    """The talkspurts of two people.

    Args:
        features: one feature of words or utterances with two speakers (``glove``), whose labels are the people, in the
            order of the alphabet; or two features, one of each person (``glove@a`` and ``glove@b``, or ``vad@a`` and
            ``vad@b``), whose names are.

    Raises:
        SignalError: a feature is not there, has neither words nor probabilities, or has not the right speakers; or
            the clock of a track is not known.
    """
    options = options or SpeechOptions()
    if len(features) == 2 and features[0] != features[1]:
        frames = {}
        for feature in features:
            frames[feature] = _frame(store, session_id, feature)
            speakers = frames[feature].get("speaker", pd.Series(dtype=object)).dropna().nunique()
            if speakers > 1:
                raise SignalError(f"{session_id}/{feature} has words of {speakers} speakers, not of one: name it alone")
        read = {feature: _of_feature(store, session_id, feature, frame, options) for feature, frame in frames.items()}
        return SessionSpeech(
            {feature: spurts for feature, (spurts, _) in read.items()},
            {feature: known for feature, (_, known) in read.items()},
        )
    if len(features) != 1:
        raise SignalError("name one feature of words with two speakers, or two features, one of each person")
    frame = _frame(store, session_id, features[0])
    if "speaker" not in frame:
        raise SignalError(f"{session_id}/{features[0]} does not say who speaks: name one feature of each person")
    speaker = frame["speaker"].where(frame["speaker"] != "")
    names = sorted(map(str, speaker.dropna().unique()))
    if len(names) != 2:
        raise SignalError(f"{session_id}/{features[0]} has {len(names)} speakers; turns are of two people")
    known = _apart_from(_spans(frame[speaker.isna()], 0.0))
    return SessionSpeech(
        {name: _spans(frame[speaker == name], options.join_s) for name in names}, dict.fromkeys(names, known)
    )


def _frame(store: FeatureStore, session_id: str, feature: str) -> pd.DataFrame:
    frame = read_frame(store, session_id, feature)
    if frame.index.name == "device_time":
        raise SignalError(
            f"{session_id}/{feature}: the store does not know the clock of its track; "
            "'storyframes index STUDY STORE' writes it"
        )
    if frame.index.name != "time":
        raise SignalError(f"{session_id}/{feature} has no rows with times")
    return frame


def _of_feature(
    store: FeatureStore, session_id: str, feature: str, frame: pd.DataFrame, options: SpeechOptions
) -> tuple[np.ndarray, np.ndarray]:
    """A person's talkspurts, and the stretches of which they are known."""
    arrays = store.spec(session_id, feature).arrays.values()
    if "end" in frame and any(array.axis in (Axis.WORD, Axis.UTTERANCE) for array in arrays):
        return _spans(frame, options.join_s), _apart_from(np.empty((0, 2)))
    names = columns_of(frame)
    if options.column is None and len(names) != 1:
        raise SignalError(
            f"{feature} has {len(names)} columns: name the one with the probability of speech in --column"
        )
    name = names[0] if options.column is None else options.column
    if name not in names:
        raise SignalError(f"{feature} has no column {name!r}")
    time = frame.index.to_numpy(float)
    if len(time) < 2:
        return np.empty((0, 2)), np.empty((0, 2))
    probability = frame[name].to_numpy(float)
    is_known = frame["mask"].to_numpy(bool) & np.isfinite(probability)
    speaks = is_known & (probability >= options.threshold)
    step = float(np.median(np.diff(time)))
    # The time of a step of the sound is its middle, that of a frame its beginning.
    begin = time - step / 2 if any(array.axis is Axis.AUDIO_FRAME for array in arrays) else time
    # Steps that follow each other are apart by what their times are rounded by.
    spurts = talkspurts(begin[speaks], begin[speaks] + step, max(options.join_s, step / 2))
    return spurts, talkspurts(begin[is_known], begin[is_known] + step, step / 2)


def _spans(words: pd.DataFrame, join_s: float) -> np.ndarray:
    return talkspurts(words.index.to_numpy(float), words["end"].to_numpy(float), join_s)


def _apart_from(spans: np.ndarray) -> np.ndarray:
    """All time but these spans."""
    return np.stack([np.append(-np.inf, spans[:, 1]), np.append(spans[:, 0], np.inf)], axis=1)
