"""A finding, the rules that one can break, and where each rule begins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Span = tuple[float, float]


class NothingToLookAtError(Exception):
    """The session has nothing that a rule judges; the message says what is lacking."""


class Rule(StrEnum):
    """What a finding breaks."""

    FACE_LOST = "face lost"
    FACE_JUMP = "face jumps"
    SILENCE = "silence"
    CLIPPING = "clipping"
    FROZEN = "frozen frames"
    DUPLICATED = "duplicated frames"
    LENGTHS = "lengths differ"
    JUMP = "timestamps jump"
    OUTSIDE_SPEECH = "transcript outside speech"
    MISFIT = "features do not fit"


@dataclass(frozen=True)
class Thresholds:
    """Where a finding begins.

    Attributes:
        face_lost: share of the frames without a face.
        face_gap_s: seconds without a face in a row that are listed with their times.
        face_jump: distance by which a face's centre moves from one frame to the next, in sides of the square around it.
        face_resize: how many times larger or smaller it becomes.
        face_jump_s: seconds between two frames, above which they are not compared: people move.
        silence_db: dB below full scale; everything quieter is silence.
        silence_s: seconds of silence in a row.
        clipping_db: mean level of a 60 ms window, where the samples were not looked at. A voice whose peaks just reach
            full scale stays below it.
        frozen_change: change between two frames, relative to the vectors' norm; up to this much they are the same.
        frozen_s: seconds without change in a row.
        duplicated: share of the frames that are the same as the one before.
        lengths_s: seconds between the end of the picture and the end of the sound.
        jump: a step between two frames' times, as a multiple of the usual one.
        voiced: share of an utterance's time that has a pitch.
        utterance_s: utterances shorter than this are not judged: a short word may have no voiced sound.
    """

    face_lost: float = 0.2
    face_gap_s: float = 1.0
    face_jump: float = 1.0
    face_resize: float = 1.6
    face_jump_s: float = 0.25
    silence_db: float = -60.0
    silence_s: float = 10.0
    clipping_db: float = -6.0
    frozen_change: float = 0.001
    frozen_s: float = 1.0
    duplicated: float = 0.05
    lengths_s: float = 0.5
    jump: float = 1.75
    voiced: float = 0.1
    utterance_s: float = 0.5


@dataclass(frozen=True)
class QualityFinding:
    """One thing to look at.

    Attributes:
        rule: what it breaks.
        rule_text: the rule in words, with its numbers.
        message: what was found.
        spans: (start, stop) seconds, in order; empty where the session as a whole is meant.
    """

    rule: Rule
    rule_text: str
    message: str
    spans: tuple[Span, ...] = ()
