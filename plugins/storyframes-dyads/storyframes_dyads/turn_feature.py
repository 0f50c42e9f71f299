"""The feature ``turns``: who of two people speaks and who has the floor, each 0.1 s, so that clips can have it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from storyframes import ArraySpec, Axis, Derivation, FeatureSpec, FeatureStore, ticks
from storyframes_dyads.speech import SessionSpeech, SpeechOptions
from storyframes_dyads.turns import FEATURE, FEATURE_CODE, PER_SECOND, turns_of

RATE = 10
COLUMNS = ("first_speaks", "second_speaks", "overlap", "gap", "first_floor", "second_floor")
SPEC = FeatureSpec(
    name=FEATURE,
    about="who of two people speaks, and who has the floor",
    arrays={
        "values": ArraySpec(
            Axis.AUDIO_FRAME,
            "float32",
            "each 1 or 0 at that time: whether the first and the second person speak (within a talkspurt), both do, or "
            "nobody between the turns of two persons, and whose turn it is; NaN where it is not known",
            (len(COLUMNS),),
            ("column",),
            columns=COLUMNS,
        ),
        "time": ArraySpec(Axis.AUDIO_FRAME, "float64", "each 0.1 s, in the session", units="s"),
        "valid": ArraySpec(Axis.AUDIO_FRAME, "uint8", "1 where it is known of both whether they speak", fill=0),
    },
    mask="valid",
)


def turn_rows(speech: SessionSpeech, seconds: float) -> dict[str, np.ndarray]:
    """The feature's arrays; the first person is the first of ``speech``.

    Args:
        seconds: of the session.
    """
    time = np.arange(-(-int(ticks(seconds)) * RATE // PER_SECOND)) / RATE
    first_person = next(iter(speech.talkspurts))
    speaks = [within(time, rows) for rows in speech.talkspurts.values()]
    known = [within(time, rows) for rows in speech.known.values()]
    turns, _ = turns_of(speech.talkspurts)
    floor = np.zeros(len(time), np.int8)
    for turn in turns:  # a later turn takes the floor of an earlier one that has not ended
        floor[within(time, np.array([[turn.start_s, turn.end_s]]))] = 1 if turn.person == first_person else 2
    gaps = [(before.end_s, after.start_s) for before, after in pairwise(turns) if before.end_s < after.start_s]
    gap = within(time, np.array(gaps).reshape(-1, 2))
    both_known = known[0] & known[1]
    columns = [*speaks, speaks[0] & speaks[1], gap, floor == 1, floor == 2]
    is_known = [*known, *[both_known] * 4]
    values = [np.where(mask, column, np.nan) for mask, column in zip(is_known, columns, strict=True)]
    return {"values": np.stack(values, axis=1).astype(np.float32), "time": time, "valid": both_known.astype(np.uint8)}


def publish_turns(
    store: FeatureStore, session_id: str, features: list[str], options: SpeechOptions, speech: SessionSpeech
) -> None:
    """Make the feature of one session, if it is not there from the same speech.

    Args:
        features, options: of which ``speech`` was read.

    Raises:
        StoreError, PublishError, OSError: as of :meth:`storyframes.derivation.Derivation.publish`.
    """
    made = Derivation(SPEC, tuple(features), {"speech": features, **vars(options)}, FEATURE_CODE)
    if made.is_current(store, session_id):
        return
    seconds = len(store.to_pandas(session_id, features[0], rate=RATE)) / RATE
    made.publish(store, session_id, turn_rows(speech, seconds))


def within(time: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """(n,) bool: whether each time is in one of the (m, 2) spans, which are in order and apart.

    Example:
        >>> within(np.array([0.0, 1.0, 2.0]), np.array([[0.5, 1.5]])).tolist()
        [False, True, False]
    """
    if not len(spans):
        return np.zeros(len(time), bool)
    time, spans = ticks(time), ticks(spans)  # as fractions of a second, 0.1 + 0.2 is after 0.3
    row = np.searchsorted(spans[:, 0], time, side="right") - 1
    return np.asarray((row >= 0) & (time < spans[np.maximum(row, 0), 1]))
