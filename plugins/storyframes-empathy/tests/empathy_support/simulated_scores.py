"""Simulated ratings and scores of participants with three sessions of three stories each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from storyframes_empathy.scores.run_record import Level, Run
from storyframes_empathy.scores.scored_rows import Scored

_SESSIONS, _STORIES, _CLIPS = 3, 3, 4
_RUN = Run.model_validate({"phase": "story_share", "model": "simulated", "modalities": "t"})


@dataclass(frozen=True)
class Population:
    """How participants differ; standard deviations, where that of a story's own empathy is 1.

    Attributes:
        name: of the row.
        participant, session: of what ratings and scores each owe to the participant and to the session.
        knowledge: how much of a rating the scores know; 0 for none.
        length: of the logarithm of how many clips a participant has; 0 where all have as many.
    """

    name: str
    participant: float
    session: float
    knowledge: float = 0.8
    length: float = 0.0


POPULATIONS = (
    Population("alike", 0.2, 0.2),
    Population("some differ", 0.5, 0.4),
    Population("differ much", 1.0, 0.6),
    Population("of different length", 0.5, 0.4, length=0.7),
    Population("both", 0.9, 0.4, length=0.7),
    Population("scores know little", 0.5, 0.4, knowledge=0.15),
)


def simulate(population: Population, people: int, generator: np.random.Generator) -> Scored:
    """Clips of so many participants."""
    sessions, stories = people * _SESSIONS, people * _SESSIONS * _STORIES
    session = np.repeat(np.arange(sessions), _STORIES)  # of each story
    participant = session // _SESSIONS

    def by_group() -> np.ndarray:
        of_participants = population.participant * generator.normal(size=people)
        return of_participants[participant] + population.session * generator.normal(size=sessions)[session]

    ratings = np.clip(np.round(2.8 + 1.1 * (by_group() + generator.normal(size=stories))), 1, 5)
    expected = 0.45 + 0.12 * (population.knowledge * (ratings - 2.8) + 1.2 * by_group())
    lengths = np.exp(population.length * generator.normal(size=people))
    story = np.repeat(np.arange(stories), np.maximum(1, np.round(_CLIPS * lengths)).astype(int)[participant])
    scores = expected[story] + 0.15 * generator.normal(size=len(story))
    ones = np.ones(len(story), int)
    return Scored(
        _RUN, Level.CLIP, scores, 0.5, ratings[story], ones, participant[story], story, session[story], 0
    )  # fmt: skip
