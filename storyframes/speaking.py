"""Whose words they are: words and utterances are attributed to tracks by the feature ``speaking`` of each.

``speaking`` says how likely the person of a track speaks, every 0.1 s. Of somebody's words it is known that one person
says them, so the tracks are compared with each other: two that are as likely leave it open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from storyframes.spec import MAIN, of_track
from storyframes.store.feature_reader import FeatureReader
from storyframes.store.layout import StoreError
from storyframes.store.records import Caveat
from storyframes.store.session_times import SessionTimes, unknown_clock
from storyframes.times import track_clock

SPEAKING = "speaking"
_KNOWN = 0.5  # the share of a word in which a track's probability has to be known
_STEP_S = 0.1
_SURE = 0.99  # no mean of probabilities counts as surer
_MAY_SPEAK, _SHORTLY = 0.4, 0.25  # words have no track where another's probability is above this for longer than this


@dataclass(frozen=True)
class Speech:
    """How likely the person of one track speaks, step by step.

    Example:
        >>> Speech(time_s=np.array([0.05, 0.15]), probability=np.array([0.02, 0.97])).probability.max().item()
        0.97
    """

    time_s: np.ndarray  # (n,) middles of the steps, seconds of the session, ascending
    probability: np.ndarray  # (n,) 0 to 1, NaN where it is not known


@dataclass(frozen=True)
class Attribution:
    """Whose track some words belong to.

    Example:
        >>> Attribution(track="anna", probability=0.98).track
        'anna'
    """

    track: str | None  # None where it is not clear enough
    probability: float  # that they are of this track's person, or of the most likely one; NaN where nothing is known


def read_speech(store: FeatureReader, session_id: str, tracks: Sequence[str] | None = None) -> dict[str, Speech]:
    """The feature ``speaking`` of a session's tracks, on the session's clock.

    Args:
        tracks: one for each person; None takes those that have the feature, and of several with the microphone of one
            person the first. The session's own is left out where another track has its microphone, and where several
            persons share it and nothing tells them apart: it is anybody's speech.

    Raises:
        StoreError: a track does not have the feature, or how its clock runs is not known.
    """
    speech = {}
    for track in _one_for_each_person(store, session_id) if tracks is None else tracks:
        feature = of_track(SPEAKING, track)
        probability = np.asarray(store.read(session_id, feature), np.float64)
        device_s = np.asarray(store.read(session_id, feature, array="time"), np.float64)
        if stored := store.attributes(session_id, feature).get("clock"):
            clocks = track_clock({session_id: {track: stored}}, track)
        elif (
            indexed := SessionTimes(store, session_id).clock(feature)
        ) is not None:  # of a release, which has no other
            clocks = indexed
        else:
            raise StoreError(f"{session_id}/{feature}: {unknown_clock(feature)}")
        speech[track] = Speech(clocks.to_session(session_id, device_s), probability)
    return speech


def _one_for_each_person(store: FeatureReader, session_id: str) -> list[str]:
    chosen: list[str] = []
    microphones = set()
    for track in sorted(store.tracks(session_id), key=lambda track: track == MAIN):
        feature = of_track(SPEAKING, track)
        if store.has(session_id, feature):
            notes = store.attributes(session_id, feature)
            if notes.get("is_shared") and Caveat.ANYBODYS_SPEECH in notes.get("stamps", ()):
                continue
            microphone = notes.get("microphone", track)
            if microphone not in microphones or (notes.get("is_shared") and track != MAIN):
                chosen.append(track)
            microphones.add(microphone)
    return chosen


def attribute(
    start_s: ArrayLike,
    end_s: ArrayLike,
    speech: Mapping[str, Speech],
    *,
    least: float = 0.9,
    has_everybody: bool = True,
) -> list[Attribution]:
    """Whose words they are that are said from ``start_s`` to ``end_s``.

    Args:
        start_s, end_s: (k,) seconds of the session.
        speech: by track; one track for each person.
        least: the probability from which on a track is named.
        has_everybody: whether ``speech`` has all persons who may have spoken.

    Example:
        >>> import numpy as np
        >>> from storyframes.speaking import Speech, attribute
        >>> time_s = np.arange(20) / 10 + 0.05
        >>> anna = Speech(time_s, np.where(time_s < 1, 0.97, 0.02))
        >>> ben = Speech(time_s, np.where(time_s < 1, 0.05, 0.9))
        >>> [words.track for words in attribute([0.2, 0.7, 1.2], [0.8, 1.3, 1.6], {"anna": anna, "ben": ben})]
        ['anna', None, 'ben']
    """
    starts, ends = np.atleast_1d(np.asarray(start_s, np.float64)), np.atleast_1d(np.asarray(end_s, np.float64))
    size = (len(speech), len(starts))
    means = np.array([_means(starts, ends, each) for each in speech.values()]).reshape(size)
    meanwhile = np.array([_means(starts, ends, _may_speak(each)) for each in speech.values()]).reshape(size)
    tracks = list(speech)
    attributions = []
    for column, shares in zip(means.T, meanwhile.T, strict=True):
        if np.isnan(column).all():
            attributions.append(Attribution(None, float("nan")))
            continue
        clear = np.clip(np.nan_to_num(column), 1 - _SURE, _SURE)
        # All ways in which exactly one person speaks. The person's own probability is the limit, unless all others are
        # known and the person probably speaks. Where another one may speak too, the word may be of that one.
        odds = np.where(np.isnan(column), 0.0, clear / (1 - clear))
        best = int(odds.argmax())
        is_compared = has_everybody and len(column) > 1 and not np.isnan(column).any() and clear[best] > 0.5
        most = 1.0 if is_compared else clear[best]
        if (np.delete(shares, best) > _SHORTLY).any():
            most = min(most, 0.5)
        probability = float(min(odds[best] / odds.sum(), most))
        attributions.append(Attribution(tracks[best] if probability >= least else None, probability))
    return attributions


def _may_speak(speech: Speech) -> Speech:
    """1 where the person may speak, 0 elsewhere, NaN where nothing is known."""
    likely = np.where(np.isnan(speech.probability), np.nan, speech.probability > _MAY_SPEAK)
    return Speech(speech.time_s, likely)


def _means(starts: np.ndarray, ends: np.ndarray, speech: Speech) -> np.ndarray:
    """(k,) the mean probability of the steps of each span, of a short one the nearest; NaN where most are unknown."""
    if not len(speech.time_s):
        return np.full(len(starts), np.nan)
    nearest = np.searchsorted(speech.time_s, (starts + ends - _STEP_S) / 2).clip(0, len(speech.time_s) - 1)
    first, stop = np.searchsorted(speech.time_s, starts), np.searchsorted(speech.time_s, ends)
    first, stop = np.where(first < stop, first, nearest), np.where(first < stop, stop, nearest + 1)
    known = ~np.isnan(speech.probability)
    count = np.concatenate([[0], np.cumsum(known)])
    total = np.concatenate([[0.0], np.cumsum(np.where(known, speech.probability, 0.0))])
    steps, counted = stop - first, count[stop] - count[first]
    is_there = (starts <= speech.time_s[-1] + _STEP_S / 2) & (ends >= speech.time_s[0] - _STEP_S / 2)
    return np.where(
        is_there & (counted > _KNOWN * steps), (total[stop] - total[first]) / np.maximum(counted, 1), np.nan
    )
