"""Whose voice each is, by when the persons' feature ``speaking`` says that they speak, as mouths show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from storyframes import Clock, FeatureName, FeatureStore, read_speech
from storyframes_transcribe.one_microphone.turns import Turns
from storyframes_transcribe.speakers import persons_of_tracks
from tasks.study import Study

_CLEAR = 6.0  # standard errors: one mouth has to differ by three between its voice and the other one
_FEWEST = 3  # turns of a voice, and of all others
_LEAST_S = 0.5  # of a turn
_PAUSE_S = 1.0  # a longer one ends a turn
_SURE = 0.9
_LEAST_PROBABILITY = 0.01


def read_mouths(study: Study, store: FeatureStore, session_id: str) -> dict[str, np.ndarray]:
    """By person, (n, 2) seconds of the session and the ``speaking`` of her track.

    Of a microphone of several people it is taken only where mouths have decided it.

    Raises:
        StoreError: a feature cannot be read.
    """
    persons = persons_of_tracks(study, store, session_id)
    notes = {track: store.attributes(session_id, FeatureName.of_track("speaking", track)) for track in persons}
    tracks = [track for track in persons if notes[track].get("mouth") or not notes[track].get("is_shared")]
    speech = read_speech(store, session_id, tracks)
    return {persons[track]: np.stack([one.time_s, one.probability], axis=1) for track, one in speech.items()}


def match_mouths(
    turns: Turns, clock: Clock, speech: Mapping[str, np.ndarray], persons: Sequence[str]
) -> dict[int, str]:
    """By voice, whose it is; only what is clear.

    A person's log-odds of speaking are averaged over each turn, since steps of one turn are alike. Each voice and
    person have a score: by how many standard errors the turns of this voice are above those of the others.
    The voices are assigned to the persons so that the sum is largest; a pair is clear if without it the sum is smaller
    by :data:`_CLEAR`.

    Args:
        clock: of the microphone.
        speech: by person, (n, 2) seconds of the session, ascending, and how likely she speaks.
        persons: all who may speak; those without ``speech`` may have any voice.
    """
    from scipy.optimize import linear_sum_assignment

    spans = [(voice, *clock.to_session(times).tolist()) for voice, *times in _turns(turns)]
    voices = np.array([voice for voice, _, _ in spans], int)
    scores = np.zeros((turns.probability.shape[1], len(persons)))
    for column, person in enumerate(persons):
        if person in speech:
            means = np.array([_log_odds(speech[person], start_s, end_s) for _, start_s, end_s in spans])
            for voice in range(len(scores)):
                own, others = (means[is_of & ~np.isnan(means)] for is_of in (voices == voice, voices != voice))
                if min(len(own), len(others)) >= _FEWEST:
                    # 1: no mean is surer than to one unit of log-odds
                    error = np.sqrt((own.var() + 1) / len(own) + (others.var() + 1) / len(others))
                    scores[voice, column] = (own.mean() - others.mean()) / error
    rows, columns = linear_sum_assignment(scores, maximize=True)
    owners = {}
    for voice, column in zip(rows.tolist(), columns.tolist(), strict=True):
        without = scores.copy()
        without[voice, column] = -1e6
        second = without[linear_sum_assignment(without, maximize=True)].sum()
        if scores[voice, column] > 0 and scores[rows, columns].sum() - second >= _CLEAR:
            owners[voice] = persons[column]
    return owners


def _turns(turns: Turns) -> list[tuple[int, float, float]]:
    """Voice, start and end of the turns in which one voice is clear."""
    found: list[tuple[int, float, float]] = []
    is_clear = (turns.probability.max(axis=1, initial=0.0) >= _SURE) & ~turns.is_doubtful
    for start_s, end_s, voice in zip(
        turns.start_s[is_clear], turns.end_s[is_clear], turns.probability[is_clear].argmax(axis=1), strict=True
    ):
        if found and found[-1][0] == voice and start_s - found[-1][2] < _PAUSE_S:
            start_s = found.pop()[1]
        found.append((int(voice), float(start_s), float(end_s)))
    return [turn for turn in found if turn[2] - turn[1] >= _LEAST_S]


def _log_odds(speech: np.ndarray, start_s: float, end_s: float) -> float:
    """The mean in a turn; NaN where most of it is not known."""
    steps = speech[slice(*np.searchsorted(speech[:, 0], [start_s, end_s])), 1]
    known = np.clip(steps[~np.isnan(steps)], _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return float(np.log(known / (1 - known)).mean()) if 2 * len(known) > len(steps) else float("nan")
