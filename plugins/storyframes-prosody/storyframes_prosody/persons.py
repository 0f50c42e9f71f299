"""How much and how each person of a session speaks, from the feature ``prosody``: one row for each person."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from storyframes import MAIN, FeatureName, FeatureStore, ticks
from storyframes.store import StoreError
from storyframes_prosody.extractor import COLUMNS, overlaps_s, pauses_before

FEATURE = "prosody"
_UNNAMED = re.compile(r"(speaker|spk)[ _-]?([a-z]|\d{1,3})|[a-z]", re.IGNORECASE)  # by a recogniser, or for a name
_TOLERATED_S = 0.1  # speech of others, in a release, which does not have the setting
_MEDIANS = (
    *("f0_median_hz", "f0_range_st", "f0_slope_st_s"),
    *("intensity_db", "jitter_local", "shimmer_local", "hnr_db", "voiced_share"),
)


def person_table(store: FeatureStore, session_id: str, tracks: Sequence[str] = ()) -> pd.DataFrame:
    """A row for each person of a session.

    Persons are the speakers; the speech of a track without a name for its only speaker is that of a person with the
    track's name. Times are the session's.

    Args:
        tracks: whose utterances count, ``main`` for the session's own. Without any: all that have the feature, but not
            the session's own where its speakers are those of tracks (it was joined from them).

    Raises:
        StoreError: no feature ``prosody``, it failed for a track, nobody speaks, or it is not known how the clock of a
            track runs, or whether the session's own utterances are also those of its tracks.
    """
    features = features_of(store, session_id)
    if unknown := [track for track in tracks if FeatureName.of_track(FEATURE, track) not in features]:
        having = ", ".join(FeatureName(name).track for name in features)
        raise StoreError(f"{session_id}: the track {unknown[0]!r} has no feature {FEATURE!r}; these have it: {having}")
    if not features:
        raise StoreError(f"{session_id} has no feature {FEATURE!r}: extract it with --features {FEATURE}")
    for status in store.statuses(session_id):
        name = FeatureName(status.feature)
        is_failed = str(status.status) == "failed" and not status.current
        if is_failed and name.feature == FEATURE and name.track in (tracks or [name.track]):
            raise StoreError(
                f"{session_id}/{name} failed, so shares would be of the other persons: extract it, or choose others "
                f"with --track {','.join(FeatureName(feature).track for feature in features)}"
            )
    features = [name for name in features if not tracks or FeatureName(name).track in tracks]
    of_features = {name: _utterances(store, session_id, name) for name in features}
    if not tracks and len(features) > 1 and FEATURE in features:
        _drop_joined(session_id, of_features)
    _name_persons(of_features)
    utterances = pd.concat(of_features.values()).sort_values("start", kind="stable").reset_index(drop=True)
    start, end = utterances["start"].to_numpy(), utterances["end"].to_numpy()
    if not (end > start).any():
        raise StoreError(f"{session_id}: its transcript has no utterances, or none with a length")
    person, persons = pd.factorize(utterances["person"])
    utterances["seconds"], utterances["overlap_s"] = end - start, overlaps_s(start, end, person)
    is_clear = ticks(utterances["overlap_s"]) <= ticks(utterances["tolerated_s"])
    utterances["is_clear"] = (utterances["mask"] > 0) & is_clear
    # The feature knows the utterances of its own track alone.
    utterances["pause_before_s"] = pauses_before(start, end, person) + 0 * utterances["pause_before_s"]
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
                "caveats": "; ".join(dict.fromkeys(own["caveats"][own["caveats"] != ""])),
            }
        )
    return pd.DataFrame(rows)


def features_of(store: FeatureStore, session_id: str) -> list[str]:
    """The features ``prosody`` of a session and its tracks, the session's own first."""
    tracks = store.tracks(session_id) if session_id in store.sessions else []
    names = [FeatureName.of_track(FEATURE, track) for track in tracks]
    return [name for name in names if store.has(session_id, name)]


def _utterances(store: FeatureStore, session_id: str, feature: str) -> pd.DataFrame:
    """The utterances of one track."""
    frame = store.to_pandas(session_id, feature)
    caveats = "; ".join(frame.attrs["caveats"])
    frame.attrs.clear()  # pandas copies all of them whenever a column is taken
    if frame.index.name != "time":
        raise StoreError(
            f"{session_id}/{feature}: the store does not know the clock of its track; "
            "'storyframes index STUDY STORE' writes it"
        )
    if lacking := [name for name in (*COLUMNS, "speaker") if name not in frame]:
        raise StoreError(f"{session_id}/{feature} has no column {lacking[0]!r}: the table needs all of the feature")
    provenance = store.attributes(session_id, feature).get("provenance", {})
    tolerated_s = provenance.get("settings", {}).get("overlap_s", _TOLERATED_S)
    frame = frame.rename_axis("start").reset_index()
    return frame.assign(feature=feature, caveats=caveats, tolerated_s=tolerated_s)


def _drop_joined(session_id: str, of_features: dict[str, pd.DataFrame]) -> None:
    """Leave out the session's own utterances where all are of named speakers of the tracks."""
    own, *others = ({*frame["speaker"].astype(str)} for frame in of_features.values())
    if any(map(_UNNAMED.fullmatch, own)) or not own <= set().union(*others):
        tracks = ",".join(FeatureName(name).track for name in of_features if name != FEATURE)
        raise StoreError(
            f"{session_id}: the session's own utterances may be those of its tracks, or other persons': choose what "
            f"counts, --track {MAIN}, --track {tracks} or --track {MAIN},{tracks}"
        )
    del of_features[FEATURE]


def _name_persons(of_features: dict[str, pd.DataFrame]) -> None:
    """Add the person of each utterance: two tracks have a person in common in no case."""
    labels = [label for frame in of_features.values() for label in frame["speaker"].astype(str).unique()]
    for feature, frame in of_features.items():
        track, speaker = FeatureName(feature).track, frame["speaker"].astype(str)
        names = {
            label: label
            if track == MAIN or (labels.count(label) == 1 and not _UNNAMED.fullmatch(label))
            else (f"{track}/{label}" if speaker.nunique() > 1 or track in labels else track)
            for label in speaker.unique()
        }
        frame["person"] = speaker.map(names)


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
