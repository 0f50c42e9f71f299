"""Findings of data quality: the rules, their thresholds, and the spans of time that a finding lists."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

Span = tuple[float, float]


class NothingToLookAtError(Exception):
    """The session has no data for a rule; the message says what is missing."""


class Rule(StrEnum):
    """The rules; a finding breaks one."""

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
    """The values beyond which there is a finding."""

    face_lost: float = 0.2  # share of the frames without a face
    face_gap_s: float = 1.0  # gaps of so many seconds without a face are listed
    face_jump: float = 1.0  # movement of a face's centre between two frames, in sides of the square around it
    face_resize: float = 1.6  # how many times larger or smaller it becomes
    face_jump_s: float = 0.25  # frames further apart than this are not compared: people move
    silence_db: float = -60.0  # dB below full scale; quieter is silence
    silence_s: float = 10.0  # seconds of silence in a row
    # Mean level of a 60 ms window, where the samples were not decoded. A voice whose peaks just reach full scale is
    # below it.
    clipping_db: float = -6.0
    frozen_change: float = 0.001  # change between two equal frames, relative to the vectors' norm
    frozen_s: float = 1.0  # seconds without change in a row
    duplicated: float = 0.05  # share of the frames that are equal to the one before
    lengths_s: float = 0.5  # seconds between the end of the picture and the end of the sound
    jump: float = 1.75  # a step between two frames' times, as a multiple of the usual step
    voiced: float = 0.1  # share of an utterance's time that has a pitch
    utterance_s: float = 0.5  # shorter utterances are not judged: a short word may have no voiced sound


@dataclass(frozen=True)
class QualityFinding:
    """A broken rule, for a person to look at."""

    rule: Rule
    rule_text: str  # the rule in words, with its numbers
    message: str
    spans: tuple[Span, ...] = ()  # (start, stop) seconds, in order; empty where it concerns the whole session


def spans_where(flags: np.ndarray, time: np.ndarray, end_s: float, at_least_s: float) -> tuple[Span, ...]:
    """The spans of consecutive rows with ``flags`` set; a row lasts until the next one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    times = np.append(time, end_s)
    spans = [(float(times[start]), float(times[stop])) for start, stop in edges.reshape(-1, 2)]
    return tuple(span for span in spans if span[1] - span[0] >= at_least_s - 1e-9)


def merged(spans: tuple[Span, ...], gap_s: float) -> tuple[Span, ...]:
    """Spans with less than ``gap_s`` between them become one."""
    merged: list[Span] = []
    for start, stop in spans:
        if merged and start - merged[-1][1] < gap_s:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)


def total_s(spans: tuple[Span, ...]) -> float:
    return sum(stop - start for start, stop in spans)
