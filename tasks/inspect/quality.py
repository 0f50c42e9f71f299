"""What is wrong with a recording, judged by its features: each finding has its rule and its times.

The rules are deliberately few and simple, so that a person can check each by eye on the session's page. They point at
what to look at; none of them changes a feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tasks.inspect.curves import SessionCurves, Utterances
from tasks.media.clipping import RUN

Span = tuple[float, float]


class Rule(StrEnum):
    """What a finding breaks."""

    FACE_LOST = "face lost"
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


def find_problems(curves: SessionCurves, thresholds: Thresholds | None = None) -> list[QualityFinding]:
    """Every finding of a session, in the order of :class:`Rule`.

    Args:
        curves: what the features say.
        thresholds: where a finding begins; the defaults otherwise.
    """
    limits = thresholds or Thresholds()
    return [finding for check in _CHECKS for finding in check(curves, limits)]


def _face_lost(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if curves.tracked is None or not len(curves.tracked):
        return
    lost = ~curves.tracked
    share = float(lost.mean())
    if share > limits.face_lost:
        yield QualityFinding(
            Rule.FACE_LOST,
            f"a face is tracked in at least {1 - limits.face_lost:.0%} of the frames",
            f"no face in {share:.1%} of the frames; times: gaps of {limits.face_gap_s:g} s and more",
            _runs(lost, curves.time, curves.end_s, limits.face_gap_s),
        )


def _silence(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if curves.loudness is None or curves.sound_time is None:
        return
    spans = _runs(curves.loudness < limits.silence_db, curves.sound_time, _sound_end(curves), limits.silence_s)
    if spans:
        yield QualityFinding(
            Rule.SILENCE,
            f"no {limits.silence_s:g} s in a row are quieter than {limits.silence_db:g} dB of full scale",
            f"silent for {_total(spans):.1f} s in all",
            spans,
        )


def _clipping(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if curves.clipped is not None:
        if curves.clipped:
            rule = f"no channel has {RUN} samples in a row at full scale (judged by the samples)"
            message = f"cut off at full scale at {len(curves.clipped)} places"
            yield QualityFinding(Rule.CLIPPING, rule, message, curves.clipped)
        return
    if curves.loudness is None or curves.sound_time is None:
        return
    spans = _merge(_runs(curves.loudness > limits.clipping_db, curves.sound_time, _sound_end(curves), 0.0), 0.2)
    if spans:
        yield QualityFinding(
            Rule.CLIPPING,
            f"no 60 ms have a mean level above {limits.clipping_db:g} dB of full scale: a voice that loud is cut off "
            "at its peaks (judged by the level, not by the samples)",
            f"too loud for {_total(spans):.2f} s in all",
            spans,
        )


def _frozen(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if curves.change is None:
        return
    same = curves.change <= limits.frozen_change  # NaN, the first frame's, is not
    spans = _runs(same, curves.time, curves.end_s, limits.frozen_s)
    if spans:
        yield QualityFinding(
            Rule.FROZEN,
            f"the picture changes at least every {limits.frozen_s:g} s (ResNet50, by more than "
            f"{limits.frozen_change:.1%} of the vectors' norm)",
            f"the picture stands still for {_total(spans):.1f} s in all",
            spans,
        )
    share = float(same.mean()) if len(same) else 0.0
    if share > limits.duplicated:
        yield QualityFinding(
            Rule.DUPLICATED,
            f"at most {limits.duplicated:.0%} of the frames are the same as the one before",
            f"{share:.1%} of the frames are the same as the one before",
            _merge(_runs(same, curves.time, curves.end_s, 0.0), 1.0),
        )


def _lengths(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if curves.sound_end_s is None or curves.sound_time is None:
        return
    start_s = float(curves.sound_time[0])
    if abs(start_s) > limits.lengths_s:
        where = "after" if start_s > 0 else "before"
        yield QualityFinding(
            Rule.LENGTHS,
            f"picture and sound begin within {limits.lengths_s:g} s of each other",
            f"the sound begins {abs(start_s):.2f} s {where} the picture",
            (tuple(sorted((0.0, start_s))),),  # type: ignore[arg-type]
        )
    difference = curves.sound_end_s - curves.end_s
    if abs(difference) > limits.lengths_s:
        longer, shorter = ("sound", "picture") if difference > 0 else ("picture", "sound")
        yield QualityFinding(
            Rule.LENGTHS,
            f"picture and sound end within {limits.lengths_s:g} s of each other",
            f"the {longer} goes on for {abs(difference):.2f} s after the {shorter} has ended",
            (tuple(sorted((curves.end_s, curves.sound_end_s))),),  # type: ignore[arg-type]
        )


def _jump(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if len(curves.time) < 3:
        return
    steps = np.diff(curves.time)
    usual = float(np.median(steps))
    jumps = np.flatnonzero((steps > limits.jump * usual) | (steps <= 0))
    if len(jumps):
        yield QualityFinding(
            Rule.JUMP,
            f"frame times rise, and never by more than {limits.jump:g} times the usual step ({usual * 1000:.1f} ms)",
            f"{len(jumps)} jumps, the largest step is {steps.max():.3f} s",
            tuple((float(curves.time[at]), float(curves.time[at + 1])) for at in jumps),
        )


def _outside_speech(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if curves.utterances is None or curves.f0 is None or curves.sound_time is None:
        return
    spans = tuple(_unvoiced(curves.utterances, np.isfinite(curves.f0), curves.sound_time, limits))
    if spans:
        yield QualityFinding(
            Rule.OUTSIDE_SPEECH,
            f"every utterance of {limits.utterance_s:g} s and more has a pitch for at least {limits.voiced:.0%} of it",
            f"{len(spans)} of {len(curves.utterances.start_s)} utterances are where hardly a voice is heard",
            spans,
        )


def _unvoiced(of: Utterances, voiced: np.ndarray, time: np.ndarray, limits: Thresholds) -> Iterator[Span]:
    total = np.concatenate([[0], np.cumsum(voiced)])
    for start, end in zip(of.start_s.tolist(), of.end_s.tolist(), strict=True):
        first, stop = np.searchsorted(time, (start, end))
        share = (total[stop] - total[first]) / (stop - first) if stop > first else 0.0
        if end - start >= limits.utterance_s and share < limits.voiced:
            yield start, end


def _misfits(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    for trouble in curves.troubles:
        yield QualityFinding(Rule.MISFIT, "every per-frame feature has a row for every frame", trouble)


_CHECKS: tuple[Callable[[SessionCurves, Thresholds], Iterator[QualityFinding]], ...] = (
    _face_lost,
    _silence,
    _clipping,
    _frozen,
    _lengths,
    _jump,
    _outside_speech,
    _misfits,
)


def _sound_end(curves: SessionCurves) -> float:
    return curves.end_s if curves.sound_end_s is None else curves.sound_end_s


def _runs(flags: np.ndarray, time: np.ndarray, end_s: float, at_least_s: float) -> tuple[Span, ...]:
    """The spans in which ``flags`` is set throughout; a row lasts until the next one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    times = np.append(time, end_s)
    spans = [(float(times[start]), float(times[stop])) for start, stop in edges.reshape(-1, 2)]
    return tuple(span for span in spans if span[1] - span[0] >= at_least_s - 1e-9)


def _merge(spans: tuple[Span, ...], gap_s: float) -> tuple[Span, ...]:
    """Spans with less than ``gap_s`` between them become one."""
    merged: list[Span] = []
    for start, stop in spans:
        if merged and start - merged[-1][1] < gap_s:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)


def _total(spans: tuple[Span, ...]) -> float:
    return sum(stop - start for start, stop in spans)
