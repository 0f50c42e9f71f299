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

A turn is all that a person says until another has the floor, pauses included. Times are compared in whole microseconds:
as fractions of a second, an overlap of exactly 0.2 s may be shorter than 0.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from storyframes import ticks

PER_SECOND = int(ticks(1))
JOIN_S = 0.18
BACKCHANNEL_S = 1.0
INTERRUPTION_S = 0.2
RULE, RULE_COLUMN = 2, "rule"
"""The version of these rules, and the column of the tables that has it. Tables of the first rules, which compared
fractions of seconds, have none."""
FEATURE, FEATURE_CODE = "turns", f"storyframes-dyads: turn_feature {RULE}"
"""The feature of the store, and what its provenance says of the code that made it."""

Talkspurts = Mapping[str, np.ndarray]
"""By person, (n, 2) the beginning and end of each talkspurt, seconds to the microsecond, in order and apart."""


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
    spans, longest = np.stack([ticks(start_s), ticks(end_s)], axis=1), int(ticks(join_s))
    spurts: list[list[int]] = []
    for start, end in spans[np.argsort(spans[:, 0], kind="stable")].tolist():
        if spurts and start - spurts[-1][1] <= longest:
            spurts[-1][1] = max(spurts[-1][1], end)
        elif end > start:
            spurts.append([start, end])
    return np.array(spurts, float).reshape(-1, 2) / PER_SECOND


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
    longest_backchannel, shortest_interruption = int(ticks(backchannel_s)), int(ticks(interruption_s))
    spurts = [(start, end, person) for person, rows in speech.items() for start, end in ticks(rows).tolist()]
    spurts.sort(key=lambda spurt: (spurt[0], -spurt[1]))
    turns: list[Turn] = []
    events: list[TurnEvent] = []
    floor_end = spurts[0][1] if spurts else 0  # when the last turn ends
    for start, end, person in spurts:
        if not turns:
            turns.append(Turn(person, _seconds(start), _seconds(end), np.nan, interrupts=False))
        elif person == turns[-1].person:
            if start > floor_end:
                events.append(TurnEvent(Event.PAUSE, person, _seconds(floor_end), _seconds(start)))
            turns[-1] = replace(turns[-1], end_s=_seconds(max(end, floor_end)))
        elif end <= floor_end:
            kind = Event.BACKCHANNEL if end - start <= longest_backchannel else Event.OVERLAP_WITHIN
            events.append(TurnEvent(kind, person, _seconds(start), _seconds(end)))
        else:
            interrupts = floor_end - start >= shortest_interruption
            if start > floor_end:
                events.append(TurnEvent(Event.GAP, person, _seconds(floor_end), _seconds(start)))
            elif start < floor_end:
                kind = Event.INTERRUPTION if interrupts else Event.OVERLAP
                events.append(TurnEvent(kind, person, _seconds(start), _seconds(floor_end)))
            latency_s = _seconds(start - floor_end)
            turns.append(Turn(person, _seconds(start), _seconds(end), latency_s, interrupts))
        floor_end = max(end, floor_end)
    return turns, events


def _seconds(microseconds: int) -> float:
    return microseconds / PER_SECOND


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
    seconds = {person: _total_s(ticks(rows)) for person, rows in speech.items()}
    together = sum(seconds.values())
    ends = ticks(np.concatenate([*speech.values()]))
    first, last = (int(ends.min()), int(ends.max())) if len(ends) else (0, 0)
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
                turn_s_median=_median_length(own),
                latency_s_median=_median([turn.latency_s for turn in own if np.isfinite(turn.latency_s)]),
                interruptions=sum(event.kind is Event.INTERRUPTION for event in made),
                backchannels=sum(event.kind is Event.BACKCHANNEL for event in made),
                pause_s_median=_median_length([event for event in made if event.kind is Event.PAUSE]),
                unknown_s=_seconds(last - first) - _total_s(np.clip(ticks(known[person]), first, last)),
            )
        )
    return result


def _total_s(spans: np.ndarray) -> float:
    """How long (n, 2) spans are together, which are in ticks."""
    return _seconds(int(np.diff(spans, axis=1).sum()))


def _median_length(spans: Sequence[Turn | TurnEvent]) -> float:
    return _median([_seconds(int(ticks(span.end_s) - ticks(span.start_s))) for span in spans])


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else np.nan
