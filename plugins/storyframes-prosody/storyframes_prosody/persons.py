"""How much and how each person of a session speaks, from the feature ``prosody``: one row for each person."""

from __future__ import annotations

import numpy as np
import pandas as pd

from storyframes import MAIN, FeatureName, FeatureStore, ticks
from storyframes.store import StoreError
from storyframes_prosody.extractor import overlaps_s

FEATURE = "prosody"
TOLERATED_S = 0.1
"""Speech of others over an utterance of another microphone, from which on its sound counts as doubtful."""
_MEDIANS = (
    *("f0_median_hz", "f0_range_st", "f0_slope_st_s"),
    *("intensity_db", "jitter_local", "shimmer_local", "hnr_db", "voiced_share"),
)


def person_table(store: FeatureStore, session_id: str) -> pd.DataFrame:
    """A row for each person of a session.

    Persons are the tracks that have the feature, by the speakers of each where it has several; without such tracks the
    speakers of the session's own. Times are the session's.

    Raises:
        StoreError: no feature ``prosody``, or the clock of a track is not known.
    """
    features = features_of(store, session_id)
    if not features:
        raise StoreError(f"{session_id} has no feature {FEATURE!r}: extract it with --features {FEATURE}")
    utterances = pd.concat([_utterances(store, session_id, name) for name in features])
    utterances = utterances.sort_values("start", kind="stable").reset_index(drop=True)
    start, end = utterances["start"].to_numpy(), utterances["end"].to_numpy()
    person, persons = pd.factorize(utterances["person"])
    utterances["seconds"], utterances["overlap_s"] = end - start, overlaps_s(start, end, person)
    utterances["is_clear"] = (utterances["mask"] > 0) & (ticks(utterances["overlap_s"]) <= ticks(TOLERATED_S))
    turns = _turns(start, end, person)
    rows = []
    for number, name in enumerate(persons):
        own = utterances[person == number]
        clear = own[own["is_clear"]]
        talk_s, clear_s = own["seconds"].sum(), clear["seconds"].sum()
        lengths = [stop - begin for who, begin, stop in turns if who == number]
        rows.append(
            {
                "session_id": session_id,
                "person": name,
                "feature": own["feature"].iloc[0],
                "utterances": len(own),
                "talk_s": talk_s,
                "talk_share": talk_s / utterances["seconds"].sum(),
                "turns": len(lengths),
                "turn_s_mean": np.mean(lengths) if lengths else np.nan,
                "words_per_s": _mean(own["words_per_s"], own["seconds"]),
                "syllables_per_s": _mean(clear["syllables_per_s"], clear["seconds"]),
                "articulation_rate": _mean(clear["articulation_rate"], clear["seconds"] - clear["pause_s"]),
                "pauses_per_min": _ratio(60 * clear["pauses"].sum(), clear_s),
                "pause_s_mean": _ratio(clear["pause_s"].sum(), clear["pauses"].sum()),
                "pause_share": _ratio(clear["pause_s"].sum(), clear_s),
                "pause_before_s_median": own["pause_before_s"].median(),
                **{column: clear[column].median() for column in _MEDIANS},
                "overlap_s": own["overlap_s"].sum(),
                "overlap_share": _ratio(own["overlap_s"].sum(), talk_s),
                "doubtful_share": _ratio(talk_s - clear_s, talk_s),
            }
        )
    return pd.DataFrame(rows)


def features_of(store: FeatureStore, session_id: str) -> list[str]:
    """The features ``prosody`` of a session's tracks, or without such the session's own."""
    tracks = store.tracks(session_id) if session_id in store.sessions else []
    names = [FeatureName.of_track(FEATURE, track) for track in tracks]
    having = [name for name in names if store.has(session_id, name)]
    return [name for name in having if name != FEATURE] or having


def _utterances(store: FeatureStore, session_id: str, feature: str) -> pd.DataFrame:
    """The utterances of one track, with the person of each."""
    frame = store.to_pandas(session_id, feature)
    frame.attrs.clear()  # pandas copies all of them whenever a column is taken
    if frame.index.name != "time":
        raise StoreError(
            f"{session_id}/{feature}: the store does not know the clock of its track; "
            "'storyframes index STUDY STORE' writes it"
        )
    frame = frame.rename_axis("start").reset_index()
    track, speaker = FeatureName(feature).track, frame["speaker"].astype(str)
    if track != MAIN:
        speaker = f"{track}/" + speaker if speaker.nunique() > 1 else pd.Series(track, frame.index)
    return frame.assign(person=speaker, feature=feature)


def _mean(values: pd.Series, weights: pd.Series) -> float:
    has = values.notna() & (weights > 0)
    return _ratio((values[has] * weights[has]).sum(), weights[has].sum())


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else np.nan


def _turns(start: np.ndarray, end: np.ndarray, person: np.ndarray) -> list[tuple[int, float, float]]:
    """Person, start and end of each turn: all that a person says until another's utterance outlasts it."""
    turns: list[tuple[int, float, float]] = []
    for who, begin, stop in zip(person.tolist(), start.tolist(), end.tolist(), strict=True):
        if turns and who == turns[-1][0]:
            turns[-1] = who, turns[-1][1], max(stop, turns[-1][2])
        elif not turns or stop > turns[-1][2]:  # else within the other's turn, who keeps the floor
            turns.append((who, begin, stop))
    return turns
