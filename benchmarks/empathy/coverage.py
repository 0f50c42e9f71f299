"""How often intervals of scores hold the true value, and how often chance gets a p below 0.05: by simulation.

A population of participants is made, each with three sessions of three stories and some clips of each; its own r, Acc,
F1 and MSE are the truth. Test sets of a few participants are drawn from it, and scored by the code that ``storyframes
evaluate`` runs.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from storyframes_empathy.scores.intervals import participant_intervals, permutation_p
from storyframes_empathy.scores.run_record import Level, Run
from storyframes_empathy.scores.scored_rows import Scored

METRICS = ("r", "rho", "acc", "f1", "mse")
PEOPLE = (4, 8, 20, 60)
_POPULATION = 3_000  # participants
_SESSIONS, _STORIES, _CLIPS = 3, 3, 4
_RUN = Run(phase="story_share", model="simulated", modalities="t")


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


def print_coverage(draws: int) -> None:
    """How often the interval of each metric holds the population's value, in per cent of the intervals that exist."""
    print(f"Intervals that hold the true value, % of {draws:,} test sets of so many participants (nominal: 95)")
    print("(in brackets, where it is not 0: % of test sets for which there is no interval)\n")
    rows = []
    for population in POPULATIONS:
        whole = simulate(population, _POPULATION, np.random.default_rng(0))
        truth = {name: getattr(whole.metrics(), name) for name in METRICS}
        first = np.searchsorted(whole.participants, np.arange(_POPULATION + 1))
        for people in PEOPLE:
            generator = np.random.default_rng(people)
            held, exist = dict.fromkeys(METRICS, 0), dict.fromkeys(METRICS, 0)
            for _ in range(draws):
                drawn = generator.integers(0, _POPULATION, people)
                for name, one in participant_intervals(_of(whole, first, drawn)).items():
                    if name in METRICS and not math.isnan(one.low):
                        exist[name] += 1
                        held[name] += one.low <= truth[name] <= one.high
            cells = (
                f"{100 * held[name] / exist[name]:.1f}"
                + (f" ({100 * none:.1f})" if (none := 1 - exist[name] / draws) >= 0.0005 else "")
                for name in METRICS
            )
            rows.append([population.name, str(people), *cells])
    record("intervals", ("participants differ", "participants", *METRICS), rows, ["scipy"])


def print_size(draws: int) -> None:
    """How often p is below 0.05 where scores know nothing of ratings, but both depend on participant and session."""
    print(f"\nScores that know nothing: p below 0.05, % of {draws:,} test sets\n")
    rows = []
    for population in (*POPULATIONS[:4], Population("sessions differ much", 0.3, 1.5)):
        cells = []
        for people in PEOPLE[:3]:
            generator = np.random.default_rng(people)
            blind = Population("", population.participant, population.session, 0.0, population.length)
            found = [permutation_p(simulate(blind, people, generator), draws=199, seed=at) for at in range(draws)]
            cells.append(f"{100 * np.mean(np.array(found) <= 0.05):.1f}")
        rows.append([population.name, *cells])
    record("intervals-2", ("participants differ", *map(str, PEOPLE[:3])), rows, ["scipy"])


def _of(whole: Scored, first: np.ndarray, drawn: np.ndarray) -> Scored:
    """The clips of these participants, one that was drawn twice as two."""
    rows = np.concatenate([np.arange(first[one], first[one + 1]) for one in drawn])
    participants = np.repeat(np.arange(len(drawn)), np.diff(first)[drawn])
    return Scored(
        whole.run, whole.level, whole.scores[rows], whole.score_threshold, whole.ratings[rows], whole.copies[rows],
        participants, whole.stories[rows], whole.sessions[rows], 0,
    )  # fmt: skip


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    print_machine()
    print_coverage(draws)
    print_size(draws)


if __name__ == "__main__":
    main()
