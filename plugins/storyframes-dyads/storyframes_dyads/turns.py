"""Turns of two people: who holds the floor, gaps, overlaps, interruptions and backchannels.

Speech becomes talkspurts: stretches of one person's speech in which no silence is longer than 0.18 s, the length of a
stop consonant's closure (Heldner, M. and Edlund, J. (2010), "Pauses, gaps and overlaps in conversations", Journal of
Phonetics 38(4), 555-568). Between talkspurts are, in their words, pauses (the same person goes on), gaps (another
begins after the first has ended), overlaps between speakers (another begins before, and then has the floor) and
overlaps within a speaker (another begins and ends while the first speaks, who keeps the floor).

Of these, this module names

- **backchannel**: an overlap within a speaker of at most ``backchannel_s`` seconds ("mhm");
- **interruption**: an overlap between speakers of at least ``interruption_s`` seconds;
- **response latency**: from the end of a turn to the beginning of the other person's, negative in an overlap (the floor
  transfer offset of Levinson, S. C. and Torreira, F. (2015), Frontiers in Psychology 6:731).

A turn is all that a person says until another has the floor, pauses included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

JOIN_S = 0.18
BACKCHANNEL_S = 1.0
INTERRUPTION_S = 0.2

Talkspurts = Mapping[str, np.ndarray]
"""By person, (n, 2) the beginning and end of each talkspurt, seconds, in order and apart."""


class Event(StrEnum):
    """What happens at a moment between two people."""

    PAUSE = "pause"
    GAP = "gap"
    OVERLAP = "overlap"
    INTERRUPTION = "interruption"
    BACKCHANNEL = "backchannel"
    OVERLAP_WITHIN = "overlap within"


@dataclass(frozen=True)
class Turn:
    """One person's turn.

    Attributes:
        latency_s: from the end of the other's turn to this beginning, negative in an overlap; NaN for the first.
        interrupts: whether it began with an interruption.
    """

    person: str
    start_s: float
    end_s: float
    latency_s: float
    interrupts: bool


@dataclass(frozen=True)
class TurnEvent:
    """A pause, gap, overlap or backchannel.

    Attributes:
        person: who pauses, or who begins.
        start_s, end_s: when it lasts.
    """

    kind: Event
    person: str
    start_s: float
    end_s: float


def talkspurts(start_s: np.ndarray, end_s: np.ndarray, join_s: float = JOIN_S) -> np.ndarray:
    """(n, 2) the talkspurts of one person's words or voiced stretches; silences of up to ``join_s`` seconds are joined.

    Args:
        start_s, end_s: (m,) in any order; they may overlap.

    Example:
        >>> talkspurts(np.array([0.0, 0.5, 2.0]), np.array([0.4, 1.0, 2.5])).tolist()
        [[0.0, 1.0], [2.0, 2.5]]
    """
    order = np.argsort(start_s, kind="stable")
    spurts: list[list[float]] = []
    for start, end in zip(np.asarray(start_s, float)[order], np.asarray(end_s, float)[order], strict=True):
        if spurts and start - spurts[-1][1] <= join_s + 1e-9:
            spurts[-1][1] = max(spurts[-1][1], float(end))
        elif end > start:
            spurts.append([float(start), float(end)])
    return np.array(spurts, float).reshape(-1, 2)


def turns_of(
    speech: Talkspurts, backchannel_s: float = BACKCHANNEL_S, interruption_s: float = INTERRUPTION_S
) -> tuple[list[Turn], list[TurnEvent]]:
    """The turns of two people, and what lies between and within them, in order.

    Where both begin at one moment, the longer talkspurt has the floor.

    Raises:
        ValueError: there are not two people.
    """
    if len(speech) != 2:
        raise ValueError(f"turns are of two people, not of {len(speech)}")
    spurts = [(float(start), float(end), person) for person, rows in speech.items() for start, end in rows]
    spurts.sort(key=lambda spurt: (spurt[0], -spurt[1]))
    turns: list[Turn] = []
    events: list[TurnEvent] = []
    for start, end, person in spurts:
        if not turns:
            turns.append(Turn(person, start, end, np.nan, interrupts=False))
            continue
        turn = turns[-1]
        if person == turn.person:
            if start > turn.end_s:
                events.append(TurnEvent(Event.PAUSE, person, turn.end_s, start))
            turns[-1] = Turn(person, turn.start_s, max(end, turn.end_s), turn.latency_s, turn.interrupts)
        elif end <= turn.end_s:
            kind = Event.BACKCHANNEL if end - start <= backchannel_s else Event.OVERLAP_WITHIN
            events.append(TurnEvent(kind, person, start, end))
        else:
            latency = start - turn.end_s
            interrupts = -latency >= interruption_s
            if latency > 0:
                events.append(TurnEvent(Event.GAP, person, turn.end_s, start))
            elif latency < 0:
                events.append(TurnEvent(Event.INTERRUPTION if interrupts else Event.OVERLAP, person, start, turn.end_s))
            turns.append(Turn(person, start, end, latency, interrupts))
    return turns, events


@dataclass(frozen=True)
class PersonSummary:
    """What a session says of one of its two people.

    Attributes:
        speech_s: seconds of talkspurts; ``speech_share`` of both people's.
        turns, turn_s_median: how many turns, and their median length.
        latency_s_median: of the turns that follow the other's.
        interruptions, backchannels: how many the person made.
        pause_s_median: within the person's turns.
        unknown_s: between the first and the last talkspurt of the session, seconds of which it is not known whether the
            person speaks; they count as silence.
    """

    person: str
    speech_s: float
    speech_share: float
    turns: int
    turn_s_median: float
    latency_s_median: float
    interruptions: int
    backchannels: int
    pause_s_median: float
    unknown_s: float


def summaries(
    speech: Talkspurts, known: Mapping[str, np.ndarray], turns: list[Turn], events: list[TurnEvent]
) -> list[PersonSummary]:
    """A summary of each person.

    Args:
        known: by person, (m, 2) the stretches of which it is known whether the person speaks.
    """
    seconds = {person: float((rows[:, 1] - rows[:, 0]).sum()) for person, rows in speech.items()}
    together = sum(seconds.values())
    ends = np.concatenate([*speech.values()])
    first, last = (ends.min(), ends.max()) if len(ends) else (0.0, 0.0)
    result = []
    for person in speech:
        own = [turn for turn in turns if turn.person == person]
        made = [event for event in events if event.person == person]
        result.append(
            PersonSummary(
                person=person,
                speech_s=seconds[person],
                speech_share=seconds[person] / together if together else np.nan,
                turns=len(own),
                turn_s_median=_median([turn.end_s - turn.start_s for turn in own]),
                latency_s_median=_median([turn.latency_s for turn in own if np.isfinite(turn.latency_s)]),
                interruptions=sum(event.kind is Event.INTERRUPTION for event in made),
                backchannels=sum(event.kind is Event.BACKCHANNEL for event in made),
                pause_s_median=_median([e.end_s - e.start_s for e in made if e.kind is Event.PAUSE]),
                unknown_s=float(last - first - np.diff(np.clip(known[person], first, last), axis=1).sum()),
            )
        )
    return result


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else np.nan
